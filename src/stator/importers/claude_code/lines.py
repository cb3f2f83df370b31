"""Turns the lines of a Claude Code transcript into items, one line at a time.

Claude Code writes a message of the model block by block, each block on its own line. If tools run
in parallel, the results of the first tool are written between the blocks of the last one. Following
`parentUuid` from the end would lose all but one of these calls. Here, a message is all blocks with
the same `message.id`. The reader holds it back until another message begins, together with
everything between its lines. If the file ends within a message, the reader yields the blocks so far;
the next import yields the rest as another answer with the id `<message id>+<number of earlier
blocks>`.

Only the open messages and the ids of the latest lines are held in memory.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stator.importers.claude_code import tools
from stator.importers.claude_code.line_fields import (
    CAVEATS,
    INTERRUPTED,
    NOTICES,
    OUTPUTS,
    block_type,
    command_text,
    compaction_id,
    content_of,
    from_printed,
    is_printed,
    kind_with_detail,
    number_field,
    original_uuid,
    prompt_text,
    text_field,
    timestamp_of,
    turn_id,
)
from stator.importers.reading.jsonl import JsonlLine, parse_line
from stator.importers.reading.line_boundary import whole_line
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
    Prompted,
    Skipped,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.window.reply import usage_of

UUIDS_MAX = 20_000
"""The most uuids that are remembered, to detect repeated lines and to resolve what a compaction
kept."""
CALLS_MAX = 2_000
"""The most calls without a result that are remembered."""
HELD_MAX = 500
"""The most items held back for one message; then the message is yielded incomplete."""
MESSAGES_MAX = 500
"""The most messages whose number of blocks is remembered, for blocks that arrive late."""
NOTED_MAX = 60_000
"""The most characters kept of a text that is neither a prompt, an answer nor a result."""
IGNORED = frozenset(
    "queue-operation file-history-snapshot file-history-delta progress api-request api-request-shape"
    " api-request-blob atis-latch mode last-prompt tools-used cost-state permission-mode"
    " content-replacement tag agent-name agent-color agent-setting pr-link worktree-state"
    " attribution-snapshot speculation-accept task-summary agent_metadata stream_event"
    " tool_progress tool_use_summary auth_status keep_alive rate_limit_event".split()
)
"""Types of lines that contain nothing about the work."""
IGNORED_SYSTEM = frozenset(
    "stop_hook_summary init hook_started hook_progress hook_response status api_error"
    " microcompact_boundary informational bridge_status away_summary api_metrics"
    " files_persisted task_started task_progress task_notification".split()
)
IGNORED_ATTACHMENTS = frozenset(
    "environment model date agent_listing_delta skill_listing remote_session_change prompt_snapshot"
    " session_context deferred_tools_delta mcp_instructions_delta output_style todo_reminder"
    " task_reminder plan_mode auto_mode hook_success command_permissions".split()
)
"""Attachments that are the same in every session."""
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
ENDED = frozenset({"end_turn", "max_tokens", "stop_sequence", "refusal"})
SYNTHETIC = "<synthetic>"


class _Message(msgspec.Struct):
    """A message of the model that may still be incomplete."""

    id: str
    at: int = 0
    last: int = 0
    model: str = ""
    stop: str = ""
    cwd: str = ""
    blocks: list[Any] = []
    times: list[int] = []
    """When each block was written."""
    usage: dict[str, Any] = {}
    held: list[Item] = []
    """Items from the lines between its own."""


class ClaudeCodeReader:
    """Reads the lines of one file.

    `copied_prompt_ids` maps the uuids of lines that a fork copied to their prompt ids in the parent. `state`
    is the state of the cursor at which reading starts.
    """

    def __init__(
        self,
        conversation: Conversation,
        state: Mapping[str, Any],
        copied_prompt_ids: Mapping[str, str],
    ) -> None:
        self._session, _, self._agent = conversation.id.partition("/")
        self._copied_prompt_ids = copied_prompt_ids
        self._open_messages: dict[str, _Message] = {}
        self._items_by_uuid: OrderedDict[str, str] = OrderedDict()
        self._chains: OrderedDict[str, str] = OrderedDict()
        self._calls: OrderedDict[str, tools.ClaudeCodeCall] = OrderedDict()
        self._blocks: OrderedDict[str, int] = OrderedDict()
        self._boundary: Compacted | None = None
        counts, names, splits = (state.get(name) for name in ("compactions", "tasks", "splits"))
        self._compactions: dict[str, int] = dict(counts) if isinstance(counts, dict) else {}
        self._tasks: dict[str, str] = dict(names) if isinstance(names, dict) else {}
        self._splits: dict[str, list[int]] = dict(splits) if isinstance(splits, dict) else {}
        self._cursor: Cursor | None = None
        self._line = 0

    def read(self, line: JsonlLine) -> Iterator[Item]:
        """The items that a line adds."""
        self._line = line.number
        record, why = parse_line(line)
        if record is None:
            if why:
                yield Skipped(line=line.number, why=why)
            return
        printed = is_printed(record)
        if printed:
            record = from_printed(record)
        uuid = text_field(record, "uuid")
        if uuid and uuid in self._items_by_uuid:
            yield Noise(kind="repeated")
            return
        within = self._within(record, uuid)
        if uuid:
            _remember(self._items_by_uuid, uuid, "", UUIDS_MAX)
        kind = text_field(record, "type")
        if self._boundary is not None and kind in ("user", "assistant", "system", "attachment"):
            boundary, self._boundary = self._boundary, None
            if record.get("isCompactSummary") and boundary.within == within:
                yield msgspec.structs.replace(boundary, summary=tools.text_of(content_of(record)))
                return
            yield boundary
        if kind == "user":
            yield from self._user(record, line, within, printed)
        elif kind == "assistant":
            yield from self._assistant(record, line, within)
        elif kind == "system":
            yield from self._system(record, line, within)
        elif kind == "attachment":
            yield from self._attachment(record, line, within)
        elif kind == "result" and printed:
            yield from self._close_message(within)
            failed = record.get("is_error") is True
            why = text_field(record, "subtype") if failed else ""
            yield TurnEnded(
                at=timestamp_of(record),
                within=within,
                status="interrupted" if failed else "ok",
                why=why,
            )
        elif kind in TITLES:
            yield self._title(record, kind)
        elif kind in IGNORED:
            yield Noise(kind=kind_with_detail(record, kind))
        else:
            yield from self._hold_or_yield(within, self._unknown(record, line, within))

    def finish(self) -> Iterator[Item]:
        """Yield the items that are still held back at the end of the file, and a cursor for the
        next import."""
        splits = dict(self._splits)
        for message in self._open_messages.values():
            ends = {*splits.get(message.id, []), len(message.blocks)}
            splits[message.id] = sorted(ends)
        yield from self._close_all()
        # its summary comes on the next line, which is not written yet
        if self._boundary is not None:
            yield Noise(kind="system/compact_boundary at the end")
        cursor = self._cursor or Cursor(offset=0)
        if splits or self._cursor is None:
            yield msgspec.structs.replace(cursor, state={**cursor.state, "splits": splits})

    # -- kinds of lines ---------------------------------------------------------------------------

    def _user(
        self, record: dict[str, Any], line: JsonlLine, within: str, printed: bool
    ) -> Iterator[Item]:
        content = content_of(record)
        if content is None:
            yield from self._hold_or_yield(within, self._unknown(record, line, within))
            return
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if block_type(block) == "tool_result"]
        if results:
            for block in results:
                for item in self._result(record, block, within):
                    yield from self._hold_or_yield(within, item)
            others = [block for block in blocks if block_type(block) != "tool_result"]
            rest = tools.without_images(others)
            if tools.text_of(rest).strip():
                yield from self._hold_or_yield(
                    within, self._note_item(record, line, within, rest, by="user")
                )
            return
        text = prompt_text(record)
        if text is None or printed:  # a printed line has no prompt id, so it cannot begin a turn
            yield from self._other_user_line(record, line, within, content)
            return
        yield from self._prompt(record, line, within, content, text)

    def _prompt(
        self, record: dict[str, Any], line: JsonlLine, within: str, content: Any, text: str
    ) -> Iterator[Item]:
        uuid = text_field(record, "uuid")
        prompt = self._copied_prompt_ids.get(original_uuid(record)) or text_field(
            record, "promptId"
        )
        identifier = turn_id(prompt, text) if prompt else f"prompt/{uuid or _raw_id(line)}"
        if within:
            yield from self._close_message(within)
        else:
            yield from self._close_all()
            # otherwise this is the turn at which reading started, whose splits still apply
            if self._cursor is not None:
                self._splits = {}
            state = {"compactions": dict(self._compactions), "tasks": dict(self._tasks)}
            self._cursor = Cursor(offset=line.offset, line=line.number - 1, state=state)
            yield self._cursor
        self._remember_item(uuid, identifier)
        shown = text if text != tools.text_of(content) else tools.without_images(content)
        yield Prompted(id=identifier, at=timestamp_of(record), within=within, content=shown)

    def _other_user_line(
        self, record: dict[str, Any], line: JsonlLine, within: str, content: Any
    ) -> Iterator[Item]:
        """Items for a line of type `user` that is not a prompt."""
        text = tools.text_of(content)
        start = text.lstrip()
        if start.startswith(CAVEATS) or not (text.strip() or isinstance(content, list)):
            yield Noise(kind="local command")
            return
        if start.startswith(OUTPUTS):
            shown = re.sub(r"</?(?:local-command|bash)-std(?:out|err)>", "", text).strip()
            if not shown:
                yield Noise(kind="local command")
                return
            yield from self._hold_or_yield(within, self._note_item(record, line, within, shown))
            return
        if start.startswith(("<command-name>", "<bash-input>")):
            # a command to Claude Code itself is not a message to the model
            by = "user" if start.startswith("<bash-input>") else "system"
            shown = command_text(text)
            yield from self._hold_or_yield(
                within, self._note_item(record, line, within, shown, by=by)
            )
            return
        if start.startswith(INTERRUPTED):
            yield from self._close_message(within)
            yield self._note_item(record, line, within, text)
            yield TurnEnded(
                at=timestamp_of(record),
                within=within,
                status="interrupted",
                why=cut_short(text.strip(" []\n"), 200),
            )
            return
        by_user = not (record.get("isMeta") or start.startswith(NOTICES))
        yield from self._hold_or_yield(
            within,
            self._note_item(
                record,
                line,
                within,
                tools.without_images(content),
                by="user" if by_user else "system",
            ),
        )

    def _assistant(self, record: dict[str, Any], line: JsonlLine, within: str) -> Iterator[Item]:
        message = record.get("message")
        content = content_of(record)
        if not isinstance(message, dict) or content is None:
            yield from self._hold_or_yield(within, self._unknown(record, line, within))
            return
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message.get("model") == SYNTHETIC or record.get("isApiErrorMessage") is True:
            yield from self._hold_or_yield(
                within, self._note_item(record, line, within, tools.text_of(blocks))
            )
            return
        uuid = text_field(record, "uuid")
        identifier = text_field(message, "id") or uuid or _raw_id(line)
        open_message = self._open_messages.get(within)
        if open_message is not None and open_message.id != identifier:
            yield from self._close_message(within)
            open_message = None
        if open_message is None:
            open_message = _Message(
                identifier, at=timestamp_of(record), cwd=text_field(record, "cwd")
            )
            self._open_messages[within] = open_message
        as_blocks = [
            {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
        ]
        own_blocks = [tools.without_images(block) for block in as_blocks if isinstance(block, dict)]
        open_message.blocks += own_blocks
        open_message.last = timestamp_of(record) or open_message.last
        open_message.times += [open_message.last] * len(own_blocks)
        open_message.model = text_field(message, "model") or open_message.model
        open_message.stop = text_field(message, "stop_reason") or open_message.stop
        usage = message.get("usage")
        open_message.usage = usage if isinstance(usage, dict) else open_message.usage
        self._remember_item(uuid, identifier)
        if len(open_message.held) >= HELD_MAX:
            yield from self._close_message(within)

    def _system(self, record: dict[str, Any], line: JsonlLine, within: str) -> Iterator[Item]:
        subtype = text_field(record, "subtype")
        if subtype == "compact_boundary":
            yield from self._close_message(within)
            self._boundary = self._compacted(record, within)
        elif subtype == "turn_duration":
            yield from self._close_message(within)
            yield TurnEnded(at=timestamp_of(record), within=within)
        elif subtype == "local_command":
            yield from self._other_user_line(record, line, within, text_field(record, "content"))
        elif subtype in IGNORED_SYSTEM:
            yield Noise(kind=f"system/{subtype}")
        else:
            yield from self._hold_or_yield(within, self._unknown(record, line, within))

    def _attachment(self, record: dict[str, Any], line: JsonlLine, within: str) -> Iterator[Item]:
        given = record.get("attachment")
        if not isinstance(given, dict):
            yield from self._hold_or_yield(within, self._unknown(record, line, within))
            return
        kind = text_field(given, "type")
        rendered = record.get("rendered")
        shown = "\n".join(
            tools.text_of(part.get("content"))
            for part in (rendered if isinstance(rendered, list) else [given])
            if isinstance(part, dict)
        )
        shown = shown or next(
            (
                text_field(given, name)
                for name in ("prompt", "snippet", "text")
                if text_field(given, name)
            ),
            "",
        )
        if kind in IGNORED_ATTACHMENTS or not shown.strip():
            yield Noise(kind=f"attachment/{kind[:40]}")
            return
        by_user = kind == "queued_command"
        yield from self._hold_or_yield(
            within, self._note_item(record, line, within, shown, by="user" if by_user else "system")
        )
        if kind == "file" and text_field(given, "filename"):
            touch = Touch(path=text_field(given, "filename"), op="read")
            item = Touched(
                id=f"file/{text_field(record, 'uuid')}",
                at=timestamp_of(record),
                within=within,
                files=(touch,),
            )
            yield from self._hold_or_yield(within, item)

    def _title(self, record: dict[str, Any], kind: str) -> Item:
        name = text_field(record, TITLES[kind])
        # a summary may belong to another conversation; then the line it names is unknown here
        if kind == "summary" and text_field(record, "leafUuid") not in self._items_by_uuid:
            return Noise(kind="summary")
        return About(name=name)

    # -- parts ------------------------------------------------------------------------------------

    def _result(self, record: dict[str, Any], block: dict[str, Any], within: str) -> Iterator[Item]:
        identifier = text_field(block, "tool_use_id") or f"result/{text_field(record, 'uuid')}"
        call = self._calls.pop(identifier, None) or self._call_in_open_message(within, identifier)
        call = call or tools.ClaudeCodeCall(identifier, cwd=text_field(record, "cwd"))
        at, result, output = timestamp_of(record), record.get("toolUseResult"), block.get("content")
        outcome = tools.result_of(
            call,
            at=at,
            within=within,
            output=output,
            result=result,
            is_error=block.get("is_error") is True,
            denial=text_field(record, "toolDenialKind"),
        )
        yield outcome
        self._remember_item(text_field(record, "uuid"), identifier)
        more: list[Item | None] = [
            tools.subagent_of(call, result, self._session, at=at, within=within)
        ]
        if outcome.status == "ok":
            text = tools.text_of(output)
            more.append(tools.plan_of(call, text, result, self._tasks, at=at, within=within))
        yield from (item for item in more if item is not None)

    def _call_in_open_message(self, within: str, identifier: str) -> tools.ClaudeCodeCall | None:
        """A call in the message that is held back."""
        message = self._open_messages.get(within)
        for block in message.blocks if message is not None else []:
            if block_type(block) == "tool_use" and block.get("id") == identifier:
                assert message is not None  # the loop ran, so there is a message
                return _call(block, identifier, message.cwd)
        return None

    def _compacted(self, record: dict[str, Any], within: str) -> Compacted:
        self._compactions[within] = count = self._compactions.get(within, 0) + 1
        about = record.get("compactMetadata") or record.get("compact_metadata")
        about = about if isinstance(about, dict) else {}
        kept = about.get("preservedMessages") or about.get("preserved_messages")
        names = kept.get("uuids") if isinstance(kept, dict) else None
        part = about.get("preservedSegment") or about.get("preserved_segment")
        if not isinstance(names, list):
            part = part if isinstance(part, dict) else {}
            names = [part.get("headUuid") or part.get("head_uuid")]
        first = (self._items_by_uuid.get(name, "") for name in names if isinstance(name, str))
        return Compacted(
            id=compaction_id(count),
            at=timestamp_of(record),
            within=within,
            keeps_from=next((identifier for identifier in first if identifier), ""),
            before=number_field(about, "preTokens", "pre_tokens"),
            after=number_field(about, "postTokens", "post_tokens"),
        )

    def _hold_or_yield(self, within: str, item: Item) -> Iterator[Item]:
        """Yield an item, or hold it back until the open message is complete."""
        message = self._open_messages.get(within)
        if message is None:
            yield item
            return
        message.held.append(item)
        if len(message.held) >= HELD_MAX:
            yield from self._close_message(within)

    def _close_all(self) -> Iterator[Item]:
        for within in list(self._open_messages):
            yield from self._close_message(within)

    def _close_message(self, within: str) -> Iterator[Item]:
        """Yield the open message and everything that was held back for it."""
        message = self._open_messages.pop(within, None)
        if message is not None:
            yield from whole_line(self._closed(message, within), self._line)

    def _closed(self, message: _Message, within: str) -> Iterator[Item]:
        before = self._blocks.get(message.id, 0)
        _remember(self._blocks, message.id, before + len(message.blocks), MESSAGES_MAX)
        ends = [end for end in self._splits.get(message.id, []) if 0 < end < len(message.blocks)]
        for start, end in zip([0, *ends], [*ends, len(message.blocks)], strict=True):
            yield self._answered(message, within, before, start, end)
        has_calls = False
        for place, block in enumerate(message.blocks):
            if block_type(block) == "tool_use":
                has_calls = True
                yield self._called(message, block, within, before, place)
        yield from message.held
        if message.stop in ENDED and not has_calls:
            yield TurnEnded(at=message.last, within=within)

    def _answered(
        self, message: _Message, within: str, before: int, start: int, end: int
    ) -> Answered:
        first = before + start
        reply = {
            "id": message.id,
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": message.blocks[start:end],
            "stop_reason": message.stop or None,
        }
        return Answered(
            id=f"{message.id}+{first}" if first else message.id,
            at=message.at,
            within=within,
            reply=reply,
            usage={} if first else usage_of({"content": [], "usage": message.usage}),
            model=message.model,
        )

    def _called(
        self, message: _Message, block: dict[str, Any], within: str, before: int, place: int
    ) -> Called:
        given = block.get("id")
        identifier = given if isinstance(given, str) and given else f"{message.id}/{before + place}"
        call = _call(block, identifier, message.cwd)
        if not any(getattr(item, "id", "") == identifier for item in message.held):
            _remember(self._calls, identifier, call, CALLS_MAX)
        return Called(
            id=identifier,
            at=message.times[place],
            within=within,
            tool=call.tool,
            input=block.get("input"),
            effect=tools.effect_of(call.tool),
        )

    def _note_item(
        self, record: dict[str, Any], line: JsonlLine, within: str, content: Any, by: str = "system"
    ) -> Noted:
        uuid = text_field(record, "uuid")
        identifier = uuid or _raw_id(line)
        self._remember_item(uuid, identifier)
        text = content if isinstance(content, str) else tools.text_of(content)
        if len(text) > NOTED_MAX:
            content = f"{cut_short(text, NOTED_MAX)}\n[{len(text) - NOTED_MAX} more characters]"
        return Noted(
            id=identifier,
            at=timestamp_of(record),
            within=within,
            content=content,
            by="user" if by == "user" else "system",
        )

    def _unknown(self, record: dict[str, Any], line: JsonlLine, within: str) -> Unknown:
        identifier = text_field(record, "uuid") or _raw_id(line)
        return Unknown(
            id=identifier, at=timestamp_of(record), within=within, raw=tools.without_images(record)
        )

    def _within(self, record: dict[str, Any], uuid: str) -> str:
        """The sub-agent's conversation that a line belongs to; "" for the main one."""
        if record.get("isSidechain") is not True:
            return ""
        agent = text_field(record, "agentId")
        # older versions give no id: lines that are linked to each other belong to one sub-agent
        if not agent:
            agent = self._chains.get(text_field(record, "parentUuid"), "") or uuid
            _remember(self._chains, uuid, agent, UUIDS_MAX)
        return "" if agent == self._agent else tools.child_id(self._session, agent)

    def _remember_item(self, uuid: str, identifier: str) -> None:
        if uuid:
            _remember(self._items_by_uuid, uuid, identifier, UUIDS_MAX)


def _call(block: dict[str, Any], identifier: str, cwd: str) -> tools.ClaudeCodeCall:
    given = block.get("input")
    name = block.get("name")
    return tools.ClaudeCodeCall(
        identifier,
        name if isinstance(name, str) and name else "?",
        given if isinstance(given, dict) else {},
        cwd,
    )


def _raw_id(line: JsonlLine) -> str:
    """An id for a line without a uuid, made from its content."""
    return f"line/{text_id(line.data.decode('utf-8', 'surrogateescape'))}"


def _remember(values: OrderedDict[str, Any], name: str, value: Any, most: int) -> None:
    """Store a value and drop the oldest ones beyond `most`."""
    values[name] = value
    while len(values) > most:
        values.popitem(last=False)
