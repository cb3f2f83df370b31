"""Implements the tool `record`: records decisions, facts, files, plan steps and more, all or none."""

from __future__ import annotations

from typing import Any

from stator.errors import IdReused, InvalidInput
from stator.model.records.tables import REPORTED
from stator.runtime.ingest.self_report import Reporter
from stator.surfaces.mcp.intake import reach_prompt
from stator.surfaces.mcp.request_context import (
    SOURCE,
    Arguments,
    RequestContext,
    head_fields,
)
from stator.surfaces.mcp.scope import session_label
from stator.surfaces.mcp.tools.answers import ToolAnswer


def record(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, view = request.find(given)
    reach_prompt(request.scope.store, row)
    reporter = Reporter(
        request.scope.store.port,
        request.context(row),
        row.id,
        source=SOURCE,
        key=given.get("idempotency_key", ""),
        call=request.call_in(row),
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
    reported = REPORTED[kind]
    known = [field.name for field in (*reported.must, *reported.may)] + ["why"]
    takes = f"a {kind} takes {', '.join(known)}"
    for field in reported.must:
        name = field.name
        if name not in fields or not (field.blank or fields[name].strip()):
            raise InvalidInput(f"a {kind} needs {name}", path=f"{path}.{name}", hint=takes)
    for name in fields:
        if name not in known:
            raise InvalidInput(f"a {kind} has no {name}", path=f"{path}.{name}", hint=takes)
    try:
        getattr(reporter, reported.method)(**fields)
    except InvalidInput as error:
        what = error.what.removesuffix(f" - at {error.path}")
        raise type(error)(what, path=path + error.path.removeprefix("$"), hint=error.hint) from None
