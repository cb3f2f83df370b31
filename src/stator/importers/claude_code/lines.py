"""Reads a Claude Code transcript line by line, from any line on.

Claude Code writes a message of the model block by block, each block on its own line, all with the same
`message.id`. If tools run in parallel, the results of the first tool are written between the blocks of the last
one. So a message is held back, with the lines between its own, until a line comes that cannot precede its end:

- a line of the same agent with another `message.id`, also one that the program wrote in the model's name;
- a prompt, a report of a background task, or `[Request interrupted by user…]`, of the same agent;
- `compact_boundary`, `turn_duration` and `stop_hook_summary`, and the last line of printed output;
- for the message of a sub-agent in its parent's file: the result of the call that started it;
- for a message that starts a sub-agent in the same file: the first line of that sub-agent.

`stop_reason` closes nothing: Claude Code writes it on every line of a message. The end of the file closes nothing
either. Only if the conversation is at rest are messages yielded as far as they go. If one continues after that,
its further blocks become another answer, `<message id>+<number of earlier blocks>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stator.importers.claude_code import tools
from stator.importers.claude_code.line_fields import (
    INTERRUPTED,
    block_type,
    content_of,
    from_printed,
    is_printed,
    is_report,
    kind_with_detail,
    name_field,
    prompt_text,
    text_field,
)
from stator.importers.claude_code.line_items import (
    LineItems,
    LineOf,
    call_in,
    message_of,
)
from stator.importers.claude_code.reader_state import (
    CHILDREN_MAX,
    MAPPER,
    ChildPlace,
    LinePlace,
    OpenMessage,
    ReaderState,
    SeenLines,
    chain_of,
    lines_at,
    link,
    remember,
    restored,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.jsonl import JsonlLine, parse_line, read_lines
from stator.importers.reading.line_boundary import looked_at, whole_line
from stator.model.exchange.items import Cursor, Item, Noise, Skipped, Spawned

HELD_LINES = 1_000
HELD_BYTES = 32 * 2**20
"""The most lines, and bytes, that are held back for one message; then it is yielded incomplete."""
CURSOR_LINES = 500
"""A cursor follows at least after so many lines."""
CHAINED = frozenset({"user", "assistant", "system", "attachment"})
IGNORED = frozenset(
    "queue-operation file-history-snapshot file-history-delta progress api-request api-request-shape"
    " api-request-blob atis-latch last-prompt tools-used cost-state"
    " content-replacement tag agent-name agent-color agent-setting pr-link worktree-state"
    " attribution-snapshot speculation-accept task-summary agent_metadata stream_event"
    " tool_progress tool_use_summary auth_status keep_alive rate_limit_event".split()
)
"""Types of lines that contain nothing about the work."""
CLOSING = frozenset({"compact_boundary", "turn_duration", "stop_hook_summary"})
"""Lines of type `system` that are written only after a message is complete."""


_StartingCall = tuple[str, tools.ClaudeCodeCall, LinePlace]
"""The conversation that made a call, the call, and the line that holds it."""


class ClaudeCodeReader:
    """Reads one file from a cursor."""

    def __init__(self, found: FoundConversation, cursor: Cursor | None) -> None:
        state = restored(cursor.state) if cursor is not None else None
        # the cursor of another mapping says nothing about this one
        start = cursor if cursor is not None and state is not None else Cursor(offset=0)
        self._path = found.path
        self._session = found.conversation.id.partition("/")[0]
        self._state = ReaderState(mapper=MAPPER) if state is None else state
        self._seen = SeenLines(self._state.seen)
        self._items = LineItems(found.conversation, found.path, self._state, self._seen)
        self._offset, self._line = start.offset, start.line
        self._cursor_line = start.line
        self._held: dict[str, list[LineOf]] = {}
        for within, message in self._state.open.items():
            self._held[within] = [
                self._line_of(record, line, within)
                for line in lines_at(self._path, message.lines)
                if (record := parse_line(line)[0]) is not None
            ]

    def read(self, progress: Progress | None, *, at_rest: bool) -> Iterator[Item]:
        """Yield the items of all further lines and a cursor; at rest also what was held back, and
        another cursor."""
        rows = read_lines(self._path, offset=self._offset, number=self._line, progress=progress)
        for line in rows:
            if line.is_unended and not at_rest:
                break  # its end is not written yet
            if line.is_cut:
                yield Skipped(line=line.number, why=line.problem)
                break
            yield from self._read_line(line)
            # a newline that is written later belongs to a line that was read already
            self._offset, self._line = line.end, line.number - line.is_unended
        yield self._cursor()
        if at_rest and (self._held or self._state.boundary is not None):
            for within in list(self._held):
                yield from self._close(within)
            yield from self._compacted("")
            yield self._cursor()

    def _cursor(self) -> Cursor:
        self._state.seen = self._seen.text()
        self._cursor_line = self._line
        return Cursor(offset=self._offset, line=self._line, state=msgspec.to_builtins(self._state))

    # -- one line ---------------------------------------------------------------------------------

    def _read_line(self, line: JsonlLine) -> Iterator[Item]:
        record, why = parse_line(line)
        if record is None:
            if why:
                yield Skipped(line=line.number, why=why)
            return
        seen = looked_at(self._line_of, record, line, default=None)
        if seen is None:
            yield Skipped(line=line.number, why="unexpected shape")
            return
        is_prompt = _is_prompt(seen)
        if self._line > self._cursor_line and (
            (is_prompt and not seen.within) or self._line - self._cursor_line >= CURSOR_LINES
        ):
            yield self._cursor()
        if seen.kind in CHAINED or seen.kind == "result":
            if seen.uuid and seen.uuid in self._seen:
                yield Noise(kind="repeated")
                return
            self._remember(seen)
        if seen.kind in IGNORED:
            yield Noise(kind=kind_with_detail(seen.record, seen.kind))
        else:
            yield from self._take(seen, is_closing=is_prompt or _is_closing(seen))

    def _line_of(
        self, record: dict[str, Any], line: JsonlLine, within: str | None = None
    ) -> LineOf:
        printed = is_printed(record)
        record = from_printed(record) if printed else record
        kind = text_field(record, "type")
        where = self._within(record) if within is None else within
        return LineOf(record, line, kind, where, printed)

    def _within(self, record: dict[str, Any]) -> str:
        """The sub-agent's conversation that a line belongs to; "" for the main one."""
        if record.get("isSidechain") is not True:
            return ""
        agent = name_field(record, "agentId")
        # older versions give no id: lines that are linked to each other belong to one sub-agent
        if not agent:
            above = chain_of(self._state.chains, text_field(record, "parentUuid"))
            agent = above or name_field(record, "uuid")
        return "" if agent == self._items.agent else tools.child_id(self._session, agent)

    def _remember(self, seen: LineOf) -> None:
        if seen.uuid:
            self._seen.add(seen.uuid)
        if seen.within and not text_field(seen.record, "agentId"):
            link(self._state.chains, seen.within.partition("/")[2], seen.uuid)

    # -- holding back -----------------------------------------------------------------------------

    def _take(self, seen: LineOf, *, is_closing: bool) -> Iterator[Item]:
        """Read a line now, or hold it back until the open message of its agent is complete."""
        within = seen.within
        if self._state.boundary is not None and seen.kind in CHAINED:
            is_summary = bool(seen.record.get("isCompactSummary"))
            if is_summary and self._state.boundary.within == within:
                yield from self._compacted(tools.text_of(content_of(seen.record)))
                return
            yield from self._compacted("")
        yield from self._started(seen)
        for child in self._ended(seen):
            yield from self._close(child)
        message = message_of(seen.record)
        known = self._state.open.get(within)
        other = seen.kind == "assistant" and known is not None and _message_id(seen) != known.id
        if is_closing or other:
            yield from self._close(within)
            known = None
        if message is not None and known is None:
            known = self._state.open[within] = OpenMessage(_message_id(seen))
            self._held[within] = []
        if known is None:
            yield from whole_line(self._items.of(seen), seen.line.number)
            return
        known.lines.append(LinePlace(seen.line.number, seen.line.offset))
        known.size += len(seen.line.data)
        self._held[within].append(seen)
        if len(known.lines) >= HELD_LINES or known.size >= HELD_BYTES:
            yield from self._close(within)

    def _close(self, within: str) -> Iterator[Item]:
        """Yield the open message of an agent, and then what came between its lines."""
        message = self._state.open.pop(within, None)
        held = self._held.pop(within, [])
        if message is None:
            return
        own: list[LineOf] = []
        others: list[LineOf] = []
        for one in held:
            is_own = _message_id(one) == message.id and message_of(one.record) is not None
            (own if is_own else others).append(one)
        if own:
            number = own[-1].line.number
            yield from whole_line(self._items.message(message.id, own, within), number)
        for one in others:
            yield from whole_line(self._items.of(one), one.line.number)

    def _compacted(self, summary: str) -> Iterator[Item]:
        """Yield the compaction that waits for its summary."""
        pending, self._state.boundary = self._state.boundary, None
        if pending is not None:
            yield self._items.compacted(pending, summary)

    # -- sub-agents in the same file --------------------------------------------------------------

    def _started(self, seen: LineOf) -> Iterator[Item]:
        """The start of a sub-agent whose first line this is, after the message with the call that started it."""
        if not seen.within:
            return
        agent = seen.within.partition("/")[2]
        if agent in self._state.children:
            return
        found = looked_at(self._starting_call, seen, agent, default=None)
        if found is None:
            remember(self._state.children, agent, ChildPlace(), CHILDREN_MAX)
            return
        parent, call, place = found
        child = ChildPlace(call.id, place.line, place.offset)
        remember(self._state.children, agent, child, CHILDREN_MAX)
        yield from self._close(parent)
        yield Spawned(
            id=f"child/{agent}",
            at=seen.at,
            within=parent,
            child=seen.within,
            name=tools.child_name(call, agent),
            call=call.id,
        )

    def _starting_call(self, seen: LineOf, agent: str) -> _StartingCall | None:
        """The call that started a sub-agent, and the conversation that made it: printed lines name it, and in a
        transcript it has the sub-agent's first prompt."""
        asked = tools.text_of(content_of(seen.record)).strip()
        taken = {child.call for child in self._state.children.values()}
        for within, call, place in self._agent_calls():
            if within == seen.within or call.id in taken:
                continue
            if call.id == agent or (asked and text_field(call.input, "prompt").strip() == asked):
                return within, call, place
        return None

    def _agent_calls(self) -> Iterator[_StartingCall]:
        """The calls without a result that may have started a sub-agent."""
        for within, held in self._held.items():
            for one in held:
                content = content_of(one.record) if message_of(one.record) else None
                for block in content if isinstance(content, list) else []:
                    if block_type(block) == "tool_use" and block.get("name") in tools.AGENTS:
                        place = LinePlace(one.line.number, one.line.offset)
                        yield within, call_in(one.record, block, text_field(block, "id")), place
        for identifier, where in list(self._state.calls.items()):
            call = self._items.call(identifier) if where.is_agent else None
            if call is not None:
                yield where.within, call, LinePlace(where.line, where.offset)

    def _ended(self, seen: LineOf) -> Iterator[str]:
        """The sub-agents whose last line was read: this line has the result of the call that started them."""
        result = seen.record.get("toolUseResult")
        if seen.kind != "user" or tools.is_launch(result):
            return
        content = content_of(seen.record)
        for block in content if isinstance(content, list) else []:
            if block_type(block) != "tool_result":
                continue
            call = text_field(block, "tool_use_id")
            for agent, started in self._state.children.items():
                if call and started.call == call:
                    yield tools.child_id(self._session, agent)


def _message_id(seen: LineOf) -> str:
    message = seen.record.get("message")
    return (name_field(message, "id") if isinstance(message, dict) else "") or seen.id


def _is_prompt(seen: LineOf) -> bool:
    return (
        seen.kind == "user"
        and not seen.is_printed
        and looked_at(prompt_text, seen.record, default=None) is not None
    )


def _is_closing(seen: LineOf) -> bool:
    """Whether a line that is neither a prompt nor the model's cannot precede the end of a message."""
    if seen.kind == "system":
        return text_field(seen.record, "subtype") in CLOSING
    if seen.kind == "result":
        return seen.is_printed
    content = content_of(seen.record) if seen.kind == "user" else None
    text = tools.text_of(content).lstrip()
    if not text or seen.record.get("isMeta"):
        return False
    return text.startswith(INTERRUPTED) or is_report(seen.record, text)
