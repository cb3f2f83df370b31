"""The tools by name. Each takes checked arguments and gives an answer; nothing here knows the SDK."""

from __future__ import annotations

from collections.abc import Callable

from stator.surfaces.mcp import asking, managing, opening, recording
from stator.surfaces.mcp.answers import Answer
from stator.surfaces.mcp.arguments import check
from stator.surfaces.mcp.desk import Desk, Given

TOOLS: dict[str, Callable[[Desk, Given], Answer]] = {
    "open": opening.open_session,
    "record": recording.record,
    "log": asking.log,
    "diff": asking.diff,
    "recall": asking.recall,
    "settle": managing.settle,
    "search": asking.search,
    "sessions": managing.sessions,
}


def call(desk: Desk, tool: str, given: Given) -> Answer:
    """Do what a tool is asked for."""
    return TOOLS[tool](desk, check(tool, given))
