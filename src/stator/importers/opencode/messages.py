"""Turns opencode's messages into items, whether they come from its database, an export or a run's
output.

A message has parts: text, reasoning, tool (a call and its result), and markers around each answer
of the model. When opencode forks a session, it copies the messages under new ids. Item ids are
therefore made from what a copy keeps: a call's id, the time at which a text began, the text and
time of a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallStatus
from stator.importers.reading.edit_places import swaps_of
from stator.importers.reading.fields import (
    UniqueIds,
    assistant_message,
    files_touched_by,
    micros_of_millis,
    record,
    records,
    text,
    tool_use_block,
    usage_units,
)
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange.items import (
    Answered,
    Author,
    Called,
    Compacted,
    Configured,
    Cursor,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Step,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    text_id,
)
from stator.model.exchange.own_notes import result_apart
from stator.model.exchange.patch_text import files_in_patch
from stator.model.records.types import Effect, StepStatus

READS = frozenset(
    "read glob grep list ls webfetch websearch codesearch todoread skill lsp question "
    "lsp_diagnostics lsp_hover plan_enter plan_exit invalid".split()
)
WEB = frozenset(("webfetch", "websearch", "codesearch"))
MARKERS = frozenset(("step-start", "step-finish", "snapshot", "retry", "agent"))
"""Parts without content of their own."""
TODO: dict[str, StepStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "done",
    "cancelled": "dropped",
}
_PATCHED = re.compile(
    r"^\*\*\* (Add|Update|Delete) File: (.+)$(?:\n\*\*\* Move to: (.+)$)?", re.MULTILINE
)
_REFUSED = re.compile(r"rejected permission|permission.{0,40}denied|prevents you from using", re.I)
_STOPPED = re.compile(
    r"\A\W{0,3}(?:\w{1,20} ){0,3}(?:abort(?:ed)?|interrupted|cancell?ed)\b|AbortError", re.I
)
"""How opencode says that a call was stopped, at the beginning of the error."""


class OpenCodeMessage(msgspec.Struct, frozen=True):
    """A message and its parts, in the order in which they were created."""

    info: dict[str, Any]
    parts: list[dict[str, Any]]


class _AnswerParts(msgspec.Struct, frozen=True):
    """The parts of one answer. A message has one answer; in older versions it may have several."""

    parts: list[dict[str, Any]]
    finish: dict[str, Any]


def prompt_text(message: OpenCodeMessage) -> str:
    """The text of a user's message."""
    typed = [p for p in message.parts if p.get("type") == "text" and p.get("synthetic") is not True]
    return "\n".join(text(part.get("text")) for part in typed)


def items(
    messages: Iterable[OpenCodeMessage | Item], *, is_child: bool = False, version: str = ""
) -> Iterator[Item]:
    """Turn a conversation's messages into items, with a cursor after those that are final."""
    return _OpenCodeReader(is_child, version).read(messages)


def _is_over(message: OpenCodeMessage) -> bool:
    """Whether the model's message is complete. opencode sets this time after the last of its parts."""
    return bool(record(message.info.get("time")).get("completed"))


class _OpenCodeReader:
    """Reads the messages of one conversation."""

    def __init__(self, is_child: bool, version: str) -> None:
        self._names = UniqueIds()
        self._first_items: dict[str, str] = {}
        """A message's id → the id of its first item."""
        self._open_compaction: Item | None = None
        self._kept_from = ""
        self._is_child = is_child
        self._settings: dict[str, str] = {}
        self._version = version
        self._ended: TurnEnded | None = None
        """The end of a turn, given when the user's next message shows that it was one."""

    def read(self, messages: Iterable[OpenCodeMessage | Item]) -> Iterator[Item]:
        """Yield the items of all messages. Those before the model's last message are final, because the
        model answers one message after the other. The last one is final when it is complete. A user's
        message may still get parts until the model answers it."""
        held: list[Iterator[Item]] = []
        for number, message in enumerate(messages, 1):
            if not isinstance(message, OpenCodeMessage):
                held.append(iter([message]))
                continue
            step = whole_line(self._items(message), number)
            if message.info.get("role") == "assistant":
                for earlier in held:
                    yield from earlier
                held = []
                if _is_over(message):
                    yield from step
                    continue
            held.append(step)
        yield Cursor(offset=0)
        for last in held:
            yield from last
        if self._ended is not None:
            yield self._ended

    def _items(self, message: OpenCodeMessage) -> Iterator[Item]:
        """Yield the items that a message adds."""
        role = message.info.get("role")
        if role == "user":
            if self._ended is not None:
                yield self._ended
            yield from self._prompt(message)
        elif role == "assistant":
            yield from self._answered(message)
        else:
            yield Unknown(id=text(message.info.get("id")), raw=_plain(message))
        self._ended = _turn_end(message) if role == "assistant" else None

    def _configured(self, identifier: str, at: int, info: dict[str, Any]) -> Iterator[Item]:
        """What a message says about the model and the agent, if that is new."""
        model = record(info.get("model")) or info
        given = {
            "model": text(model.get("modelID")),
            "provider": text(model.get("providerID")),
            "agent_mode": text(info.get("agent")) or text(info.get("mode")),
            "reasoning_effort": text(info.get("variant")) or text(model.get("variant")),
        }
        settings = {name: value for name, value in given.items() if value}
        if settings and not settings.items() <= self._settings.items():
            self._settings |= settings
            versions = {"version": self._version} if self._version else {}
            yield Configured(id=f"settings/{identifier}", at=at, settings=versions | settings)

    # -- user messages ------------------------------------------------------------------------------

    def _prompt(self, message: OpenCodeMessage) -> Iterator[Item]:
        at = micros_of_millis(record(message.info.get("time")).get("created"))
        for part in message.parts:
            if part.get("type") == "compaction":
                self._open_compaction = Compacted(id=f"compaction/{at}", at=at)
                self._kept_from = text(part.get("tail_start_id"))
                return
        typed: list[Any] = []
        shown: list[str] = []
        for part in message.parts:
            kind = text(part.get("type"))
            if kind == "text" and part.get("ignored") is not True:
                (shown if part.get("synthetic") is True else typed).append(text(part.get("text")))
            elif kind == "file":
                typed.append(_attachment(part))
            elif kind == "subtask":
                typed.append(text(part.get("prompt")) or text(part.get("description")))
            elif kind in MARKERS or kind == "text":
                yield Noise(kind=f"part/{kind}")
            else:
                yield Unknown(id=text(part.get("id")), at=at, raw=strip_attachments(part))
        identifier = self._names.once(f"prompt/{text_id(_words(typed or shown), at)}")
        self._first_items[text(message.info.get("id"))] = identifier
        yield from self._configured(identifier, at, message.info)
        if typed:
            by: Author = "agent" if self._is_child else "user"
            yield Prompted(id=identifier, at=at, content=_content(typed), by=by)
        for number, words in enumerate(shown):
            # text that opencode added, also where it sends the whole message, as after a compaction
            name = f"{identifier}/shown/{number}" if typed or number else identifier
            yield Noted(id=name, at=at, by="system", content=words)

    # -- answers and calls --------------------------------------------------------------------------

    def _answered(self, message: OpenCodeMessage) -> Iterator[Item]:
        info = message.info
        if info.get("summary") is True and self._open_compaction is not None:
            # a summary that failed, or is not complete, replaces nothing
            is_done = _is_over(message) and not record(info.get("error"))
            yield self._compacted(message) if is_done else Noise(kind="summary that failed")
            return
        times = record(info.get("time"))
        for answer in _answers(message):
            stable_id = _stable_id(answer.parts) or f"message/{text(info.get('id'))}"
            yield from self._answer_items(info, times, answer, stable_id)

    def _answer_items(
        self, info: dict[str, Any], times: dict[str, Any], answer: _AnswerParts, stable_id: str
    ) -> Iterator[Item]:
        at = micros_of_millis(times.get("created")) or _start(answer.parts)
        # once a call was started, its answer is final, even if opencode died before it marked it
        # complete
        whole = bool(
            answer.finish
            or times.get("completed")
            or info.get("finish")
            or any(_is_started(part) for part in answer.parts)
        )
        calls = [
            (self._names.once(text(part.get("callID")) or text(part.get("id"))), part)
            for part in answer.parts
            if part.get("type") == "tool"
        ]
        blocks = _blocks(answer.parts, [name for name, _ in calls])
        identifier = self._names.once(stable_id if whole else f"{stable_id}/part")
        self._first_items.setdefault(text(info.get("id")), identifier)
        yield from self._configured(identifier, at, info)
        if blocks:
            yield Answered(
                id=identifier, at=at, reply=assistant_message(blocks), usage=_usage(answer.finish, info),
                model=text(info.get("modelID")), partial=not whole,
            )  # fmt: skip
        touched: set[str] = set()
        for name, part in calls:
            for item in _call(name, part):
                if isinstance(item, Returned):
                    touched |= {touch.path for touch in item.files}
                yield item
        for part in answer.parts:
            yield from _other(part, at, touched)

    def _compacted(self, message: OpenCodeMessage) -> Item:
        started = self._open_compaction
        assert started is not None  # the caller checked
        self._open_compaction = None
        words = "".join(text(p.get("text")) for p in message.parts if p.get("type") == "text")
        usage = record(message.info.get("tokens"))
        before = usage_units(
            input_tokens=usage.get("input"), cache_read=record(usage.get("cache")).get("read")
        )
        return Compacted(
            id=started.id, at=started.at, summary=words, before=before.get("tokens", 0),
            keeps_from=self._first_items.get(self._kept_from, ""),
        )  # fmt: skip


def _answers(message: OpenCodeMessage) -> list[_AnswerParts]:
    """Split a message into its answers; each ends with a `step-finish`."""
    found: list[_AnswerParts] = []
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        parts.append(part)
        if part.get("type") == "step-finish":
            found.append(_AnswerParts(parts, part))
            parts = []
    if any(part.get("type") not in ("patch", "snapshot") for part in parts) or not found:
        found.append(_AnswerParts(parts, {}))
    else:
        found[-1] = _AnswerParts([*found[-1].parts, *parts], found[-1].finish)
    return found


def _is_started(part: dict[str, Any]) -> bool:
    state = record(part.get("state"))
    return part.get("type") == "tool" and state.get("status") not in (None, "pending")


def _stable_id(parts: list[dict[str, Any]]) -> str:
    """An answer's id, made from what stays the same when opencode copies it into a fork."""
    for part in parts:
        if part.get("type") == "tool" and text(part.get("callID")):
            return f"answer/{part['callID']}"
    for part in parts:
        started = micros_of_millis(record(part.get("time")).get("start"))
        if part.get("type") == "text" and started:
            return f"answer/{started}"
    return ""


def _start(parts: list[dict[str, Any]]) -> int:
    for part in parts:
        times = record(part.get("time")) or record(record(part.get("state")).get("time"))
        if started := micros_of_millis(times.get("start")):
            return started
    return 0


def _blocks(parts: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    calls = iter(names)
    for part in parts:
        kind = text(part.get("type"))
        if kind == "text" and text(part.get("text")):
            blocks.append({"type": "text", "text": part["text"]})
        elif kind == "reasoning" and text(part.get("text")):
            blocks.append({"type": "thinking", "thinking": part["text"]})
        elif kind == "tool":
            arguments = record(part.get("state")).get("input")
            blocks.append(
                tool_use_block(next(calls), text(part.get("tool")), strip_attachments(arguments))
            )
    return blocks


def _usage(finish: dict[str, Any], info: dict[str, Any]) -> dict[str, int]:
    arguments = finish or info
    tokens = record(arguments.get("tokens"))
    cache = record(tokens.get("cache"))
    spent = usage_units(
        input_tokens=tokens.get("input"), output_tokens=tokens.get("output"), cache_read=cache.get("read"),
        cache_write=cache.get("write"), dollars=arguments.get("cost"),
    )  # fmt: skip
    thought = usage_units(output_tokens=tokens.get("reasoning")).get("tokens", 0)
    # otherwise the output tokens include the reasoning
    if thought and spent.get("tokens") != tokens.get("total"):
        spent["tokens:out"] = spent.get("tokens:out", 0) + thought
        spent["tokens"] = spent.get("tokens", 0) + thought
    return spent


def _call(name: str, part: dict[str, Any]) -> Iterator[Item]:
    state, tool = record(part.get("state")), text(part.get("tool"))
    times, arguments = record(state.get("time")), record(state.get("input"))
    is_read = tool in READS or (tool == "bash" and only_reads(text(arguments.get("command"))))
    effect: Effect = "read" if is_read else "write"
    started = micros_of_millis(times.get("start"))
    yield Called(id=name, at=started, tool=tool, input=strip_attachments(arguments), effect=effect)
    child = record(state.get("metadata"))
    spawned = text(child.get("sessionId")) or text(child.get("sessionID"))
    if tool == "task" and spawned:
        title = text(state.get("title")) or text(arguments.get("description"))
        yield Spawned(id=spawned, at=started, child=spawned, name=title, call=name)
    status = state.get("status")
    if status not in ("completed", "error"):
        return
    at = micros_of_millis(times.get("end"))
    if status == "completed":
        yield from result_apart(_completed(name, tool, state, at))
        if tool == "todowrite":
            yield Planned(id=f"{name}/plan", at=at, steps=_todo(arguments))
        return
    why = text(state.get("error"))
    outcome: CallStatus = "denied" if _REFUSED.search(why) else "error"
    if _STOPPED.search(why) and outcome == "error":
        outcome = "in doubt" if effect == "write" else "cancelled"
    yield Returned(id=name, at=at, status=outcome, cause=why, output=why, tool=tool)


def _completed(name: str, tool: str, state: dict[str, Any], at: int) -> Returned:
    exit_code = record(state.get("metadata")).get("exit")
    failed = tool == "bash" and isinstance(exit_code, int) and exit_code != 0
    return Returned(
        id=name, at=at, tool=tool, output=strip_attachments(state.get("output")),
        status="error" if failed else "ok", cause=f"exit code {exit_code}" if failed else "",
        summary=text(state.get("title")), source="web" if tool in WEB else "tool",
        files=() if failed else _files(tool, state),
    )  # fmt: skip


def _files(tool: str, state: dict[str, Any]) -> tuple[Touch, ...]:
    arguments, known = record(state.get("input")), record(state.get("metadata"))
    path = text(arguments.get("filePath")) or text(known.get("filepath"))
    if tool == "read" and path:
        return (Touch(path=path, op="read"),)
    if tool == "write" and path:
        content = arguments.get("content")
        return (
            Touch(
                path=path, op="created" if known.get("exists") is False else "modified",
                after_text=content if isinstance(content, str) else None,
            ),
        )  # fmt: skip
    if tool in ("edit", "multiedit") and path:
        changed = record(known.get("filediff"))
        before, after = changed.get("before"), changed.get("after")
        return (
            Touch(
                path=path, op="created" if before == "" else "modified",
                before_text=before if isinstance(before, str) and before else None,
                after_text=after if isinstance(after, str) else None,
                places=swaps_of(arguments.get("edits") or [arguments]),
            ),
        )  # fmt: skip
    if tool in ("patch", "apply_patch"):
        return _patched(text(arguments.get("patchText")))
    return files_touched_by(arguments.get("command")) if tool == "bash" else ()


def _patched(patch: str) -> tuple[Touch, ...]:
    if whole := files_in_patch(patch):
        return whole
    touched: list[Touch] = []
    for found in _PATCHED.finditer(patch):
        verb, path, moved = found[1], found[2].strip(), (found[3] or "").strip()
        if moved:
            touched.append(Touch(path=moved, op="renamed", from_path=path))
        elif verb == "Add":
            touched.append(Touch(path=path, op="created"))
        else:
            touched.append(Touch(path=path, op="deleted" if verb == "Delete" else "modified"))
    return tuple(touched)


def _todo(arguments: dict[str, Any]) -> tuple[Step, ...]:
    return tuple(
        Step(step=text(todo.get("content")), status=TODO.get(text(todo.get("status")), "pending"))
        for todo in records(arguments.get("todos"))
    )


def _other(part: dict[str, Any], at: int, touched: set[str]) -> Iterator[Item]:
    """Items for parts that are neither text nor calls."""
    kind = text(part.get("type"))
    if kind == "patch":
        # this is the only trace of what a shell command changed, and it does not show how
        named = part.get("files")
        paths = [
            path
            for path in (named if isinstance(named, list) else [])
            if isinstance(path, str) and not any(_same(path, other) for other in touched)
        ]
        files = tuple(Touch(path=path, op="modified", how="observed") for path in paths)
        if files:
            yield Touched(id=f"patch/{text_id(text(part.get('hash')), *paths)}", at=at, files=files)
    elif kind in MARKERS:
        yield Noise(kind=f"part/{kind}")
    elif kind == "file":
        yield Noted(id=f"file/{text(part.get('id'))}", at=at, content=_attachment(part))
    elif kind not in ("text", "reasoning", "tool"):
        yield Unknown(id=text(part.get("id")), at=at, raw=strip_attachments(part))


def _same(path: str, other: str) -> bool:
    """Whether two paths are the same; `other` may be relative to the agent's folder."""
    return path == other or path.endswith(f"/{other.removeprefix('./')}")


def _attachment(part: dict[str, Any]) -> Any:
    """A file that was attached; one that is embedded in the message becomes a note."""
    url = text(part.get("url"))
    shown = strip_attachments({"type": "file", "url": url})
    if shown.get("type") == "text":
        return shown
    return {"type": "text", "text": f"[file {text(part.get('filename')) or url}]"}


def _content(pieces: list[Any]) -> Any:
    if all(isinstance(piece, str) for piece in pieces):
        return "\n".join(pieces)
    return [{"type": "text", "text": p} if isinstance(p, str) else p for p in pieces]


def _words(pieces: list[Any]) -> str:
    return "\n".join(
        piece if isinstance(piece, str) else text(piece.get("text")) for piece in pieces
    )


def _turn_end(message: OpenCodeMessage) -> TurnEnded | None:
    """How the turn ended, if this was its last message and the agent waits for the user."""
    info = message.info
    failure = text(record(info.get("error")).get("name"))
    if info.get("summary") is True and not failure:
        return None  # the turn that was compacted continues
    at = micros_of_millis(record(info.get("time")).get("completed"))
    if failure:
        return TurnEnded(at=at, status="aborted", why=failure)
    finish = text(info.get("finish"))
    return TurnEnded(at=at) if finish and finish not in ("tool-calls", "unknown") else None


def _plain(message: OpenCodeMessage) -> Any:
    return strip_attachments({"info": message.info, "parts": message.parts})
