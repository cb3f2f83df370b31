"""Implements the tool `record`: records decisions, facts, files, plan steps and more, all or none."""

from __future__ import annotations

from typing import Any

from stator.errors import IdReused, InvalidInput
from stator.runtime.ingest.self_report import Reporter
from stator.surfaces.mcp.request_context import (
    SOURCE,
    Arguments,
    RequestContext,
    head_fields,
)
from stator.surfaces.mcp.scope import session_label
from stator.surfaces.mcp.tools.answers import ToolAnswer

FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "decision": (("what",), ("topic", "over", "confidence")),
    "fact": (("name", "value"), ()),
    "preference": (("name", "value"), ()),
    "file": (("path", "op"), ()),
    "plan": (("step",), ("status",)),
    "artifact": (("name", "content"), ()),
    "dead_end": (("what",), ()),
}
"""By kind: required fields, and optional ones besides `why`."""

MAY_BE_EMPTY = ("value", "content")


def record(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, view = request.find(given)
    reporter = Reporter(
        request.scope.store.port,
        request.context(row),
        row.id,
        source=SOURCE,
        key=given.get("idempotency_key", ""),
    )
    before = view.head.seq
    for place, item in enumerate(given["items"]):
        _report(reporter, item, f"$.items[{place}]")
    try:
        commits = reporter.send()
    except IdReused as error:
        raise IdReused(
            "other items were recorded under this idempotency_key",
            hint="use another key",
            **error.ids,
        ) from None
    again = sum(commit.seq <= before for commit in commits)
    recorded = [
        {"kind": commit.kind, "seq": commit.seq, "commit": commit.id, "again": commit.seq <= before}
        for commit in commits
    ]
    line = f"recorded {len(commits) - again} in {session_label(row)}"
    if again:
        line += f"; {again} were recorded before"
    data = {"session": row.id, "recorded": recorded, "head": head_fields(view)}
    return ToolAnswer(line, data, appended=again < len(commits))


def _report(reporter: Reporter, item: dict[str, Any], path: str) -> None:
    kind = item["kind"]
    fields = {name: value for name, value in item.items() if name != "kind"}
    must, may = FIELDS[kind]
    takes = f"a {kind} takes {', '.join((*must, *may, 'why'))}"
    for name in must:
        if name not in fields or (name not in MAY_BE_EMPTY and not fields[name].strip()):
            raise InvalidInput(f"a {kind} needs {name}", path=f"{path}.{name}", hint=takes)
    for name in fields:
        if name not in (*must, *may, "why"):
            raise InvalidInput(f"a {kind} has no {name}", path=f"{path}.{name}", hint=takes)
    try:
        _METHODS[kind](reporter, **fields)
    except InvalidInput as error:
        what = error.what.removesuffix(f" - at {error.path}")
        raise type(error)(what, path=path + error.path.removeprefix("$"), hint=error.hint) from None


_METHODS: dict[str, Any] = {
    "decision": Reporter.decide,
    "fact": Reporter.fact,
    "preference": Reporter.prefer,
    "file": Reporter.file,
    "plan": Reporter.plan,
    "artifact": Reporter.artifact,
    "dead_end": Reporter.dead_end,
}
