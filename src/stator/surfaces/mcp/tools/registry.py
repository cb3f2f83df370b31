"""Calls a tool by its name with checked arguments. Nothing here depends on the SDK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stator.surfaces.mcp.request_context import Arguments, RequestContext
from stator.surfaces.mcp.tools import (
    lookups,
    questions,
    record,
    steer,
)
from stator.surfaces.mcp.tools.answers import ToolAnswer
from stator.surfaces.mcp.tools.arguments import check_arguments
from stator.surfaces.mcp.tools.definitions import RENAMED

TOOLS: dict[str, Callable[[RequestContext, Arguments], ToolAnswer]] = {
    "stator_open": steer.manage,
    "stator_record": record.record,
    "stator_log": questions.log,
    "stator_diff": questions.diff,
    "stator_recall": lookups.recall,
    "stator_settle": steer.settle,
    "stator_search": lookups.search,
    "stator_why": lookups.why,
}


def call(request: RequestContext, tool: str, given: Arguments) -> ToolAnswer:
    """Check the arguments and run the tool, also one that is called by its name of release 0.9."""
    name = RENAMED.get(tool, tool)
    if tool == "sessions":
        given = {"action": "list", **given}
    answer = TOOLS[name](request, check_arguments(name, given))
    if name == tool:
        return answer
    renamed = f"The tool {tool} is now {name}; the old name works until 0.11."
    return replace(answer, note=f"{answer.note} {renamed}".strip())
