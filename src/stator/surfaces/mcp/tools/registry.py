"""Calls a tool by its name with checked arguments. Nothing here depends on the SDK."""

from __future__ import annotations

from collections.abc import Callable

from stator.surfaces.mcp.request_context import Arguments, RequestContext
from stator.surfaces.mcp.tools import (
    open as opening,
)
from stator.surfaces.mcp.tools import (
    questions,
    record,
    steer,
)
from stator.surfaces.mcp.tools.answers import ToolAnswer
from stator.surfaces.mcp.tools.arguments import check_arguments

TOOLS: dict[str, Callable[[RequestContext, Arguments], ToolAnswer]] = {
    "open": opening.open_session,
    "record": record.record,
    "log": questions.log,
    "diff": questions.diff,
    "recall": questions.recall,
    "settle": steer.settle,
    "search": questions.search,
    "sessions": steer.sessions,
}


def call(request: RequestContext, tool: str, given: Arguments) -> ToolAnswer:
    """Check the arguments and run the tool."""
    return TOOLS[tool](request, check_arguments(tool, given))
