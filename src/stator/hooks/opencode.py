"""Turns what our plugin for opencode reports into items, with the ids that opencode's database gives them.

The plugin sends opencode's own messages and parts, so the importer's reader makes the items. What is in the
database as well is recorded once. A sub-agent is a conversation of its own, as it is in the database, which also
says at which call of its parent it hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.importers.opencode.messages import READS, OpenCodeMessage
from stator.importers.opencode.messages import items as items_of
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import micros_of_millis, record, records, text
from stator.model.exchange.items import (
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Item,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)
from stator.model.records.types import Effect

SOURCE = "opencode"
COMPACTING = "compacting"
"""A key in `state`: when the message that asks for a compaction was created, in µs."""


def conversation(payload: dict[str, Any]) -> Conversation | None:
    """The conversation that a line belongs to."""
    session = text(payload.get("session_id"))
    if not session:
        return None
    version = text(payload.get("version"))
    return Conversation(
        source=SOURCE,
        id=session,
        agent=SOURCE,
        cwd=text(payload.get("cwd")),
        labels={"version": version} if version else {},
    )


def items(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """The items in a line. `unique` identifies the line; `state` is kept from one line of a conversation
    to the next."""
    kind, call = text(payload.get("hook_event_name")), text(payload.get("tool_use_id"))
    if kind == "SessionStart":
        yield Began(id=f"hook/{unique}", at=at, how=text(payload.get("source")))
    elif kind == "SessionEnd":
        yield Ended(id=f"hook/{unique}", at=at, reason=text(payload.get("reason")))
    elif kind == "UserPromptSubmit":
        message = OpenCodeMessage(
            {**record(payload.get("message")), "role": "user"}, records(payload.get("parts"))
        )
        yield from (item for item in items_of([message]) if isinstance(item, Prompted))
    elif kind == "PreToolUse" and call:
        tool = text(payload.get("tool_name"))
        arguments = strip_attachments(payload.get("tool_input"))
        effect: Effect = "read" if tool in READS else "write"
        yield Called(id=call, at=at, tool=tool, input=arguments, effect=effect)
    elif kind in ("PostToolUse", "PostToolUseFailure") and call:
        yield from _ended_call(record(payload.get("part")))
    elif kind == "PreCompact":
        state[COMPACTING] = micros_of_millis(payload.get("compaction_time"))
    elif kind == "PostCompact":
        started = state.pop(COMPACTING, 0)
        if started:
            yield Compacted(id=f"compaction/{started}", at=started)
    elif kind == "Stop":
        yield TurnEnded(at=at)
    elif kind == "StopFailure":
        yield TurnEnded(at=at, status="aborted", why=text(payload.get("error")))


def _ended_call(part: dict[str, Any]) -> Iterator[Item]:
    """What a part with a call that ended adds; the model's answer that asked for it is left to the database."""
    if part.get("type") != "tool":
        return
    message = OpenCodeMessage({"role": "assistant", "id": part.get("messageID")}, [part])
    for item in items_of([message]):
        if isinstance(item, (Called, Returned, Spawned, Planned)):
            yield item
