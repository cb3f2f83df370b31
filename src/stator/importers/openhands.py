"""Recognizes, lists and reads OpenHands' trajectories (a JSON list of records) and evaluation
outputs (one line per instance, with such a list in it).

A record is an action or an observation. Newer records name the model's response and the call they
come from, and an observation names the action that caused it. In older ones, an observation belongs
to the action before it.
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
    files_touched_by,
    headline,
    micros_of_iso,
    record,
    records,
    text,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.json_document import dated, read_document, single_conversation
from stator.importers.reading.jsonl import (
    JsonlLine,
    parse_line,
    read_beginning,
    read_lines,
)
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.shell_reads import only_reads
from stator.importers.reading.unnamed_messages import Dialogue, RequestedCall, requested_call
from stator.model.exchange.items import (
    Called,
    Compacted,
    Configured,
    Conversation,
    Cursor,
    Item,
    Noise,
    Planned,
    Skipped,
    Step,
    Touch,
    Unknown,
    text_id,
)
from stator.model.records.types import Effect, FileOp, StepStatus
from stator.model.window.reply import message_of, usage_of

NAME = "openhands"
READS = frozenset("read browse think finish recall task_tracking view".split())
IGNORED = frozenset(
    "change_agent_state agent_state_changed null recall system initialize pause resume stop "
    "agent_summarize condensation_request loop_detection_recovery".split()
)
"""Records about the program and not about the work."""
TASKS: dict[str, StepStatus] = {"todo": "pending", "in_progress": "in_progress", "done": "done"}
_LIST = re.compile(rb'\s*\[\s*\{[^{}]{0,400}?"(?:action|observation|source)"\s*:')
_EDITED = re.compile(
    r"^(?:edit_file_by_replace|insert_content_at_line|append_file|create_file|edit_file)"
    r"\(\s*(?:file_name=|filename=)?(['\"])([^'\"\n]{1,500})\1",
    re.MULTILINE,
)
_EXIT_UNKNOWN = -1


class OpenHands:
    """The format of OpenHands' trajectories and evaluation outputs."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        if begin.lstrip()[:1] == b"[":
            return bool(_LIST.match(begin)) and b'"timestamp"' in begin
        return begin.lstrip()[:1] == b"{" and _is_output(begin)

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        stat = path.stat()
        changed = stat.st_mtime_ns // 1000
        if read_beginning(str(path), 64).lstrip()[:1] == b"[":
            history = records(read_document(str(path)).value)
            if history:
                yield single_conversation(
                    path, _conversation(history, {}), first=_first_time(history)
                )
            return
        for line in read_lines(str(path)):
            given = record(parse_line(line)[0])
            history = _history(given)
            if history:
                conversation = dated(_conversation(history, given), _first_time(history), changed)
                yield FoundConversation(
                    path=str(path), conversation=conversation, changed=changed,
                    part=f"{line.number}@{line.offset}", size=stat.st_size,
                )  # fmt: skip

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        if not found.part:
            whole = read_document(found.path, progress)
            given = whole.value if isinstance(whole.value, list) else []
            yield from counted_items(
                lambda: _OpenHandsReader().steps(given, is_finished=False, cut=whole.skipped),
                cursor, at_rest=at_rest,
            )  # fmt: skip
            return
        number, _, offset = found.part.partition("@")
        lines = read_lines(found.path, offset=int(offset), number=int(number) - 1)
        line = next(lines, None)
        if line is not None:
            if progress is not None:
                progress(line.end - line.offset)
            # a line is written when its run is over
            yield from counted_items(lambda: _steps_of_line(line), cursor, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = OpenHands()


def _is_output(begin: bytes) -> bool:
    evaluated = b'"instance_id"' in begin or b'"issue"' in begin or b'"instruction"' in begin
    return evaluated and b'"history"' in begin


def _history(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of an instance; older outputs pair each action with its observation."""
    history: list[dict[str, Any]] = []
    listed = given.get("history")
    for entry in listed if isinstance(listed, list) else []:
        history += (
            records(entry)
            if isinstance(entry, list)
            else [entry]
            if isinstance(entry, dict)
            else []
        )
    return history


def _conversation(history: list[dict[str, Any]], given: dict[str, Any]) -> Conversation:
    issue = record(given.get("issue"))
    instance = text(given.get("instance_id")) or "/".join(
        str(issue[name]) for name in ("owner", "repo", "number") if name in issue
    )
    first = _fields(history[0])
    start = repr(history[:3] if given else history[0])
    asked = text(first.get("content")) or text(first.get("message"))
    labels = {"instance": instance} if instance else {}
    if isinstance(given.get("success"), bool):
        labels["success"] = str(given["success"]).lower()
    return Conversation(
        source=NAME,
        id=text_id(start),
        name=text(issue.get("title")) or headline(instance or _problem(asked)),
        cwd="",
        labels=labels,
    )


def _problem(asked: str) -> str:
    """A prompt without the instructions that an evaluation puts before the problem."""
    _, is_marked, rest = asked.partition("# Problem Statement\n")
    return rest if is_marked else asked


def _first_time(history: list[dict[str, Any]]) -> int:
    return next(filter(None, (micros_of_iso(entry.get("timestamp")) for entry in history)), 0)


def _steps_of_line(line: JsonlLine) -> Steps:
    given, why = parse_line(line)
    if given is None:
        return Steps([iter([Skipped(line=line.number, why=why)])], 1)
    return _OpenHandsReader().steps(_history(given), is_finished=True)


def _key(entry: dict[str, Any], field: str = "id") -> int | str | None:
    """The number of a record, or of the record that a field names."""
    named = entry.get(field)
    return named if isinstance(named, (int, str)) else None


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    """A record's fields; newer versions nest some of them."""
    return {**entry, **record(entry.get("extras")), **record(entry.get("args"))}


class _OpenHandsReader:
    """Reads one conversation."""

    def __init__(self) -> None:
        self._dialogue = Dialogue()
        self._responses: set[str] = set()
        self._calls_by_record: dict[Any, Called] = {}
        self._items_by_record: dict[Any, str] = {}
        """Record number → the id of its item, for compactions that refer to one."""
        self._seen_paths: set[str] = set()
        self._plans: dict[str, tuple[Step, ...]] = {}
        """Plans by the call that sets them; a plan counts when the call has succeeded."""

    def steps(
        self, history: list[Any], *, is_finished: bool, cut: tuple[Skipped, ...] = ()
    ) -> Steps:
        """One step for each record. A record is final when another one follows it, or when the run is over."""
        steps = [
            whole_line(self._record(number, entry), number + 1)
            for number, entry in enumerate(history)
        ]
        settled = settled_count(steps, is_finished=is_finished)
        return Steps([*steps, iter(cut)], settled)

    def _record(self, number: int, entry: Any) -> Iterator[Item]:
        kind = entry.get("action") or entry.get("observation") if isinstance(entry, dict) else None
        if not isinstance(kind, str):
            yield Unknown(id=f"record/{number}", raw=strip_attachments(entry))
        elif kind == "system" and (settings := _settings(_fields(entry))):
            at = micros_of_iso(entry.get("timestamp"))
            yield Configured(id=f"settings/record/{number}", at=at, settings=settings)
        elif kind in IGNORED:
            yield Noise(kind=kind)
        elif entry.get("action"):
            yield from self._action(kind, entry)
        else:
            yield from self._observation(kind, entry)

    # -- actions ------------------------------------------------------------------------------------

    def _action(self, kind: str, entry: dict[str, Any]) -> Iterator[Item]:
        at, fields = micros_of_iso(entry.get("timestamp")), _fields(entry)
        if kind == "message":
            yield from self._message(entry, fields, at)
        elif kind == "condensation":
            yield self._condensed(entry, fields, at)
        else:
            yield from self._called(kind, entry, fields, at)
            call = self._calls_by_record.get(_key(entry))
            if kind == "task_tracking" and call and (steps := _plan(fields)):
                self._plans[call.id] = steps
            if kind == "finish":
                if call is not None:
                    yield self._dialogue.result(call, None, at=at)
                yield self._dialogue.end(at=at)

    def _message(self, entry: dict[str, Any], fields: dict[str, Any], at: int) -> Iterator[Item]:
        words: Any = text(fields.get("content")) or text(fields.get("message"))
        images_given = fields.get("image_urls") or fields.get("images_urls")
        is_user = entry.get("source") == "user" or not (
            "source" in entry or self._dialogue.has_prompt
        )
        if isinstance(images_given, list) and images_given:
            images = [strip_attachments({"type": "image", "image": url}) for url in images_given]
            words = [{"type": "text", "text": words}, *images]
        if is_user:
            asked = self._dialogue.prompt(words, at)
            self._items_by_record[_key(entry)] = asked.id
            yield asked
            return
        blocks = words if isinstance(words, list) else [{"type": "text", "text": words}]
        for item in self._dialogue.answer(blocks, at=at):
            self._items_by_record[_key(entry)] = item.id
            yield item
        if fields.get("wait_for_response") is True:
            yield self._dialogue.end(at=at)

    def _called(
        self, kind: str, entry: dict[str, Any], fields: dict[str, Any], at: int
    ) -> Iterator[Item]:
        known = record(entry.get("tool_call_metadata"))
        response = record(known.get("model_response"))
        name = text(known.get("tool_call_id"))
        if name and name in self._responses:
            call = self._dialogue.open_call(
                name
            )  # one of several calls that the same answer requested
            if call is not None:
                self._calls_by_record[_key(entry)] = call
                self._items_by_record[_key(entry)] = call.id
            return
        tool = text(known.get("function_name")) or kind
        thought = text(fields.get("thought")) or text(fields.get("final_thought"))
        calls = [
            RequestedCall(
                tool=tool, id=name, input=_input(kind, fields), effect=_effect(kind, fields)
            )
        ]
        if response:
            message = message_of(response)
            thought = text(message.get("content"))
            calls = [
                requested_call(entry, READS) for entry in records(message.get("tool_calls"))
            ] or calls
            self._responses |= {call.id for call in calls}
        blocks = [{"type": "text", "text": thought}] if thought else []
        yield from self._dialogue.answer(
            blocks, calls, at=at, name=text(response.get("id")), usage=usage_of(response),
            model=text(response.get("model")),
        )  # fmt: skip
        call = self._dialogue.open_call(name) or self._dialogue.open_calls[-1]
        self._calls_by_record[_key(entry)] = call
        self._items_by_record[_key(entry)] = call.id

    def _condensed(self, entry: dict[str, Any], fields: dict[str, Any], at: int) -> Compacted:
        last = fields.get("forgotten_events_end_id")
        forgotten = fields.get("forgotten_event_ids")
        if isinstance(forgotten, list) and forgotten:
            last = max((x for x in forgotten if isinstance(x, int)), default=None)
        kept = (
            name
            for number, name in self._items_by_record.items()
            if isinstance(number, int) and isinstance(last, int) and number > last
        )
        return Compacted(
            id=f"condensation/{entry.get('id', at)}", at=at, summary=text(fields.get("summary")),
            keeps_from=next(kept, ""),
        )  # fmt: skip

    # -- observations -------------------------------------------------------------------------------

    def _observation(self, kind: str, entry: dict[str, Any]) -> Iterator[Item]:
        fields, at = _fields(entry), micros_of_iso(entry.get("timestamp"))
        named = text(record(entry.get("tool_call_metadata")).get("tool_call_id"))
        call = self._calls_by_record.get(_key(entry, "cause")) if "cause" in entry else None
        call = call or (self._dialogue.open_call(named) if named else None)
        if call is None and not named and "cause" not in entry:
            call = self._dialogue.open_call()
        status, cause = _outcome(kind, fields, is_write=call is None or call.effect == "write")
        files = self._files(call, kind, fields) if status == "ok" else ()
        output = strip_attachments(fields.get("content", entry.get("message")))
        returned = self._dialogue.result(
            call, output, status, at=at, cause=cause, files=files, tool=kind, call=named
        )
        self._items_by_record[_key(entry)] = returned.id
        yield returned
        steps = self._plans.pop(returned.id, ())
        if steps and status == "ok":
            yield Planned(id=f"{returned.id}/plan", at=at, steps=steps)

    def _files(self, call: Called | None, kind: str, fields: dict[str, Any]) -> tuple[Touch, ...]:
        given = record(call.input) if call is not None else {}
        path = text(fields.get("path"))
        if kind == "run":
            return files_touched_by(given.get("command") or fields.get("command"))
        if kind == "run_ipython":
            code = text(given.get("code")) or text(fields.get("code"))
            changed = "lines total after edit" in text(fields.get("content"))
            found = _EDITED.findall(code) if changed else []
            return tuple(Touch(path=name, op="modified", how="inferred") for _, name in found)
        if kind not in ("read", "write", "edit") or not path:
            return ()
        known = path in self._seen_paths or fields.get("prev_exist") is True
        self._seen_paths.add(path)
        if kind == "read":
            return (Touch(path=path, op="read"),)
        op: FileOp = "modified" if known else "created"
        history = "prev_exist" in fields or (known and kind == "edit")
        before, after = fields.get("old_content"), fields.get("new_content")
        return (
            Touch(
                path=path, op=op, how="recorded" if history else "inferred",
                before_text=before if isinstance(before, str) and known else None,
                after_text=after if isinstance(after, str) else None,
            ),
        )  # fmt: skip


def _effect(kind: str, fields: dict[str, Any]) -> Effect:
    command = text(fields.get("command"))
    is_read = kind in READS or command == "view" or (kind == "run" and only_reads(command))
    return "read" if is_read else "write"


def _settings(fields: dict[str, Any]) -> dict[str, Any]:
    given = {"version": fields.get("openhands_version"), "agent": fields.get("agent_class")}
    return {name: value for name, value in given.items() if isinstance(value, str) and value}


def _input(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    wanted = ("command", "code", "path", "content", "url", "browser_actions", "name", "arguments")
    more = ("agent", "inputs", "outputs", "task_list", "old_str", "new_str", "file_text")
    return {
        name: strip_attachments(fields[name])
        for name in (*wanted, *more)
        if fields.get(name) not in (None, "") and not (kind == "finish" and name == "content")
    }


def _outcome(kind: str, fields: dict[str, Any], *, is_write: bool) -> tuple[CallStatus, str]:
    words = text(fields.get("content"))
    if kind == "user_rejected":
        return "denied", "the user rejected it"
    if kind == "error":
        return "error", headline(words)
    if kind == "run":
        history = record(fields.get("metadata")).get("exit_code", fields.get("exit_code"))
        if history == _EXIT_UNKNOWN and fields.get("command_id") != _EXIT_UNKNOWN:
            # OpenHands returned to the model and let the command run on
            return "in doubt" if is_write else "timeout", "it was still running"
        if isinstance(history, int) and history > 0:
            return "error", f"exit code {history}"
    if fields.get("error") is True or text(fields.get("error")):
        return "error", headline(text(fields.get("error")) or words)
    return "ok", ""


def _plan(fields: dict[str, Any]) -> tuple[Step, ...]:
    return tuple(
        Step(
            step=text(task.get("title")), status=TASKS.get(text(task.get("status")), "pending"),
            detail=text(task.get("notes")),
        )
        for task in records(fields.get("task_list"))
    )  # fmt: skip
