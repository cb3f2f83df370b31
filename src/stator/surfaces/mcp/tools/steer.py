"""The tools that steer: `sessions` and `settle`. What an agent may not do to a session is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from stator.errors import InvalidInput, NotFound
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.runtime.branches import fork
from stator.runtime.driving import lifecycle, settlement
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.settlement import Verdict
from stator.runtime.ingest import self_report
from stator.runtime.ingest.self_report import SAID
from stator.runtime.views.refs import find_call
from stator.surfaces.mcp.request_context import (
    Desk,
    Given,
    about,
    doubts_of,
    filled,
)
from stator.surfaces.mcp.scope import named
from stator.surfaces.mcp.tools.answers import Answer, when
from stator.surfaces.mcp.tools.arguments import cursor, more

LIMIT = 20
VERDICTS = {"done": "done", "not_done": "not done"}

TAKEN_BY = {"at": ("fork",), "name": ("fork", "child"), "purpose": ("child",)}
"""Arguments that mean something to some actions only."""


# -- sessions -------------------------------------------------------------------------------------


def sessions(desk: Desk, given: Given) -> Answer:
    action = given.get("action", "list")
    if action != "list" and "session" not in given:
        raise InvalidInput(f"which session to {action}?", path="$.session")
    for name, actions in TAKEN_BY.items():
        if name in given and action not in actions:
            raise InvalidInput(
                f"{action} takes no {name}",
                path=f"$.{name}",
                hint=f"{name} goes with action {' or '.join(actions)}; the tool open begins a session",
            )
    return _ACTIONS[action](desk, given)


def _list(desk: Desk, given: Given) -> Answer:
    page = desk.scope.listed(cursor(given, 2), given.get("limit", LIMIT))
    rows = [session_row(row) for row in page.rows]
    line = f"{len(rows)} sessions{'; there are more' if page.cursor else ''}"
    return Answer(line, {"sessions": rows, "more": more(page.cursor)})


def session_row(row: SessionRow) -> dict[str, Any]:
    parent = row.record.parent
    return filled(
        **about(row),
        agent=row.record.agent,
        mode=row.record.mode,
        turns=row.turns,
        head=row.head,
        updated=when(row.updated),
        parent=parent.session if parent is not None else "",
        kind=parent.kind if parent is not None else "",
    )


def _fork(desk: Desk, given: Given) -> Answer:
    source, view = desk.find(given)
    point = view.at(desk.scope.position(given.get("at", "head")))
    source = desk.scope.store.port.session(point.session)  # a position may name another session
    context = desk.context(source)
    row = fork.fork(desk.scope.store.port, context, point, name=given.get("name", ""), **SAID)
    line = f"forked {named(source)} at @{point.seq}: {named(row)}; handle {row.id}"
    return Answer(line, session_row(row), moved=True)


def _child(desk: Desk, given: Given) -> Answer:
    above, _ = desk.find(given)
    purpose, name = given.get("purpose", ""), given.get("name", "")
    if not purpose and not name:
        raise InvalidInput("what is the child for?", path="$.purpose")
    context = desk.context(above)
    row = self_report.begin_child(
        desk.scope.store.port, context, above, agent=desk.client, name=name, purpose=purpose
    )
    line = f"{named(row)} is a child of {named(above)}; handle {row.id}"
    return Answer(line, session_row(row), moved=True)


def _pause(desk: Desk, given: Given) -> Answer:
    row, _ = desk.find(given)
    context = desk.context(row)
    moved = lifecycle.pause(desk.scope.store.port, context, row.id, by=desk.principal, **SAID)
    return _moved(desk, row, moved)


def _resume(desk: Desk, given: Given) -> Answer:
    row, _ = desk.find(given)
    context = desk.context(row)
    moved = lifecycle.resume(desk.scope.store.port, context, row.id, by=desk.principal, **SAID)
    return _moved(desk, row, moved)


def _close(desk: Desk, given: Given) -> Answer:
    row, _ = desk.find(given)
    return _moved(desk, row, self_report.close(desk.scope.store.port, desk.context(row), row.id))


def _moved(desk: Desk, row: SessionRow, moved: Moved) -> Answer:
    asked = "" if moved.asked is None else "; its driver was asked to stop at its next call"
    data = session_row(desk.scope.store.port.session(row.id))
    return Answer(f"{named(row)} is {moved.status}{asked}", data, moved=True)


_ACTIONS: dict[str, Callable[[Desk, Given], Answer]] = {
    "list": _list,
    "fork": _fork,
    "pause": _pause,
    "resume": _resume,
    "close": _close,
    "child": _child,
}


# -- settle ---------------------------------------------------------------------------------------


def settle(desk: Desk, given: Given) -> Answer:
    row, _ = desk.find(given)
    call, verdict = given.get("call"), given.get("verdict")
    if call is None:
        if verdict is not None:
            raise InvalidInput(
                "which call?", path="$.call", hint="settle without a verdict lists them"
            )
        doubts = doubts_of(desk, row)
        return Answer(
            f"{len(doubts)} in doubt in {named(row)}", {"session": row.id, "in_doubt": doubts}
        )
    if verdict is None:
        raise InvalidInput("what became of it?", path="$.verdict", hint="done, not_done or unknown")
    data: dict[str, Any] = {"session": row.id, "call": call, "verdict": verdict, "settled": False}
    intent = _call_of(desk, row, call)
    line = f"{intent.call} is as it was: nothing was settled"
    if verdict != "unknown":
        found = settlement.settle(
            desk.scope.store.port,
            desk.context(row),
            intent.call,
            cast("Verdict", VERDICTS[verdict]),
            by=desk.principal,
            value=given.get("value", UNSET),
            why=given.get("why", ""),
            session=row.id,
            **SAID,
        )
        data |= {"settled": True, "seq": found.seq}
        line = f"settled: {found.tool} {found.verdict}"
    data |= {"call": intent.call, "in_doubt": doubts_of(desk, row)}
    return Answer(line, data, moved=data["settled"])


def _call_of(desk: Desk, row: SessionRow, call: str) -> Commit:
    try:
        return find_call(desk.scope.store.port, call, session=row.id)
    except NotFound as error:
        hint = "settle without a call lists those in doubt"
        raise NotFound(error.what, hint=hint, **error.ids) from None
