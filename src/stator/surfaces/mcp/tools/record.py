"""Implements the tool `stator_record`: records a request, decisions, facts, calls, plan steps and more, all or none."""

from __future__ import annotations

from typing import Any

from stator.errors import HeadMoved, IdReused, InvalidInput, WrongState
from stator.model.exchange.reported_item import ReportedItem, example_hint, read_item, read_items
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.model.records.tables import REPORTED
from stator.runtime.ingest.self_report import Reporter, is_own_orderer
from stator.surfaces.mcp.intake import reach_prompt
from stator.surfaces.mcp.request_context import (
    SOURCE,
    Arguments,
    RequestContext,
    head_fields,
)
from stator.surfaces.mcp.tools.answers import ToolAnswer

TRIES = 10
"""How often a turn is begun again where another writer was faster."""
PARTS = frozenset({"turn", "turn_end", "outcome"})
"""Kinds of commits that belong to a request or to an item, and are not items themselves."""
NO_TURN = "The request began no turn: the turns of this session come from {orderer}. The items are in its current turn."
ORDERERS = {"transcript": "its transcript", "hooks": "its agent's hooks", "proxy": "a proxy"}


def record(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, view = request.find(given)
    items = [
        _read(item, f"$.items[{place}]")
        for place, item in enumerate(read_items(given.get("items", []), REPORTED))
    ]
    if not items and "request" not in given:
        raise InvalidInput(
            "give items, a request, or both",
            path="$.items",
            hint=example_hint("decision", REPORTED["decision"]),
        )
    _check_calls(row, items)
    reach_prompt(request.scope.store, row)
    before = view.head.seq
    commits = _send(request, row, given, items)
    shown = [commit for commit in commits if commit.kind not in PARTS]
    again = sum(commit.seq <= before for commit in shown)
    line = f"recorded {len(shown) - again} in {request.label(row)}"
    if any(commit.kind == "turn" and commit.seq > before for commit in commits):
        line += f"; turn {view.head.turn} began"
    if again:
        line += f"; {again} were recorded before"
    head = head_fields(view)
    data = {
        "session": row.id,
        "turn": head["turn"],
        "recorded": [_recorded(request, row, commit, before) for commit in shown],
        "head": head,
    }
    note = ""
    if "request" in given and not is_own_orderer(row.record):
        note = NO_TURN.format(orderer=ORDERERS.get(row.record.orderer, "the program it records"))
    appended = any(commit.seq > before for commit in commits)
    return ToolAnswer(line, data, appended=appended, note=note)


def _send(
    request: RequestContext, row: SessionRow, given: Arguments, items: list[ReportedItem]
) -> list[Commit]:
    for attempt in range(TRIES):
        reporter = Reporter(
            request.scope.store.port,
            request.context(row),
            row.id,
            source=SOURCE,
            key=given.get("idempotency_key", ""),
            call=request.call_in(row),
        )
        try:
            if "request" in given and is_own_orderer(row.record):
                reporter.request(given["request"])
            for place, item in enumerate(items):
                _report(reporter, item, f"$.items[{place}]")
            return reporter.send()
        except HeadMoved:
            if attempt == TRIES - 1:
                raise
        except IdReused as error:
            raise IdReused(
                "something else was recorded under this idempotency_key",
                hint="use another key",
                **error.ids,
            ) from None
    raise AssertionError("unreachable")


def _recorded(
    request: RequestContext, row: SessionRow, commit: Commit, before: int
) -> dict[str, Any]:
    found = {
        "kind": commit.kind,
        "key": request.key(row, f"@{commit.seq}"),
        "seq": commit.seq,
        "commit": commit.id,
        "again": commit.seq <= before,
    }
    return {**found, "call": commit.call} if commit.call else found


def _check_calls(row: SessionRow, items: list[ReportedItem]) -> None:
    """Refuse calls where they are recorded as they happen: they would be there twice."""
    places = [place for place, item in enumerate(items) if item.kind == "call"]
    if not places or is_own_orderer(row.record):
        return
    by = ORDERERS.get(row.record.orderer, "the program that drives it")
    raise WrongState(
        f"the calls of session {row.record.name!r:.80} are recorded by {by}",
        hint=f"leave out $.items[{places[0]}] and send the rest again",
        session=row.id,
        status=row.shown,
    )


def _read(item: Any, path: str) -> ReportedItem:
    try:
        return read_item(item, REPORTED)
    except InvalidInput as error:
        raise _at(error, path) from None


def _report(reporter: Reporter, item: ReportedItem, path: str) -> None:
    try:
        getattr(reporter, item.method)(**item.fields)
    except InvalidInput as error:
        hint = error.hint or example_hint(item.kind, REPORTED[item.kind])
        raise _at(error, path, hint) from None


def _at(error: InvalidInput, path: str, hint: str = "") -> InvalidInput:
    """The error, with where in the arguments it is."""
    what = error.what.removesuffix(f" - at {error.path}")
    return type(error)(what, path=path + error.path.removeprefix("$"), hint=hint or error.hint)
