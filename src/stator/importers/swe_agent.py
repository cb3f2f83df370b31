"""Recognizes, lists and reads SWE-agent's `.traj` files, which it rewrites after each action.

`history` contains what the model received; `trajectory` contains each action and its observation.
Calls have ids only if the model used tools; otherwise an action is a command in the text of the
answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import (
    files_touched_by,
    headline,
    joined_text,
    record,
    records,
    text,
    usage_units,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.json_document import read_document, single_conversation
from stator.importers.reading.jsonl import decode_json
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.unnamed_messages import Dialogue, RequestedCall, requested_call
from stator.model.exchange.items import (
    Called,
    Conversation,
    Cursor,
    Item,
    Noise,
    Touch,
    Unknown,
    text_id,
)
from stator.model.records.types import Effect, FileOp

NAME = "swe-agent"
READS = frozenset(
    "open goto scroll_up scroll_down search_dir search_file find_file submit view".split()
)
OWN = READS | frozenset("create edit insert str_replace_editor".split())
"""SWE-agent's own commands; all others are shell commands."""
_KEYS = (b'"trajectory"', b'"history"')
_SHOWN = re.compile(r"\[File: ([^\n]{1,500}?)(?: \(\d+ lines total[^)]*\))?\]")


class SweAgent:
    """The format of SWE-agent's trajectories."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        if begin.lstrip()[:1] != b"{" or not any(key in begin for key in _KEYS):
            return False
        return path.suffix == ".traj" or (b'"environment"' in begin and b'"observation"' in begin)

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        whole = record(read_document(str(path)).value)
        history = records(whole.get("history"))
        actions = records(whole.get("trajectory"))
        if not history and not actions:
            return
        first_messages = [text(m.get("content")) for m in history if m.get("is_demo") is not True][
            :3
        ]
        first = text(actions[0].get("response")) if actions else ""
        state = _state(actions[0]) if actions else {}
        info = record(whole.get("info"))
        status = text(info.get("exit_status"))
        conversation = Conversation(
            source=NAME,
            id=text_id("\n".join(first_messages or [first]), text(whole.get("environment"))),
            name=_title(first_messages) or path.stem,
            cwd=text(state.get("working_dir")),
            labels={"exit status": status} if status else {},
        )
        yield single_conversation(path, conversation)

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        whole = read_document(found.path, progress)
        yield from _SweAgentReader(record(whole.value)).read()
        yield from whole.skipped

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return False


FORMAT = SweAgent()


def _title(first_messages: list[str]) -> str:
    """The first line of the issue, if the prompt contains one."""
    asked = first_messages[1] if len(first_messages) > 1 else ""
    _, issue, rest = asked.partition("ISSUE:\n")
    return headline(rest if issue else asked)


def _state(step: dict[str, Any]) -> dict[str, Any]:
    """The state before an action (open file, working folder); older files store it as text."""
    given = step.get("state")
    if isinstance(given, str):
        try:
            given = decode_json(given.encode("utf-8", "surrogatepass"))
        except ValueError:
            return {}
    return record(given)


class _SweAgentReader:
    """Reads one run."""

    def __init__(self, whole: dict[str, Any]) -> None:
        history = whole.get("history")
        self._history = history if isinstance(history, list) else []
        self._actions = records(whole.get("trajectory"))
        self._info = record(whole.get("info"))
        self._dialogue = Dialogue()
        self._answers_read = 0

    def read(self) -> Iterator[Item]:
        answers = sum(record(message).get("role") == "assistant" for message in self._history)
        if not answers and self._actions:
            for number, step in enumerate(self._actions, 1):
                yield from whole_line(self._action(step), number)
        for number, message in enumerate(self._history):
            if isinstance(message, dict):
                yield from whole_line(self._message(number, message, answers), number + 1)
            else:
                yield Unknown(id=f"message/{number}", raw=message)
        # only the trajectory contains the last result
        if self._dialogue.open_calls and len(self._actions) == answers:
            yield self._returned(text(self._actions[-1].get("observation")))
        status = text(self._info.get("exit_status"))
        if status:
            ok = status.startswith("submitted")
            yield self._dialogue.end("ok" if ok else "aborted", "" if ok else status)

    def _message(self, number: int, message: dict[str, Any], answers: int) -> Iterator[Item]:
        role, content = message.get("role"), message.get("content")
        if message.get("is_demo") is True:
            yield self._dialogue.note(strip_attachments(content), by="user")
        elif role == "system":
            yield self._dialogue.note(strip_attachments(content))
        elif role == "assistant":
            self._answers_read += 1
            yield from self._answered(message, self._answers_read == answers)
        elif role in ("user", "tool") and self._dialogue.open_calls:
            named = message.get("tool_call_ids")
            call = text(named[0]) if isinstance(named, list) and named else ""
            yield self._returned(joined_text(content), call)
        elif role == "user":
            yield self._dialogue.prompt(strip_attachments(content))
        elif role == "tool":
            yield self._dialogue.result(None, strip_attachments(content))
        else:
            yield Unknown(id=f"message/{number}", raw=strip_attachments(message))

    def _answered(self, message: dict[str, Any], is_last: bool) -> Iterator[Item]:
        words = joined_text(message.get("content"))
        calls = [requested_call(call, READS) for call in records(message.get("tool_calls"))]
        action = text(message.get("action")).strip()
        if not calls and action:
            calls = [_command(action)]
        blocks = [{"type": "text", "text": words}] if words else []
        yield from self._dialogue.answer(blocks, calls, usage=self._usage() if is_last else {})

    def _action(self, step: dict[str, Any]) -> Iterator[Item]:
        """Items for an action, for files without the history."""
        words, action = text(step.get("response")), text(step.get("action")).strip()
        blocks = [{"type": "text", "text": words}] if words else []
        yield from self._dialogue.answer(blocks, [_command(action)] if action else [])
        if action:
            yield self._returned(text(step.get("observation")))
        else:
            yield Noise(kind="no action")

    def _returned(self, output: str, call: str = "") -> Item:
        open_call = self._dialogue.open_call(call) or self._dialogue.open_call()
        files = _files(open_call, output) if open_call is not None else ()
        return self._dialogue.result(open_call, output, files=files, call=call)

    def _usage(self) -> dict[str, int]:
        """The cost of the whole run; the cost of a single answer is unknown."""
        stats = record(self._info.get("model_stats"))
        return usage_units(
            input_tokens=stats.get("tokens_sent"), output_tokens=stats.get("tokens_received"),
            dollars=stats.get("instance_cost"),
        )  # fmt: skip


def _command(action: str) -> RequestedCall:
    first = action.split(maxsplit=1)[0]
    tool = first if first in OWN else "bash"
    effect: Effect = "read" if tool in READS else "write"
    return RequestedCall(tool=tool, input={"command": action}, effect=effect)


def _files(call: Called, output: str) -> tuple[Touch, ...]:
    """The files that an action touched, if its output shows the file or the command is certain."""
    given = record(call.input)
    if call.tool == "bash":  # there is no exit code; a command without output has succeeded
        silent = not output.strip() or output.startswith("Your command ran successfully")
        return files_touched_by(given.get("command")) if silent else ()
    shown = _SHOWN.search(output)
    path = text(given.get("path")) or (shown[1].strip() if shown else "")
    if not path or call.tool not in OWN:
        return ()
    if call.tool == "str_replace_editor":
        verb = given.get("command")
        if verb == "view":
            return (Touch(path=path, op="read"),)
        return (Touch(path=path, op="created" if verb == "create" else "modified"),)
    if call.tool in ("create", "edit", "insert"):
        failed = "not been applied" in output or "Text not found" in output
        op: FileOp = "created" if call.tool == "create" else "modified"
        return () if failed else (Touch(path=path, op=op),)
    return (Touch(path=path, op="read"),) if call.tool == "open" else ()
