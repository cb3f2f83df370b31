"""The mappers of agents' hooks, by the agent's name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol, cast

from stator.errors import InvalidInput
from stator.model.exchange.items import Conversation, Item

MAPPERS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "opencode": "opencode",
    "witness": "witness",
}
"""Agent → the module in this package that reads its hooks."""


class Mapper(Protocol):
    """Turns the input of an agent's hooks into items."""

    def conversation(self, payload: dict[str, Any]) -> Conversation | None:
        """The conversation that a line belongs to; None if it belongs to none."""
        ...

    def items(
        self, payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]
    ) -> Iterator[Item]:
        """The items in a line. `unique` identifies the line; `state` is kept between lines."""
        ...


def load_mapper(agent: str) -> Mapper:
    """Load the mapper for an agent's hooks."""
    if agent not in MAPPERS:
        raise InvalidInput(f"no agent {agent!r:.40}", hint=", ".join(MAPPERS), path="$.agent")
    return cast("Mapper", import_module(f"stator.hooks.{MAPPERS[agent]}"))
