"""Recognizes, lists and reads mini-swe-agent's `.traj.json` files: a list of messages, or an object
that contains them (newer versions).

Each answer has one command in a fenced block, or tool calls (newer versions). The next message
contains the output of the command and its return code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallStatus
from stator.importers.reading.counted_items import Steps, counted_items, settled_count
from stator.importers.reading.fields import (
    MICROS,
    files_touched_by,
    headline,
    record,
    records,
    tagged_texts,
    text,
    whole_number,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.json_document import (
    JsonDocument,
    read_document,
    single_conversation,
)
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.unnamed_messages import Dialogue, requested_call, shell_call
from stator.model.exchange.items import (
    Configured,
    Conversation,
    Cursor,
    Item,
    Unknown,
    text_id,
)
from stator.model.window.reply import usage_of

NAME = "mini-swe-agent"
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_LIST = re.compile(rb'\s*\[\s*\{\s*"role"\s*:\s*"system"')
_FENCED = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
_ISSUE = re.compile(r"^(?:Please solve this issue|<pr_description>)[: \t]*\n?(.*)", re.MULTILINE)


class MiniSweAgent:
    """The format of mini-swe-agent's trajectories."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        named = path.name.endswith(".traj.json")
        has_format = b'"trajectory_format"' in begin and b"mini-swe-agent" in begin
        listed = bool(_LIST.match(begin)) and (named or b"mswea" in begin)
        return listed or has_format or (named and b'"messages"' in begin)

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        value = read_document(str(path)).value
        messages = records(_messages(value))
        if not messages:
            return
        first_messages = [text(message.get("content")) for message in messages[:3]]
        asked = first_messages[1] if len(first_messages) > 1 else first_messages[0]
        issue = _ISSUE.search(asked)
        info = record(record(value).get("info"))
        status = text(info.get("exit_status"))
        conversation = Conversation(
            source=NAME,
            id=text_id("\n".join(first_messages), text(record(value).get("instance_id"))),
            name=headline(issue[1] if issue else asked) or path.stem,
            labels={"exit status": status} if status else {},
        )
        first = next(filter(None, (_time_of(message) for message in messages)), 0)
        yield single_conversation(path, conversation, first=first)

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        whole = read_document(found.path, progress)
        return counted_items(lambda: _steps(whole), cursor, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return False


FORMAT = MiniSweAgent()


def _messages(value: Any) -> list[Any]:
    given = value if isinstance(value, list) else record(value).get("messages")
    return given if isinstance(given, list) else []


def _steps(whole: JsonDocument) -> Steps:
    """One step for each message, and one for the end of the run. A message is final when another one
    follows it, or when the run has its exit status."""
    dialogue, messages = Dialogue(), _messages(whole.value)
    info = record(record(whole.value).get("info"))
    status = text(info.get("exit_status"))
    steps = [
        whole_line(_message(dialogue, number, message), number + 1)
        for number, message in enumerate(messages)
    ]
    settled = settled_count(steps, is_finished=bool(status))
    # Older files have no exit status. There, only a file at rest shows that the last command was the last.
    if status or _has_submitted(messages):
        is_ok = status in ("", "Submitted")
        steps.append(iter([dialogue.end("ok" if is_ok else "aborted", "" if is_ok else status)]))
    configured = _settings(info)
    if configured is not None:
        steps.insert(0, iter([configured]))
    extra = len(steps) - len(messages) if status else int(configured is not None)
    return Steps([*steps, iter(whole.skipped)], settled + extra)


def _settings(info: dict[str, Any]) -> Configured | None:
    model = record(record(info.get("config")).get("model"))
    given = {"model": text(model.get("model_name")), "version": text(info.get("mini_version"))}
    settings = {name: value for name, value in given.items() if value}
    return Configured(id="settings/start", settings=settings) if settings else None


def _has_submitted(messages: list[Any]) -> bool:
    """Whether the last answer's command submits the task."""
    answers = [text(m.get("content")) for m in records(messages) if m.get("role") == "assistant"]
    return bool(answers) and SUBMIT in answers[-1]


def _message(dialogue: Dialogue, number: int, message: Any) -> Iterator[Item]:
    if not isinstance(message, dict):
        yield Unknown(id=f"message/{number}", raw=message)
        return
    role, content = message.get("role"), strip_attachments(message.get("content"))
    extra, at = record(message.get("extra")), _time_of(message)
    if role == "system":
        yield dialogue.note(content, at)
    elif role == "assistant":
        yield from _answered(dialogue, message, extra, at)
    elif role in ("user", "tool") and dialogue.open_calls:
        yield _returned(dialogue, message, extra, at)
    elif role == "user":
        yield dialogue.prompt(content, at)
    elif role == "tool":
        yield dialogue.result(None, content, at=at, call=text(message.get("tool_call_id")))
    elif role == "exit":
        yield dialogue.note(content, at)
    else:
        yield Unknown(id=f"message/{number}", at=at, raw=strip_attachments(message))


def _answered(
    dialogue: Dialogue, message: dict[str, Any], extra: dict[str, Any], at: int
) -> Iterator[Item]:
    words = text(message.get("content"))
    calls = [requested_call(call, ()) for call in records(message.get("tool_calls"))]
    commands = _FENCED.findall(words)
    # with several commands, or none, mini-swe-agent runs nothing
    if not calls and len(commands) == 1:
        calls = [shell_call("bash", commands[0])]
    response = record(extra.get("response"))
    blocks = [{"type": "text", "text": words}] if words else []
    model = text(response.get("model"))
    yield from dialogue.answer(blocks, calls, at=at, usage=usage_of(response), model=model)


def _returned(dialogue: Dialogue, message: dict[str, Any], extra: dict[str, Any], at: int) -> Item:
    words = text(message.get("content"))
    named = text(message.get("tool_call_id"))
    call = dialogue.open_call(named) or dialogue.open_call()
    code = _CODE.search(words)
    recorded_code = extra.get("returncode")
    number = int(code[1]) if code else recorded_code if isinstance(recorded_code, int) else 0
    output = next(tagged_texts(words, ("output",)), None)
    status: CallStatus = "error" if number else "ok"
    if "timed out" in words[:200]:
        status = "timeout"
    given = record(call.input) if call is not None else {}
    return dialogue.result(
        call, output.body.strip("\n") if output else words, status, at=at, call=named,
        cause=f"exit code {number}" if number else "",
        files=files_touched_by(given.get("command")) if status == "ok" else (),
    )  # fmt: skip


def _time_of(message: dict[str, Any]) -> int:
    return _time(message.get("timestamp")) or _time(record(message.get("extra")).get("timestamp"))


def _time(value: Any) -> int:
    """Convert seconds since 1970 to µs."""
    return whole_number(value * MICROS) if isinstance(value, (int, float)) and value < 1e11 else 0
