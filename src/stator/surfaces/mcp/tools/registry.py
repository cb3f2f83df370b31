"""The tools by name. Each takes checked arguments and gives an answer; nothing here knows the SDK."""

from __future__ import annotations

from collections.abc import Callable

from stator.surfaces.mcp.request_context import Desk, Given
from stator.surfaces.mcp.tools import (
    open as opening,
)
from stator.surfaces.mcp.tools import (
    questions,
    record,
    steer,
)
from stator.surfaces.mcp.tools.answers import Answer
from stator.surfaces.mcp.tools.arguments import check

TOOLS: dict[str, Callable[[Desk, Given], Answer]] = {
    "open": opening.open_session,
    "record": record.record,
    "log": questions.log,
    "diff": questions.diff,
    "recall": questions.recall,
    "settle": steer.settle,
    "search": questions.search,
    "sessions": steer.sessions,
}


def call(desk: Desk, tool: str, given: Given) -> Answer:
    """Do what a tool is asked for."""
    return TOOLS[tool](desk, check(tool, given))
