"""Recognizes, lists and reads SWE-agent's `.traj` files, which it rewrites after each action.

`history` contains what the model received; `trajectory` contains each action and its observation.
Calls have ids only if the model used tools; otherwise an action is a command in the text of the
answer.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.counted_items import Steps, counted_items, settled_count
from stator.importers.reading.edit_places import editor_touch
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
from stator.importers.reading.unnamed_messages import (
    Dialogue,
    RequestedCall,
    requested_call,
    shell_call,
)
from stator.model.exchange.hunks import Swap
from stator.model.exchange.items import (
    Called,
    Configured,
    Conversation,
    Cursor,
    Item,
    Noise,
    Skipped,
    Touch,
    Unknown,
    text_id,
)
from stator.model.records.types import Effect, FileOp

NAME = "swe-agent"
READS = frozenset(
    "open goto scroll_up scroll_down search_dir search_file find_file submit view".split()
)
EDITS = frozenset("create edit insert append str_replace_editor".split())
OWN = READS | EDITS
"""SWE-agent's own commands; all others are shell commands."""
_KEYS = (b'"trajectory"', b'"history"')
_ISSUE = re.compile(r"ISSUE:[ \t]*\n|<pr_description>[ \t]*\n?|PR description:[ \t]*\n")
_REFUSED = re.compile(
    r"Your proposed edit has introduced new syntax error|Your (?:changes|edit) ha(?:ve|s) NOT been applied"
    r"|edit (?:was|has) not been applied|not been applied|Text not found|No replacement was performed"
    r"|(?:does not exist|already exists)[^\n]*\Z|Invalid `\w+` parameter|Usage: (?:edit|create|insert)\b",
    re.IGNORECASE,
)
"""How SWE-agent says that it did not make an edit."""
REFUSAL_AT = 2_000
"""The refusal is within that many characters of the beginning."""
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
        own = [message for message in history if message.get("is_demo") is not True]
        first_messages = [text(message.get("content")) for message in own][:3]
        first = text(actions[0].get("response")) if actions else ""
        state = _state(actions[0]) if actions else {}
        info = record(whole.get("info"))
        status = text(info.get("exit_status"))
        conversation = Conversation(
            source=NAME,
            id=text_id("\n".join(first_messages or [first]), text(whole.get("environment"))),
            name=_title(joined_text(own[1].get("content")) if len(own) > 1 else "") or path.stem,
            cwd=text(state.get("working_dir")),
            labels={"exit status": status} if status else {},
        )
        yield single_conversation(path, conversation, first=0)

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        whole = read_document(found.path, progress)
        return counted_items(
            lambda: _SweAgentReader(record(whole.value)).steps(whole.skipped),
            cursor,
            at_rest=at_rest,
        )

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return False


FORMAT = SweAgent()


def _title(asked: str) -> str:
    """The first line of the issue, if the prompt contains one."""
    issue = _ISSUE.search(asked)
    return headline(asked[issue.end() :] if issue else asked)


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
        self._replay = whole.get("replay_config")
        self._status = text(self._info.get("exit_status"))
        self._dialogue = Dialogue()

    def steps(self, cut: tuple[Skipped, ...]) -> Steps:
        """One step for each message, then one for what only the trajectory contains. A message is final
        when another one follows it, or when the run has its exit status."""
        answers = [
            number
            for number, message in enumerate(self._history)
            if record(message).get("role") == "assistant"
            and record(message).get("is_demo") is not True
        ]
        last = answers[-1] if answers and self._status else -1
        steps = [
            whole_line(self._message(number, message, is_last=number == last), number + 1)
            for number, message in enumerate(self._history)
        ]
        if not self._history:
            steps = [
                whole_line(self._action(step), number)
                for number, step in enumerate(self._actions, 1)
            ]
        settled = settled_count(steps, is_finished=bool(self._status))
        steps.append(self._end(len(answers) if self._history else len(self._actions)))
        steps = [self._start(), *steps, iter(cut)]
        return Steps(steps, settled + 1 + bool(self._status))

    def _start(self) -> Iterator[Item]:
        replay = self._replay
        if isinstance(replay, str):
            try:
                replay = decode_json(replay.encode("utf-8", "surrogatepass"))
            except ValueError:
                replay = {}
        model = record(record(record(replay).get("agent")).get("model"))
        given = {
            "model": text(model.get("name")) or text(model.get("model_name")),
            "version": text(self._info.get("swe_agent_version")),
        }
        settings = {name: value for name, value in given.items() if value}
        if settings:
            yield Configured(id="settings/start", settings=settings)

    def _end(self, answers: int) -> Iterator[Item]:
        """The result of the last answer in the history, and actions that came after it."""
        if self._dialogue.open_calls:
            last = self._actions[answers - 1 : answers]
            output = text(last[0].get("observation")) if last else ""
            if output or (self._status and self._dialogue.open_calls[0].tool == "submit"):
                yield self._returned(output)
        for step in self._actions[answers:] if self._status else ():
            yield from self._action(step)
        if self._status:
            is_ok = self._status.startswith("submitted")
            yield self._dialogue.end("ok" if is_ok else "aborted", "" if is_ok else self._status)

    def _message(self, number: int, message: Any, *, is_last: bool) -> Iterator[Item]:
        if not isinstance(message, dict):
            yield Unknown(id=f"message/{number}", raw=message)
            return
        role, content = message.get("role"), message.get("content")
        if message.get("is_demo") is True or role == "system":
            yield self._dialogue.note(strip_attachments(content))
        elif role == "assistant":
            yield from self._answered(message, is_last)
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
        # a run says only what all of it cost; it is final when the run has its exit status
        yield from self._dialogue.answer(blocks, calls, usage=self._usage() if is_last else {})

    def _action(self, step: dict[str, Any]) -> Iterator[Item]:
        """Items for an action that is not in the history."""
        words, action = text(step.get("response")), text(step.get("action")).strip()
        blocks = [{"type": "text", "text": words}] if words else []
        yield from self._dialogue.answer(blocks, [_command(action)] if action else [])
        if action:
            yield self._returned(text(step.get("observation")))
        else:
            yield Noise(kind="no action")

    def _returned(self, output: str, call: str = "") -> Item:
        open_call = self._dialogue.open_call(call) or self._dialogue.open_call()
        if open_call is not None and (why := _refusal(open_call, output)):
            return self._dialogue.result(open_call, output, "error", cause=why, call=call)
        files = _files(open_call, output) if open_call is not None else ()
        return self._dialogue.result(open_call, output, files=files, call=call)

    def _usage(self) -> dict[str, int]:
        """The cost of the whole run; that of a single answer is unknown."""
        stats = record(self._info.get("model_stats"))
        return usage_units(
            input_tokens=stats.get("tokens_sent"), output_tokens=stats.get("tokens_received"),
            dollars=stats.get("instance_cost"),
        )  # fmt: skip


def _command(action: str) -> RequestedCall:
    first = action.split(maxsplit=1)[0]
    if first not in OWN:
        return shell_call("bash", action)
    effect: Effect = "read" if first in READS else "write"
    return RequestedCall(tool=first, input={"command": action}, effect=effect)


def _refusal(call: Called, output: str) -> str:
    """Why an edit was not made; "" if it was, or if the call is no edit."""
    if call.tool not in EDITS or record(call.input).get("command") == "view":
        return ""
    found = _REFUSED.search(output[:REFUSAL_AT])
    return headline(output[found.start() :]) if found else ""


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
        return (editor_touch(path, "created" if verb == "create" else "modified", given),)
    if call.tool in EDITS:
        op: FileOp = "created" if call.tool == "create" else "modified"
        return (Touch(path=path, op=op, places=_replaced(given)),)
    return (Touch(path=path, op="read"),) if call.tool == "open" else ()


def _replaced(given: dict[str, Any]) -> tuple[Swap, ...]:
    """The text that an edit replaced: named by its arguments, or `edit SEARCH REPLACE [ALL]`."""
    old, new = given.get("search"), given.get("replace")
    if isinstance(old, str) and isinstance(new, str):
        return (Swap(old, new, every=given.get("replace-all") is True),) if old else ()
    try:
        words = shlex.split(text(given.get("command")))
    except ValueError:
        return ()
    if len(words) not in (3, 4) or words[0] != "edit" or not words[1]:
        return ()
    return (Swap(words[1], words[2], every=words[3:] == ["True"]),)
