"""Turns lines of a Claude Code transcript, and whole messages, into items.

`lines` decides when a line's turn has come. Here, nothing is held back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stator.importers.claude_code import forks, tools
from stator.importers.claude_code.line_fields import (
    CAVEATS,
    INTERRUPTED,
    OUTPUTS,
    author_of,
    block_type,
    command_text,
    compaction_id,
    content_of,
    name_field,
    number_field,
    original_uuid,
    prompt_text,
    reported_task,
    split_context,
    text_field,
    timestamp_of,
    turn_id,
)
from stator.importers.claude_code.reader_state import (
    AGENTS_MAX,
    CALLS_MAX,
    CHILDREN_MAX,
    INSTRUCTIONS_MAX,
    MESSAGES_MAX,
    CallPlace,
    ChildPlace,
    LinePlace,
    PendingCompaction,
    ReaderState,
    SeenLines,
    lines_at,
    remember,
)
from stator.importers.reading.jsonl import JsonlLine, parse_line, read_lines
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
    Prompted,
    Spawned,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    digest_of,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.window.reply import usage_of

NOTED_MAX = 60_000
"""The most characters kept of a text that is neither a prompt, an answer nor a result."""
SETTING_MAX = 200
"""The most characters of a setting's value."""
ENDED = frozenset({"end_turn", "max_tokens", "stop_sequence", "refusal"})
SYNTHETIC = "<synthetic>"
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
SETTING_LINES = {"permission-mode": "permissionMode", "mode": "mode"}
"""Lines that say what the agent runs with, and the field that does."""


class LineOf(msgspec.Struct, frozen=True):
    """A line, as far as it was read: its record, and the sub-agent's conversation it belongs to ("": the main one)."""

    record: dict[str, Any]
    line: JsonlLine
    kind: str
    within: str
    is_printed: bool = False

    @property
    def uuid(self) -> str:
        return text_field(self.record, "uuid")

    @property
    def at(self) -> int:
        return timestamp_of(self.record)

    @property
    def id(self) -> str:
        """The line's uuid; without one, an id made from its content."""
        return (
            name_field(self.record, "uuid")
            or f"line/{text_id(self.line.data.decode('utf-8', 'surrogateescape'))}"
        )


def message_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message in a line of the model; None for what the program wrote in its name, and for odd shapes."""
    message = record.get("message")
    if record.get("type") != "assistant" or not isinstance(message, dict):
        return None
    is_model = message.get("model") != SYNTHETIC and record.get("isApiErrorMessage") is not True
    return message if is_model and content_of(record) is not None else None


class LineItems:
    """Makes the items of one file's lines; `state` is brought up to date."""

    def __init__(
        self, conversation: Conversation, path: str, state: ReaderState, seen: SeenLines
    ) -> None:
        self._seen = seen
        self._conversation = conversation
        self._session, _, self.agent = conversation.id.partition("/")
        self._path = path
        self._state = state
        self._copies: dict[str, str] | None = None
        self._calls: dict[str, tools.ClaudeCodeCall] = {}

    # -- single lines -----------------------------------------------------------------------------

    def of(self, seen: LineOf) -> Iterator[Item]:
        """The items of a line that is not part of a message."""
        if seen.kind == "user":
            yield from self._user(seen)
        elif seen.kind == "system":
            yield from self._system(seen)
        elif seen.kind == "attachment":
            yield from self._attachment(seen)
        elif seen.kind == "result" and seen.is_printed:
            failed = seen.record.get("is_error") is True
            yield TurnEnded(
                at=seen.at,
                within=seen.within,
                status="interrupted" if failed else "ok",
                why=text_field(seen.record, "subtype") if failed else "",
            )
        elif seen.kind in TITLES:
            yield self._title(seen)
        elif seen.kind in SETTING_LINES:
            found = text_field(seen.record, SETTING_LINES[seen.kind])
            name = "permission_mode" if seen.kind == "permission-mode" else "mode"
            configured = list(self._configured(seen, {name: found}))
            yield from configured or [Noise(kind=seen.kind)]
        elif seen.kind == "assistant" and content_of(seen.record) is not None:
            yield self._note(seen, tools.text_of(content_of(seen.record)), "system")
        else:
            yield self._unknown(seen)

    def _title(self, seen: LineOf) -> Item:
        name = text_field(seen.record, TITLES[seen.kind])
        # a summary may belong to another conversation; then the line it names is unknown here
        is_other = seen.kind == "summary" and text_field(seen.record, "leafUuid") not in self._seen
        if is_other or (self._state.is_titled and seen.kind != "custom-title"):
            return Noise(kind=seen.kind)
        self._state.is_titled = self._state.is_titled or seen.kind == "custom-title"
        return About(name=name)

    def _user(self, seen: LineOf) -> Iterator[Item]:
        record, content = seen.record, content_of(seen.record)
        if content is None:
            yield self._unknown(seen)
            return
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if block_type(block) == "tool_result"]
        if results:
            for block in results:
                yield from self._result(seen, block)
            others = [block for block in blocks if block_type(block) != "tool_result"]
            rest = tools.without_images(others)
            if tools.text_of(rest).strip():
                yield from self._other_user_line(seen, rest)
            return
        text = prompt_text(record)
        if text is None or seen.is_printed:  # a printed line has no prompt id, so it begins no turn
            yield from self._other_user_line(seen, content)
            return
        typed, context = split_context(tools.text_of(content))
        shown = tools.without_images(content)
        if text != tools.text_of(content):  # a command, or with something in front of it
            others = [tools.without_images(one) for one in blocks if block_type(one) != "text"]
            shown = [{"type": "text", "text": text}, *others] if context and others else text
        state = self._state
        identifier = self._turn_id(seen, text, may_be_copied=not state.is_past_copies)
        # the copies come first, so the first prompt of its own is the last one to be looked up
        state.is_past_copies = state.is_past_copies or not self._copied_prompt_id(seen)
        yield Prompted(
            id=identifier,
            at=seen.at,
            within=seen.within,
            content=shown,
            by=author_of(record, typed, in_agent=self._is_agents(seen)),
        )
        if context:
            yield Noted(id=f"{seen.id}/context", at=seen.at, within=seen.within, content=context)
        mode = text_field(record, "permissionMode")
        version = text_field(record, "version")
        yield from self._configured(seen, {"permission_mode": mode, "version": version})

    def _is_agents(self, seen: LineOf) -> bool:
        return bool(seen.within or self.agent)

    def _other_user_line(self, seen: LineOf, content: Any) -> Iterator[Item]:
        """Items for a line of type `user` that is neither a prompt nor a result."""
        record, text = seen.record, tools.text_of(content)
        start = text.lstrip()
        if start.startswith(CAVEATS) or not (text.strip() or isinstance(content, list)):
            yield Noise(kind="local command")
        elif start.startswith(OUTPUTS):
            shown = re.sub(r"</?(?:local-command|bash)-std(?:out|err)>", "", text).strip()
            yield self._note(seen, shown, "system") if shown else Noise(kind="local command")
        elif start.startswith(("<command-name>", "<bash-input>")):
            # a command to Claude Code itself is not a message to the model
            by: Author = "user" if start.startswith("<bash-input>") else "system"
            yield self._note(seen, command_text(text), by)
        elif start.startswith(INTERRUPTED):
            yield self._note(seen, text, "system")
            why = cut_short(text.strip(" []\n"), 200)
            yield TurnEnded(at=seen.at, within=seen.within, status="interrupted", why=why)
        else:
            author = author_of(record, text, in_agent=self._is_agents(seen))
            by = "system" if record.get("isCompactSummary") else author
            yield self._note(seen, tools.without_images(content), by)
            yield from self._ended_task(seen, text)

    def _ended_task(self, seen: LineOf, text: str) -> Iterator[Item]:
        """The end of a sub-agent that worked in the background, as a notification says it."""
        task = reported_task(text)
        agent = task.get("task-id", "")
        started = self._state.children.get(agent)
        if started is not None:
            call = self._call_at(LinePlace(started.line, started.offset), started.call)
            yield Spawned(
                id=f"child/{agent}/end",
                at=seen.at,
                within=seen.within,
                child=tools.child_id(self._session, agent),
                name=tools.child_name(call, agent),
                call=started.call or task.get("tool-use-id", ""),
                status=task.get("status", "ended"),
            )

    def _result(self, seen: LineOf, block: dict[str, Any]) -> Iterator[Item]:
        record, within, at = seen.record, seen.within, seen.at
        identifier = text_field(block, "tool_use_id") or f"result/{seen.uuid}"
        call = self.call(identifier)
        where = self._state.calls.pop(identifier, None)
        self._calls.pop(identifier, None)
        call = call or tools.ClaudeCodeCall(identifier, cwd=text_field(record, "cwd"))
        result, output = record.get("toolUseResult"), block.get("content")
        outcome = tools.result_of(
            call,
            at=at,
            within=within,
            output=output,
            result=result,
            is_error=block.get("is_error") is True,
            denial=text_field(record, "toolDenialKind"),
        )
        children = self._state.children
        known = next((name for name, one in children.items() if one.call == identifier), "")
        start, end = tools.subagent_of(
            call, result, self._session, at=at, within=within, agent=known
        )
        if start is not None:
            agent = start.child.rpartition("/")[2]
            if agent not in children:
                place = (0, 0) if where is None else (where.line, where.offset)
                remember(children, agent, ChildPlace(call.id, *place), CHILDREN_MAX)
                yield start
        yield outcome
        if end is not None:
            yield end
        if outcome.status == "ok":
            text = tools.text_of(output)
            plan = tools.plan_of(call, text, result, self._state.tasks, at=at, within=within)
            yield from [] if plan is None else [plan]

    def _system(self, seen: LineOf) -> Iterator[Item]:
        subtype = text_field(seen.record, "subtype")
        if subtype == "compact_boundary":
            self._state.boundary = self._compaction(seen)
        elif subtype == "turn_duration":
            yield TurnEnded(at=seen.at, within=seen.within)
        elif subtype == "local_command":
            yield from self._other_user_line(seen, text_field(seen.record, "content"))
        elif subtype in IGNORED_SYSTEM:
            yield Noise(kind=f"system/{subtype}")
        else:
            yield self._unknown(seen)

    def _attachment(self, seen: LineOf) -> Iterator[Item]:
        record, given = seen.record, seen.record.get("attachment")
        if not isinstance(given, dict):
            yield self._unknown(seen)
            return
        kind = text_field(given, "type")
        rendered = record.get("rendered")
        shown = "\n".join(
            tools.text_of(part.get("content"))
            for part in (rendered if isinstance(rendered, list) else [given])
            if isinstance(part, dict)
        )
        names = ("prompt", "snippet", "text")
        shown = shown or next((text for name in names if (text := text_field(given, name))), "")
        yield from self._instructions(seen, given)
        if kind in IGNORED_ATTACHMENTS or not shown.strip():
            yield Noise(kind=f"attachment/{kind[:40]}")
            return
        by: Author = "system"
        if kind == "queued_command":  # typed, or reported, while the agent worked
            typed = text_field(given, "prompt") or shown
            is_typed = text_field(given, "commandMode") != "task-notification"
            by = author_of(given, typed, in_agent=self._is_agents(seen)) if is_typed else "agent"
        yield self._note(seen, shown, by)
        if kind == "file" and text_field(given, "filename"):
            touch = Touch(path=text_field(given, "filename"), op="read")
            yield Touched(id=f"file/{seen.uuid}", at=seen.at, within=seen.within, files=(touch,))

    # -- messages ---------------------------------------------------------------------------------

    def message(self, identifier: str, lines: list[LineOf], within: str) -> Iterator[Item]:
        """The items of a message, or of the part of it that was not yielded before: its answer, its calls, and the
        end of the turn if the model stopped."""
        before = self._state.blocks.pop(identifier, 0)
        blocks: list[tuple[LineOf, dict[str, Any]]] = [
            (one, block) for one in lines for block in _blocks(one.record)
        ]
        remember(self._state.blocks, identifier, before + len(blocks), MESSAGES_MAX)
        said: dict[str, Any] = {"model": "", "stop": "", "usage": {}, "effort": ""}
        for one in lines:
            message = one.record["message"]
            usage = message.get("usage")
            said["model"] = text_field(message, "model") or said["model"]
            said["stop"] = text_field(message, "stop_reason") or said["stop"]
            said["effort"] = text_field(one.record, "effort") or said["effort"]
            said["usage"] = usage if isinstance(usage, dict) else said["usage"]
        first, last = lines[0], lines[-1]
        version = text_field(first.record, "version")
        yield from self._configured(
            first,
            {"model": said["model"], "reasoning_effort": said["effort"], "version": version},
        )
        reply = {
            "id": identifier,
            "type": "message",
            "role": "assistant",
            "model": said["model"],
            "content": [block for _, block in blocks],
            "stop_reason": said["stop"] or None,
        }
        yield Answered(
            id=f"{identifier}+{before}" if before else identifier,
            at=first.at,
            within=within,
            reply=reply,
            usage={} if before else usage_of({"content": [], "usage": said["usage"]}),
            model=said["model"],
        )
        called = [
            self._called(identifier, one, block, before + place)
            for place, (one, block) in enumerate(blocks)
            if block_type(block) == "tool_use"
        ]
        yield from called
        if said["stop"] in ENDED and not called:
            yield TurnEnded(at=last.at, within=within)

    def _called(self, message: str, seen: LineOf, block: dict[str, Any], place: int) -> Called:
        given = block.get("id")
        identifier = given if isinstance(given, str) and given else f"{message}/{place}"
        call = call_in(seen.record, block, identifier)
        is_agent = call.tool in tools.AGENTS
        where = CallPlace(seen.line.number, seen.line.offset, is_agent, seen.within)
        remember(self._state.calls, identifier, where, CALLS_MAX)
        remember(self._calls, identifier, call, CALLS_MAX)
        return Called(
            id=identifier,
            at=seen.at,
            within=seen.within,
            tool=call.tool,
            input=block.get("input"),
            effect=tools.effect_of(call.tool),
        )

    def call(self, identifier: str) -> tools.ClaudeCodeCall | None:
        """A call without a result; it is read again from the file, if this reading began after it."""
        known = self._calls.get(identifier)
        where = self._state.calls.get(identifier)
        if known is not None or where is None:
            return known
        return self._call_at(LinePlace(where.line, where.offset), identifier)

    def _call_at(self, place: LinePlace, identifier: str) -> tools.ClaudeCodeCall | None:
        for line in lines_at(self._path, [place] if place.line else []):
            record, _ = parse_line(line)
            for block in _blocks(record) if record is not None else []:
                if block_type(block) == "tool_use" and block.get("id") == identifier:
                    assert record is not None  # the loop ran
                    return call_in(record, block, identifier)
        return None

    # -- parts ------------------------------------------------------------------------------------

    def _turn_id(self, seen: LineOf, text: str, *, may_be_copied: bool) -> str:
        prompt = (self._copied_prompt_id(seen) if may_be_copied else "") or text_field(
            seen.record, "promptId"
        )
        return turn_id(prompt, text) if prompt else f"prompt/{seen.id}"

    def _copied_prompt_id(self, seen: LineOf) -> str:
        """The prompt id that a copied line has in the parent of a fork."""
        parent = self._conversation.fork_of
        if self._copies is None:
            self._copies = forks.copied_prompt_ids(Path(self._path), parent) if parent else {}
        return self._copies.get(original_uuid(seen.record), "")

    def _compaction(self, seen: LineOf) -> PendingCompaction:
        counts = self._state.compactions
        count = counts.pop(seen.within, 0) + 1
        remember(counts, seen.within, count, AGENTS_MAX)
        record = seen.record
        about = record.get("compactMetadata") or record.get("compact_metadata")
        about = about if isinstance(about, dict) else {}
        kept = about.get("preservedMessages") or about.get("preserved_messages")
        names = kept.get("uuids") if isinstance(kept, dict) else None
        if not isinstance(names, list):
            part = about.get("preservedSegment") or about.get("preserved_segment")
            part = part if isinstance(part, dict) else {}
            names = [part.get("headUuid") or part.get("head_uuid")]
        return PendingCompaction(
            compaction_id(count),
            seen.at,
            seen.within,
            self._first_kept({name for name in names if isinstance(name, str) and name}, seen),
            number_field(about, "preTokens", "pre_tokens"),
            number_field(about, "postTokens", "post_tokens"),
        )

    def _first_kept(self, names: set[str], boundary: LineOf) -> str:
        """The id of the first item that a compaction kept. Compactions are rare, so the file is searched for it, and
        nothing must be remembered."""
        marks = [name.encode("utf-8", "surrogatepass") for name in names]
        is_found = False
        for line in read_lines(self._path) if names else ():
            if line.offset >= boundary.line.offset:
                break
            if not is_found and not any(mark in line.data for mark in marks):
                continue
            record, _ = parse_line(line)
            if record is None:
                continue
            is_found = is_found or record.get("uuid") in names
            if is_found and (identifier := self._item_id(record, line)):
                return identifier
        return ""

    def _item_id(self, record: dict[str, Any], line: JsonlLine) -> str:
        """The id of what a line adds to the model's view; "" for lines that may add nothing."""
        seen = LineOf(record, line, text_field(record, "type"), "")
        message = message_of(record)
        if message is not None:
            return name_field(message, "id") or seen.id
        content = content_of(record)
        for block in content if isinstance(content, list) else []:
            if block_type(block) == "tool_result":
                return text_field(block, "tool_use_id")
        text = prompt_text(record)
        return "" if text is None else self._turn_id(seen, text, may_be_copied=True)

    def compacted(self, pending: PendingCompaction, summary: str) -> Compacted:
        """A compaction, once its summary is known."""
        return Compacted(
            id=pending.id,
            at=pending.at,
            within=pending.within,
            summary=summary,
            keeps_from=pending.keeps_from,
            before=pending.before,
            after=pending.after,
        )

    def _configured(self, seen: LineOf, settings: Mapping[str, Any]) -> Iterator[Item]:
        """What the agent runs with, where that is not the same as before."""
        state, within = self._state, seen.within
        known = state.settings.pop(within, {})
        given = {name: cut_short(text, SETTING_MAX) for name, text in settings.items() if text}
        changed = {name: text for name, text in given.items() if known.get(name) != text}
        remember(state.settings, within, known | changed, AGENTS_MAX)
        if changed:
            yield self._configuration(seen, changed)

    def _configuration(self, seen: LineOf, settings: dict[str, Any]) -> Configured:
        counts = self._state.configured
        number = counts.pop(seen.within, 0) + 1
        remember(counts, seen.within, number, AGENTS_MAX)
        return Configured(
            id=f"configured/{number}", at=seen.at, within=seen.within, settings=settings
        )

    def _instructions(self, seen: LineOf, given: dict[str, Any]) -> Iterator[Item]:
        """The files with instructions that an attachment shows to the model, with those shown before."""
        kind = text_field(given, "type")
        files = given.get("files") if kind == "instructions" else None
        if kind == "nested_memory":
            files = [given.get("content"), {**given, "content": None}]
        known = self._state.instructions
        before = dict(known)
        for file in files if isinstance(files, list) and not seen.within else []:
            path = text_field(file, "path") if isinstance(file, dict) else ""
            content = file.get("content") if path else None
            if path and isinstance(content, str):
                known.pop(path, None)
                remember(known, cut_short(path, SETTING_MAX), digest_of(content), INSTRUCTIONS_MAX)
        if known != before:
            yield self._configuration(seen, {"instructions": dict(sorted(known.items()))})

    def _note(self, seen: LineOf, content: Any, by: Author) -> Noted:
        text = content if isinstance(content, str) else tools.text_of(content)
        if len(text) > NOTED_MAX:
            content = f"{cut_short(text, NOTED_MAX)}\n[{len(text) - NOTED_MAX} more characters]"
        return Noted(id=seen.id, at=seen.at, within=seen.within, content=content, by=by)

    def _unknown(self, seen: LineOf) -> Unknown:
        raw = tools.without_images(seen.record)
        return Unknown(id=seen.id, at=seen.at, within=seen.within, raw=raw)


def call_in(
    record: Mapping[str, Any], block: dict[str, Any], identifier: str
) -> tools.ClaudeCodeCall:
    """The call in a block of a message."""
    given, name = block.get("input"), block.get("name")
    return tools.ClaudeCodeCall(
        identifier,
        name if isinstance(name, str) and name else "?",
        given if isinstance(given, dict) else {},
        text_field(record, "cwd"),
        timestamp_of(record),
    )


def _blocks(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The blocks of the model's message in a line."""
    content = content_of(record)
    blocks = content if isinstance(content, list) else [content]
    as_blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return [tools.without_images(block) for block in as_blocks if isinstance(block, dict)]
