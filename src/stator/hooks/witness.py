"""Turns the lines of a witness that speaks in items into those items: a proxy in the session of an agent. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stator.model.exchange.items import Called, Conversation, Item, Returned

AGENT = "witness"
"""The name in the lines of such a witness."""


def payload(source: str, conversation: str, items: list[Item]) -> dict[str, Any]:
    """What a line reports: items of a conversation, which another agent's source names."""
    return {
        "hook_event_name": "Witness",
        "source": source,
        "session_id": conversation,
        "items": msgspec.to_builtins(items, str_keys=True),
    }


def conversation(payload: dict[str, Any]) -> Conversation | None:
    source, session = payload.get("source"), payload.get("session_id")
    if not isinstance(source, str) or not isinstance(session, str) or not session:
        return None
    return Conversation(source=source, id=session)


def items(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    yield from msgspec.convert(payload.get("items"), list[Called | Returned])
