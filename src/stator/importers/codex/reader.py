"""Turns the lines of a Codex rollout into items.

`response_item` lines contain what the model received and answered. The reader groups them into
answers in the provider's form: `{"output": [items]}`. Notices (`event_msg`) repeat most of it for
display. The reader uses only what nothing else contains: how turns begin and end, structured
results, and the cost.

A turn has the id that hooks see too (`turn/<turn_id>`). Older files have no such id; there, it is
made from the prompt and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal

from stator.importers.codex import tools
from stator.importers.codex.rollout_lines import (
    ANSWER_ITEMS,
    CALLS,
    IGNORED,
    IGNORED_ITEMS,
    IGNORED_NOTICES,
    OUTPUTS,
    PASSTHROUGH,
    PROVIDER_CALLS,
    RESULT_ITEMS,
    RESULT_NOTICES,
    SOURCE,
    THREAD,
    is_inherited,
    is_prompt,
    labels_of,
    unwrap_line,
)
from stator.importers.codex.tools import (
    effect_of,
    input_of,
    source_of,
    tool_of,
)
from stator.importers.reading.attachments import attachment_note, strip_attachments
from stator.importers.reading.fields import (
    micros_of_iso,
    record,
    records,
    text,
)
from stator.importers.reading.jsonl import (
    JsonlLine,
    parse_line,
)
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.plain_text import plain_text
from stator.model.exchange.items import (
    About,
    Answered,
    Called,
    Compacted,
    Conversation,
    Cursor,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Skipped,
    Spawned,
    TurnEnded,
    Unknown,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.values.json_text import parse_object
from stator.model.window.reply import usage_of

TurnStatus = Literal["ok", "aborted", "interrupted"]
NOTES_HELD_MAX = 64
"""The most notes that are held back until the prompt of their turn."""
OPEN_MAX = 10_000
"""The most calls whose result is awaited."""


class CodexReader:
    """Reads the lines of one rollout. It holds only the current answer and the calls without a
    result.

    `end_ordinal` ends the reading before the line with that ordinal.
    """

    def __init__(
        self, conversation: Conversation, cursor: Cursor, end_ordinal: int | None = None
    ) -> None:
        known = cursor.state
        self._thread = conversation.id
        self._end_ordinal = end_ordinal
        self._session_meta: dict[str, Any] = {}
        self._cwd = text(known.get("cwd")) or conversation.cwd
        self._model = text(known.get("model"))
        self._prompts = _number(known.get("prompts"))
        self._compactions = _number(known.get("compactions"))
        self._last_totals = record(known.get("totals"))
        self._unassigned_usage: dict[str, int] = dict(record(known.get("owed")))
        self._has_usage_records = known.get("records") is True
        self._splits: dict[str, dict[str, Any]] = dict(record(known.get("cuts")))
        """Answers that were yielded when the file ended within them: after how many items, and
        their cost. A file that grows continues such an answer, and the parts must get the same ids
        again."""
        self._turn_start: Cursor | None = None
        self._turn_cursor = cursor
        self._is_open = False
        self._task = ""
        self._prompt = ""
        self._answers = 0
        self._error = ""
        self._notes: list[Noted] = []
        self._group: list[tuple[dict[str, Any], int]] = []
        self._answer_usage: dict[str, int] = {}
        self._calls: dict[str, tuple[str, Any, str]] = {}
        self._notices: dict[str, dict[str, Any]] = {}
        self._line = 0
        self._handlers: dict[str, Callable[[dict[str, Any], JsonlLine, int], Iterator[Item]]] = {
            "session_meta": self._meta,
            "response_item": self._response,
            "event_msg": self._notice,
            "turn_context": self._context,
            "compacted": self._compacted,
            "token_usage_record": self._usage_record,
            "inter_agent_communication": self._message_between,
        }

    def read(self, rows: Iterable[JsonlLine]) -> Iterator[Item]:
        """Yield the items of some lines."""
        for line in rows:
            self._line = line.number
            value, problem = parse_line(line)
            if value is None:
                if problem:
                    yield Skipped(line=line.number, why=problem)
                continue
            ordinal = value.get("ordinal")
            if (
                self._end_ordinal is not None
                and type(ordinal) is int
                and ordinal >= self._end_ordinal
            ):
                break
            yield from whole_line(self._items(value, line), line.number)
        yield from whole_line(self._finish(), self._line)

    def _items(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        """Yield the items that a line adds."""
        kind, payload = unwrap_line(value)
        if kind != "session_meta" and is_inherited(self._session_meta, value):
            yield Noise(kind="inherited")
            return
        handler = self._handlers.get(kind)
        if handler is not None:
            yield from handler(payload, line, micros_of_iso(value.get("timestamp")))
        elif kind in IGNORED:
            yield Noise(kind=kind)
        else:
            yield self._unknown(value, line)

    def _finish(self) -> Iterator[Item]:
        """Yield what is held back when the file ends; a later import may continue there."""
        is_cut = bool(self._group)
        yield from self._close(is_cut=True)
        yield from self._results_from_notices(0)
        yield from self._yield_notes()
        if is_cut:
            at = self._turn_cursor
            yield Cursor(offset=at.offset, line=at.line, state={**at.state, "cuts": self._splits})

    def _state(self) -> dict[str, Any]:
        return {
            "cwd": self._cwd,
            "model": self._model,
            "prompts": self._prompts,
            "compactions": self._compactions,
            "totals": self._last_totals,
            "owed": dict(self._unassigned_usage),
            "records": self._has_usage_records,
        }

    def _mark_turn_start(self, line: JsonlLine) -> None:
        self._turn_start = Cursor(offset=line.offset, line=line.number - 1, state=self._state())

    def _unknown(self, value: dict[str, Any], line: JsonlLine) -> Item:
        return Unknown(
            id=f"line/{line.number}",
            at=micros_of_iso(value.get("timestamp")),
            raw=strip_attachments(value),
        )

    # -- the session and its turns ----------------------------------------------------------------

    def _meta(self, meta: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        if text(meta.get("id")) not in ("", self._thread) and self._thread:
            # a fork copies the line of the session it was forked from
            yield Noise(kind="session_meta")
            return
        self._session_meta = meta
        self._cwd = text(meta.get("cwd")) or self._cwd
        yield About(at=at, cwd=self._cwd, agent=SOURCE, labels=labels_of(meta))

    def _context(self, context: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        self._cwd = text(context.get("cwd")) or self._cwd
        self._model = text(context.get("model")) or self._model
        yield Noise(kind="turn_context")

    def _message(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        yield from self._close()
        content = _plain(strip_attachments(item.get("content")))
        meta = record(item.get(PASSTHROUGH))
        made = text_id(plain_text(item.get("content")), self._prompts)
        name = text(item.get("id")) or f"note/{made}"
        turn = text(meta.get("turn_id")) or self._task
        if not is_prompt(item):
            yield from self._note(Noted(id=name, at=at, content=content), line)
        elif turn and self._prompt == f"turn/{turn}":  # typed while the agent was working
            yield Noted(id=name, at=at, content=content, by="user")
        else:
            yield from self._begin(f"turn/{turn}" if turn else f"prompt/{made}", content, line, at)

    def _begin(self, name: str, content: Any, line: JsonlLine, at: int) -> Iterator[Item]:
        yield from self._results_from_notices(at)
        if self._turn_start is None:
            self._mark_turn_start(line)
        assert self._turn_start is not None  # set above
        if self._turn_start.offset != self._turn_cursor.offset:
            self._splits = {}  # they belong to a turn that is over
        self._turn_cursor, self._turn_start = self._turn_start, None
        yield self._turn_cursor
        self._prompt, self._is_open, self._error = name, True, ""
        self._answers = 0
        self._prompts += 1
        yield Prompted(id=name, at=at, content=content)
        yield from self._yield_notes()

    def _note(self, note: Noted, line: JsonlLine) -> Iterator[Item]:
        """Yield a note, or hold it back until the prompt whose turn it belongs to."""
        if self._is_open or len(self._notes) >= NOTES_HELD_MAX:
            yield note
            return
        if self._turn_start is None:
            self._mark_turn_start(line)
        self._notes.append(note)

    def _yield_notes(self) -> Iterator[Item]:
        notes, self._notes = self._notes, []
        yield from notes

    def _end(self, at: int, status: TurnStatus, why: str = "") -> Iterator[Item]:
        yield from self._close()
        yield from self._results_from_notices(at)
        if self._is_open:
            self._is_open = False
            yield TurnEnded(id=f"end/{self._prompt}", at=at, status=status, why=why)
        self._task = ""

    def _compacted(self, payload: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        yield from self._close()
        self._compactions += 1
        kept = records(payload.get("replacement_history"))
        summary = text(payload.get("message")) or (
            plain_text(kept[-1].get("content")) if kept else ""
        )
        yield Compacted(id=f"compact/{self._compactions}", at=at, summary=summary)

    # -- answers, calls, results ------------------------------------------------------------------

    def _response(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        kind = text(item.get("type"))
        if (
            kind in ANSWER_ITEMS
            or kind in CALLS
            or (kind == "message" and item.get("role") == "assistant")
        ):
            self._group.append((item, at))
            if len(self._group) == 1:
                self._answer_usage, self._unassigned_usage = self._unassigned_usage, {}
        elif kind == "message":
            yield from self._message(item, line, at)
        elif kind in OUTPUTS:
            yield from self._close()
            yield self._returned(item, line, at)
            yield from self._spawned_by(item, at)
        elif kind == "agent_message":
            yield from self._message_between(item, line, at)
        elif kind in IGNORED_ITEMS:
            yield Noise(kind=f"response_item/{kind}")
        else:
            yield self._unknown({"type": "response_item", "payload": item}, line)

    def _message_between(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        """A message from another agent."""
        yield from self._close()
        name = text(item.get("id")) or f"line/{line.number}"
        yield from self._note(Noted(id=name, at=at, content=strip_attachments(_bare(item))), line)

    def _answer_id(self) -> str:
        """The id of the current answer. It is made from the first item alone, because the others
        may not be written yet."""
        first = self._group[0][0]
        if text(first.get("id")):
            return text(first["id"])
        made = text_id(plain_text(first.get("content")), self._prompt, self._answers)
        return f"answer/{text(first.get('call_id')) or made}"

    def _close(self, *, is_cut: bool = False) -> Iterator[Item]:
        """Yield the current answer, either because it is complete or because the file ends
        (`is_cut`).

        After a cut, a later import finds the same answer with more items. The part that was
        recorded keeps its id; the rest becomes another answer. To arrive at the same ids again, the
        answer is split at the same places.
        """
        if self._group:
            yield from whole_line(self._closed(is_cut), self._line)
            self._group = []  # also if its shape was odd

    def _closed(self, is_cut: bool) -> Iterator[Item]:
        name = self._answer_id()
        group, self._group = self._group, []
        paid, self._answer_usage = self._answer_usage, {}
        self._answers += 1
        known = self._splits.get(name, {})
        split_after, charged = known.get("after", []), known.get("paid", {})
        edges = [0, *(n for n in split_after if n < len(group)), len(group)]
        unpaid = {
            unit: n - charged.get(unit, 0) for unit, n in paid.items() if n > charged.get(unit, 0)
        }
        for start, stop in pairwise(edges):
            yield Answered(
                id=f"{name}+{start}" if start else name,
                at=group[start][1],
                reply={"output": strip_attachments([_bare(item) for item, _ in group[start:stop]])},
                usage=unpaid if stop == len(group) and stop not in split_after else {},
                model=self._model,
            )
            for item, at in group[start:stop]:
                if item.get("type") in CALLS:
                    yield from self._called(item, at)
        if unpaid and len(group) in split_after:  # it was recorded before its cost was known
            at = group[-1][1]
            yield Answered(id=f"{name}/spent", at=at, reply="", usage=unpaid, partial=True)
        if is_cut:
            self._splits[name] = {"after": sorted({*split_after, len(group)}), "paid": paid}

    def _called(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        tool, arguments = tool_of(item), strip_attachments(input_of(item))
        name = text(item.get("call_id")) or text(item.get("id"))
        if not name:
            name = f"call/{text_id(tool, self._prompt, self._answers, at)}"
        yield Called(id=name, at=at, tool=tool, input=arguments, effect=effect_of(tool))
        steps = tools.steps_of(tool, arguments)
        if steps:
            yield Planned(id=name, at=at, steps=steps)
        if item.get("type") in PROVIDER_CALLS:
            notice = self._notices.pop(name, {})
            failed = text(item.get("status")) not in ("", "completed")
            result = text(item.get("result"))
            output = strip_attachments(notice.get("results")) or (
                attachment_note("image", result) if result else None
            )
            yield Returned(
                id=name, at=at, tool=tool, output=output, source=source_of(tool),
                status="error" if failed else "ok",
            )  # fmt: skip
            return
        self._calls[name] = tool, arguments, self._cwd
        while len(self._calls) > OPEN_MAX:
            del self._calls[next(iter(self._calls))]

    def _returned(self, item: dict[str, Any], line: JsonlLine, at: int) -> Item:
        name = text(item.get("call_id")) or f"line/{line.number}"
        output = item.get("output", item.get("tools"))
        return self._result(name, output, at)

    def _result(self, name: str, output: Any, at: int) -> Item:
        tool, arguments, cwd = self._calls.pop(name, ("", None, self._cwd))
        notice = self._notices.pop(name, {})
        ended = tools.outcome_of(tool, output, notice)
        result = record(notice.get("result"))
        result = record(result.get("Ok")) or result
        shown = result if "content" in result else tools.unwrap_output(output)[0]
        files = tools.files_of(tool, arguments, cwd, notice) if ended.status == "ok" else ()
        return Returned(
            id=name, at=at, status=ended.status, cause=ended.cause,
            output=strip_attachments(shown), files=files, tool=tool, source=source_of(tool),
        )  # fmt: skip

    def _results_from_notices(self, at: int) -> Iterator[Item]:
        """Results that only a notice contains, because Codex died before it gave them to the model."""
        for name in [name for name in self._notices if name in self._calls]:
            notice = self._notices[name]
            shown = notice.get("aggregated_output", notice.get("stdout"))
            yield self._result(name, shown, at or micros_of_iso(notice.get("completed_at")))
        self._notices.clear()

    # -- notices ----------------------------------------------------------------------------------

    def _notice(self, notice: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        kind = text(notice.get("type"))
        if kind in ("task_started", "turn_started"):
            # a new turn begins, so the open one was never ended
            yield from self._end(at, "interrupted")
            self._task = text(notice.get("turn_id"))
            self._mark_turn_start(line)
        elif kind in ("task_complete", "turn_complete"):
            yield from self._end(at, "aborted" if self._error else "ok", self._error)
        elif kind == "turn_aborted":
            yield from self._end(at, "interrupted", text(notice.get("reason")))
        elif kind == "token_count":
            self._token_count(record(notice.get("info")))
        elif kind == "item_completed":
            yield from self._completed(record(notice.get("item")), at)
        elif kind in RESULT_NOTICES and text(notice.get("call_id")):
            self._keep_notice(notice["call_id"], notice)
        elif kind == "error":
            self._error = cut_short(text(notice.get("message")), 400)
            yield Noise(kind="event_msg/error")
        elif kind == "collab_agent_spawn_end":
            yield from self._spawned(text(notice.get("new_thread_id")), notice, at)
        elif kind == "thread_name_updated":
            yield About(at=at, name=text(notice.get("thread_name")))
        elif kind == "thread_rolled_back":
            number = _number(notice.get("num_turns"))
            note = f"[the last {number} turns were taken back]"
            yield Noted(id=f"line/{line.number}", at=at, content=note, by="user")
        elif kind in IGNORED_NOTICES:
            yield Noise(kind=f"event_msg/{kind}")
        else:
            yield self._unknown({"type": "event_msg", "payload": notice}, line)

    def _completed(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        kind, name = text(item.get("type")), text(item.get("id"))
        if kind in RESULT_ITEMS and name:
            self._keep_notice(name, item)
        elif kind == "CollabAgentToolCall" and "spawn" in text(item.get("tool")).lower():
            yield from self._close()
            for child in item["receiver_thread_ids"] or []:
                yield from self._spawned(text(child), {"call_id": name}, at)
        else:
            yield Noise(kind=f"item_completed/{kind}")

    def _keep_notice(self, name: str, notice: dict[str, Any]) -> None:
        if name in self._calls or self._group:
            self._notices[name] = {**self._notices.get(name, {}), **notice}

    def _spawned(self, child: str, notice: dict[str, Any], at: int) -> Iterator[Item]:
        if child:
            named = text(notice.get("new_agent_nickname")) or text(notice.get("nickname"))
            yield Spawned(
                id=child, at=at, child=child, name=named, call=text(notice.get("call_id"))
            )

    def _spawned_by(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        """Older versions name a sub-agent only in the result of the call that started it."""
        plain = tools.unwrap_output(item.get("output"))[0]
        if isinstance(plain, str) and plain.startswith('{"agent_id"'):
            result, _ = parse_object(plain)
            child = text(result.get("agent_id"))
            if THREAD.fullmatch(child):
                yield from self._spawned(child, {**item, **result}, at)

    # -- usage ------------------------------------------------------------------------------------

    def _usage_record(self, payload: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        self._has_usage_records = True
        self._add_usage(record(payload.get("usage")))
        yield Noise(kind="token_usage_record")

    def _token_count(self, info: dict[str, Any]) -> None:
        """Codex repeats the total after every step. Only a changed total is new, and it counts only
        in files without usage records."""
        totals = record(info.get("total_token_usage"))
        if not self._has_usage_records and totals and totals != self._last_totals:
            self._last_totals = totals
            self._add_usage(record(info.get("last_token_usage")))

    def _add_usage(self, usage: dict[str, Any]) -> None:
        details = {
            "cached_tokens": usage.get("cached_input_tokens"),
            "cache_write_tokens": usage.get("cache_write_input_tokens"),
        }
        spent = usage_of({"output": [], "usage": {**usage, "input_tokens_details": details}})
        unpaid = self._answer_usage if self._group else self._unassigned_usage
        for unit, amount in spent.items():
            unpaid[unit] = unpaid.get(unit, 0) + amount


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """An item in the provider's form."""
    return {key: value for key, value in item.items() if key != PASSTHROUGH}


def _plain(content: Any) -> Any:
    """The content as a string if it consists only of texts."""
    blocks = records(content)
    plain = all(block.get("type") == "input_text" for block in blocks)
    if not blocks or not plain or len(blocks) != len(content):
        return content
    return "\n\n".join(plain_text([block]) for block in blocks)


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
