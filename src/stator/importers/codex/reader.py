"""Turns the lines of a Codex rollout into items.

`response_item` lines contain what the model received and answered. The reader groups them into
answers in the provider's form: `{"output": [items]}`. Notices (`event_msg`) repeat most of it for
display. The reader uses only what nothing else contains: how turns begin and end, structured
results, and the cost.

An answer is held back until a line comes that Codex writes only after the whole answer: its cost
(`token_usage_record`, or a `token_count` with a new total), a result, a message, a compaction, the end or
the begin of a turn. Notes that come before a prompt are held back until the prompt, because they belong
to its turn, or until an answer shows that no prompt comes.

A turn has the id that hooks see too (`turn/<turn_id>`). Older files have no such id; there, it is
made from the prompt and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from stator.importers.codex import tools
from stator.importers.codex.messages import (
    PASSTHROUGH,
    bare_item,
    parts_of,
    started_by_agent,
    words_between,
)
from stator.importers.codex.rollout_lines import (
    ANSWER_ITEMS,
    CALLS,
    IGNORED,
    IGNORED_ITEMS,
    IGNORED_NOTICES,
    OUTPUTS,
    PROVIDER_CALLS,
    RESULT_ITEMS,
    RESULT_NOTICES,
    SETTING_MAX,
    SOURCE,
    THREAD,
    is_inherited,
    labels_of,
    own_history_start,
    parent_of,
    settings_of,
    unwrap_line,
)
from stator.importers.codex.tools import effect_of, input_of, source_of, tool_of
from stator.importers.reading.attachments import attachment_note, strip_attachments
from stator.importers.reading.fields import micros_of_iso, record, records, text
from stator.importers.reading.jsonl import JsonlLine
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.plain_text import plain_text
from stator.model.exchange.items import (
    About,
    Answered,
    Author,
    Called,
    Compacted,
    Configured,
    Conversation,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
    Unknown,
    digest_of,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.values.json_text import canonical, parse_object

TurnStatus = Literal["ok", "aborted", "interrupted"]
NOTES_HELD_MAX = 64
"""The most notes that are held back until the prompt of their turn."""
GROUP_MAX = 256
"""The most items of one answer."""
OPEN_MAX = 256
"""The most calls whose result is awaited."""
PATH_MAX = 4096
NAME_MAX = 256
"""The most characters of a name that the reader keeps from line to line."""


class CodexReader:
    """Reads the lines of one rollout. Of earlier lines it keeps numbers and names; it holds back the
    current answer, the calls without a result and what comes before a prompt.

    `end_ordinal` ends the reading before the line with that ordinal.
    """

    def __init__(self, conversation: Conversation, end_ordinal: int | None = None) -> None:
        self._thread = conversation.id
        self._end_ordinal = end_ordinal
        self._history_start = 0
        self._is_child = False
        self._cwd = conversation.cwd
        self._settings: dict[str, Any] = {}
        self._configured = 0
        self._prompts = 0
        self._compactions = 0
        self._totals = ""
        self._unassigned_usage: dict[str, int] = {}
        self._has_usage_records = False
        self._is_open = False
        self._task = ""
        self._by_agent: bool | None = None
        """Whether an agent started the current turn; None: Codex does not say."""
        self._triggers = False
        """Whether the next message from another agent starts a turn."""
        self._prompt = ""
        self._answers = 0
        self._error = ""
        self._rested: tuple[str, int] | None = None
        """The answer that was given at rest, and how many of its items. More items may follow."""
        self._notes: list[tuple[Noted | Configured, bool]] = []
        """What is held back until a prompt, and whether it starts a turn if no prompt comes."""
        self._group: list[tuple[dict[str, Any], int]] = []
        self._answer_usage: dict[str, int] = {}
        self._calls: dict[str, tuple[str, Any, str]] = {}
        self._notices: dict[str, tuple[dict[str, Any], int]] = {}
        self._line = 0
        self._handlers: dict[str, Callable[[dict[str, Any], JsonlLine, int], Iterator[Item]]] = {
            "session_meta": self._meta,
            "response_item": self._response,
            "event_msg": self._notice,
            "turn_context": self._context,
            "compacted": self._compacted,
            "token_usage_record": self._usage_record,
            "inter_agent_communication": self._message_between,
            "inter_agent_communication_metadata": self._announced,
        }

    # -- reading line by line -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that must be known after the lines read so far, provided that nothing is held back."""
        return {
            "history start": self._history_start,
            "child": self._is_child,
            "cwd": self._cwd,
            "settings": dict(self._settings),
            "configured": self._configured,
            "prompts": self._prompts,
            "compactions": self._compactions,
            "totals": self._totals,
            "owed": dict(self._unassigned_usage),
            "records": self._has_usage_records,
            "open": self._is_open,
            "task": self._task,
            "by agent": self._by_agent,
            "triggers": self._triggers,
            "prompt": self._prompt,
            "answers": self._answers,
            "error": self._error,
            "rested": list(self._rested) if self._rested else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the state of a reader that has read the lines before."""
        self._history_start = _number(state.get("history start"))
        self._is_child = state.get("child") is True
        self._cwd = text(state.get("cwd"))
        self._settings = dict(record(state.get("settings")))
        self._configured = _number(state.get("configured"))
        self._prompts = _number(state.get("prompts"))
        self._compactions = _number(state.get("compactions"))
        self._totals = text(state.get("totals"))
        self._unassigned_usage = dict(record(state.get("owed")))
        self._has_usage_records = state.get("records") is True
        self._is_open = state.get("open") is True
        self._task = text(state.get("task"))
        by_agent = state.get("by agent")
        self._by_agent = by_agent if isinstance(by_agent, bool) else None
        self._triggers = state.get("triggers") is True
        self._prompt = text(state.get("prompt"))
        self._answers = _number(state.get("answers"))
        self._error = text(state.get("error"))
        rested = state.get("rested")
        self._rested = (text(rested[0]), _number(rested[1])) if isinstance(rested, list) else None

    @property
    def holds(self) -> bool:
        """Whether something is held back for which lines already read are needed."""
        return bool(self._group or self._calls or self._notes)

    def items(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        """Yield the items that a line adds."""
        self._line = line.number
        kind, payload = unwrap_line(value)
        ordinal = value.get("ordinal")
        if self._end_ordinal is not None and type(ordinal) is int and ordinal >= self._end_ordinal:
            return
        if kind != "session_meta" and is_inherited(self._history_start, value):
            yield Noise(kind="inherited")
            return
        handler = self._handlers.get(kind)
        if handler is not None:
            yield from handler(payload, line, micros_of_iso(value.get("timestamp")))
        elif kind in IGNORED:
            yield Noise(kind=kind)
        else:
            yield self._unknown(value, line)

    def rest(self) -> Iterator[Item]:
        """Give the current answer, and results that only notices contain. Notes wait for their prompt.

        While one call still runs, Codex writes no result of the calls beside it. So a result is taken from
        a notice only if each call has one; then Codex must have died before it wrote them.
        """
        yield from self._close(at_rest=True)
        if self._calls.keys() <= self._notices.keys():
            yield from self._results_from_notices()

    def let_go(self) -> Iterator[Item]:
        """Give or forget everything that is held back."""
        yield from self._settle()
        self._calls.clear()
        yield from self._give_notes()

    def _settle(self) -> Iterator[Item]:
        """Give what cannot continue between two turns."""
        yield from self._close()
        yield from self._results_from_notices()

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
        yield from self._settle()  # it is written again when a session is resumed
        self._history_start = own_history_start(meta)
        self._is_child = bool(parent_of(meta))
        self._cwd = cut_short(text(meta.get("cwd")), PATH_MAX) or self._cwd
        yield About(at=at, cwd=self._cwd, agent=SOURCE, labels=labels_of(meta))
        version = cut_short(text(meta.get("cli_version")), SETTING_MAX)
        yield from self._configure({"version": version} if version else {}, at)

    def _context(self, context: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        self._cwd = cut_short(text(context.get("cwd")), PATH_MAX) or self._cwd
        yield Noise(kind="turn_context")
        yield from self._configure(settings_of(context), at)

    def _configure(self, settings: Mapping[str, Any], at: int) -> Iterator[Item]:
        """Yield what the agent runs with, if it changed; before a prompt it is held back like a note."""
        new = {name: value for name, value in settings.items() if self._settings.get(name) != value}
        if new:
            self._settings |= new
            self._configured += 1
            yield from self._note(
                Configured(id=f"settings/{self._configured}", at=at, settings=new)
            )

    def _message(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        yield from self._close()
        parts = parts_of(item)
        meta = record(item.get(PASSTHROUGH))
        made = text_id(plain_text(item.get("content")), self._prompts)
        name = text(item.get("id")) or f"note/{made}"
        turn = _kept(meta.get("turn_id")) or self._task
        if parts.instructions:
            instructions = {"AGENTS.md": digest_of(parts.instructions)}
            yield from self._configure({"instructions": instructions}, at)
        if parts.typed is None:
            yield from self._note(Noted(id=name, at=at, content=parts.added))
            return
        if turn and self._prompt == f"turn/{turn}":  # typed while the agent was working
            yield Noted(id=name, at=at, content=parts.typed, by=self._author())
        else:
            yield from self._begin(
                f"turn/{turn}" if turn else f"prompt/{made}", parts.typed, at, self._author()
            )
        if parts.added is not None:
            yield Noted(id=f"{name}/context", at=at, content=parts.added)

    def _author(self) -> Author:
        """Who writes the prompts of the current turn. The first one of a sub-agent is its parent's."""
        by_agent = self._by_agent
        if self._is_child and (by_agent is None or self._prompts == 0):
            by_agent = True
        return "agent" if by_agent else "user"

    def _begin(self, name: str, content: Any, at: int, by: Author) -> Iterator[Item]:
        yield from self._results_from_notices()
        self._calls.clear()
        self._prompt, self._is_open, self._error = name, True, ""
        self._answers = 0
        self._prompts += 1
        yield Prompted(id=name, at=at, content=content, by=by)
        yield from self._give_notes()

    def _note(self, note: Noted | Configured, *, starts_turn: bool = False) -> Iterator[Item]:
        """Yield a note, or hold it back until the prompt whose turn it belongs to."""
        if self._is_open or len(self._notes) >= NOTES_HELD_MAX:
            yield note
        else:
            self._notes.append((note, starts_turn))

    def _give_notes(self) -> Iterator[Item]:
        notes, self._notes = self._notes, []
        yield from (note for note, _ in notes)

    def _begin_without_prompt(self) -> Iterator[Item]:
        """An answer begins, so no prompt comes: a message from another agent may have started the turn."""
        first = next((note for note, starts in self._notes if starts), None)
        if not isinstance(first, Noted):
            yield from self._give_notes()
            return
        self._notes = [pair for pair in self._notes if pair[0] is not first]
        name = f"turn/{self._task}" if self._task else first.id
        yield from self._begin(name, words_between(first.content), first.at, "agent")

    def _end(self, at: int, status: TurnStatus, why: str = "") -> Iterator[Item]:
        yield from self._settle()
        if self._is_open:
            self._is_open = False
            yield TurnEnded(id=f"end/{self._prompt}", at=at, status=status, why=why)
        self._task, self._by_agent = "", None

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
            yield from self._answer_item(item, at)
        elif kind == "message":
            yield from self._message(item, line, at)
        elif kind in OUTPUTS:
            yield from self._close()
            yield from self._returned(item, line, at)
            yield from self._spawned_by(item, at)
        elif kind == "agent_message":
            yield from self._message_between(item, line, at)
        elif kind in IGNORED_ITEMS:
            yield Noise(kind=f"response_item/{kind}")
        else:
            yield self._unknown({"type": "response_item", "payload": item}, line)

    def _answer_item(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        if len(self._group) >= GROUP_MAX:
            yield from self._close()
        if self._notes:
            yield from self._begin_without_prompt()
        if not self._group:
            self._answer_usage, self._unassigned_usage = self._unassigned_usage, {}
        self._group.append((item, at))

    def _announced(self, payload: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        self._triggers = payload.get("trigger_turn") is True
        yield Noise(kind="inter_agent_communication_metadata")

    def _message_between(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        """A message from another agent."""
        yield from self._close()
        name = text(item.get("id")) or f"line/{line.number}"
        starts, self._triggers = self._triggers or item.get("trigger_turn") is True, False
        note = Noted(id=name, at=at, content=strip_attachments(bare_item(item)), by="agent")
        yield from self._note(note, starts_turn=starts)

    def _answer_id(self) -> str:
        """The id of the current answer. It is made from the first item alone, because the others
        may not be written yet."""
        first = self._group[0][0]
        if text(first.get("id")):
            return text(first["id"])
        made = text_id(plain_text(first.get("content")), self._prompt, self._answers)
        return f"answer/{text(first.get('call_id')) or made}"

    def _close(self, *, at_rest: bool = False) -> Iterator[Item]:
        """Yield the current answer: it is complete, or nothing more is expected (`at_rest`).

        If more items follow an answer that was given at rest, they become another answer,
        `<id>+<items before>`.
        """
        if self._group:
            yield from whole_line(self._closed(at_rest), self._line)
            self._group = []  # also if its shape was odd
        elif not at_rest:
            self._rested = None

    def _closed(self, at_rest: bool) -> Iterator[Item]:
        name, before = self._rested or (_kept(self._answer_id()), 0)
        group, self._group = self._group, []
        paid, self._answer_usage = self._answer_usage, {}
        if not before:
            self._answers += 1
        self._rested = (name, before + len(group)) if at_rest else None
        yield Answered(
            id=f"{name}+{before}" if before else name,
            at=group[0][1],
            reply={"output": strip_attachments([bare_item(item) for item, _ in group])},
            usage=paid,
            model=text(self._settings.get("model")),
        )
        for item, at in group:
            if item.get("type") in CALLS:
                yield from self._called(item, at)
        # a notice without a call says nothing about what comes later
        self._notices = {n: kept for n, kept in self._notices.items() if n in self._calls}

    def _called(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        tool, arguments = tool_of(item), strip_attachments(input_of(item))
        name = text(item.get("call_id")) or text(item.get("id"))
        if not name:
            name = f"call/{text_id(tool, self._prompt, self._answers, at)}"
        effect = effect_of(tool, arguments)
        yield Called(id=name, at=at, tool=tool, input=arguments, effect=effect)
        if item.get("type") in PROVIDER_CALLS:
            notice, _ = self._notices.pop(name, ({}, 0))
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
        if len(self._calls) > OPEN_MAX:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self._notices.pop(oldest, None)

    def _returned(self, item: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        name = text(item.get("call_id")) or f"line/{line.number}"
        output = item.get("output", item.get("tools"))
        return self._result(name, output, at)

    def _result(self, name: str, output: Any, at: int) -> Iterator[Item]:
        tool, arguments, cwd = self._calls.pop(name, ("", None, self._cwd))
        notice, _ = self._notices.pop(name, ({}, 0))
        ended = tools.outcome_of(tool, output, notice, arguments)
        result = record(notice.get("result"))
        result = record(result.get("Ok")) or result
        shown = result if "content" in result else tools.unwrap_output(output)[0]
        files = tools.files_of(tool, arguments, cwd, notice) if ended.status == "ok" else ()
        yield Returned(
            id=name, at=at, status=ended.status, cause=ended.cause,
            output=strip_attachments(shown), files=files, tool=tool, source=source_of(tool),
        )  # fmt: skip
        steps = tools.steps_of(tool, arguments) if ended.status == "ok" else ()
        if steps:  # a call that failed changed no plan
            yield Planned(id=name, at=at, steps=steps)

    def _results_from_notices(self) -> Iterator[Item]:
        """Results that only a notice contains, because Codex died before it gave them to the model."""
        for name in [name for name in self._notices if name in self._calls]:
            notice, at = self._notices[name]
            yield from self._result(name, notice.get("aggregated_output", notice.get("stdout")), at)
        self._notices.clear()

    # -- notices ----------------------------------------------------------------------------------

    def _notice(self, notice: dict[str, Any], line: JsonlLine, at: int) -> Iterator[Item]:
        kind = text(notice.get("type"))
        if kind in ("task_started", "turn_started"):
            # a new turn begins, so the open one was never ended
            yield from self._end(at, "interrupted")
            self._task = _kept(notice.get("turn_id"))
            self._by_agent = started_by_agent(notice)
        elif kind in ("task_complete", "turn_complete"):
            yield from self._end(at, "aborted" if self._error else "ok", self._error)
        elif kind == "turn_aborted":
            yield from self._end(at, "aborted", cut_short(text(notice.get("reason")), 400))
        elif kind == "token_count":
            yield from self._token_count(record(notice.get("info")), at)
        elif kind == "item_completed":
            yield from self._completed(record(notice.get("item")), at)
        elif kind in RESULT_NOTICES and text(notice.get("call_id")):
            self._keep_notice(notice["call_id"], notice, at)
        elif kind == "error":
            self._error = cut_short(text(notice.get("message")), 400)
            yield Noise(kind="event_msg/error")
        elif kind == "collab_agent_spawn_end":
            yield from self._spawned(text(notice.get("new_thread_id")), notice, at)
        elif kind == "sub_agent_activity" and notice.get("kind") == "started":
            call = {"call_id": notice.get("event_id")}
            yield from self._spawned(text(notice.get("agent_thread_id")), call, at)
        elif kind == "thread_name_updated":
            yield About(at=at, name=text(notice.get("thread_name")))
        elif kind == "thread_rolled_back":
            number = _number(notice.get("num_turns"))
            note = f"[the last {number} turns were taken back]"
            yield from self._settle()
            yield Noted(id=f"line/{line.number}", at=at, content=note, by="user")
        elif kind in IGNORED_NOTICES:
            yield Noise(kind=f"event_msg/{kind}")
        else:
            yield self._unknown({"type": "event_msg", "payload": notice}, line)

    def _completed(self, item: dict[str, Any], at: int) -> Iterator[Item]:
        kind, name = text(item.get("type")), text(item.get("id"))
        if kind in RESULT_ITEMS and name:
            self._keep_notice(name, item, at)
        elif kind == "CollabAgentToolCall" and "spawn" in text(item.get("tool")).lower():
            yield from self._close()
            for child in item["receiver_thread_ids"] or []:
                yield from self._spawned(text(child), {"call_id": name}, at)
        elif kind == "SubAgentActivity" and item.get("kind") == "started":
            yield from self._close()
            yield from self._spawned(text(item.get("agent_thread_id")), {"call_id": name}, at)
        else:
            yield Noise(kind=f"item_completed/{kind}")

    def _keep_notice(self, name: str, notice: dict[str, Any], at: int) -> None:
        if name in self._calls or self._group:
            known, _ = self._notices.get(name, ({}, 0))
            self._notices[name] = {**known, **notice}, at

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
        yield from self._spend(record(payload.get("usage")), at)
        yield Noise(kind="token_usage_record")

    def _token_count(self, info: dict[str, Any], at: int) -> Iterator[Item]:
        """Codex repeats the total after every step. Only a changed total is new, and it counts only
        in files without usage records."""
        totals = record(info.get("total_token_usage"))
        known = text_id(canonical(totals)) if totals else ""
        if not self._has_usage_records and totals and known != self._totals:
            self._totals = known
            yield from self._spend(record(info.get("last_token_usage")), at)

    def _spend(self, usage: dict[str, Any], at: int) -> Iterator[Item]:
        """The cost of the current answer, which is complete then. Old versions write it before the answer."""
        spent = tools.spent_of(usage)
        if self._rested and not self._group:
            name, _ = self._rested
            self._rested = None
            if spent:  # it was given before its cost was known
                yield Answered(id=f"{name}/spent", at=at, reply="", usage=spent, partial=True)
            return
        unpaid = self._answer_usage if self._group else self._unassigned_usage
        for unit, amount in spent.items():
            unpaid[unit] = unpaid.get(unit, 0) + amount
        yield from self._close()


def _kept(value: Any) -> str:
    """A name that the reader keeps from line to line: as it is, or, if it is too long, its digest."""
    name = text(value)
    return name if len(name) <= NAME_MAX else f"long/{text_id(name)}"


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
