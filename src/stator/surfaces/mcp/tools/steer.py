"""Implements the tools `stator_open` and `stator_settle`. Actions that only a person may take are not offered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import UNSET

from stator.errors import Conflict, InvalidInput, NotFound, StatorError
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.runtime.branches import fork
from stator.runtime.driving import lifecycle, settlement
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.settlement import Verdict
from stator.runtime.ingest import self_report
from stator.runtime.ingest.self_report import SAID
from stator.runtime.views.refs import Point, find_call
from stator.surfaces.mcp.keys import call_in
from stator.surfaces.mcp.request_context import (
    Arguments,
    RequestContext,
    in_doubt_rows,
)
from stator.surfaces.mcp.tools.answers import ToolAnswer
from stator.surfaces.mcp.tools.open import list_sessions, open_session, session_row

VERDICTS = {"done": "done", "not_done": "not done"}

ACCEPTED_BY = {
    "at": ("fork",),
    "name": ("fork", "child"),
    "purpose": ("open", "child"),
    "brief": ("open",),
    "max_tokens": ("open",),
    "limit": ("list",),
    "cursor": ("list",),
}
"""By argument: the only actions that accept it."""


# -- sessions -------------------------------------------------------------------------------------


def manage(request: RequestContext, given: Arguments) -> ToolAnswer:
    """Open a session, list those there are, or fork, pause, resume or close one."""
    is_named = bool(given.get("session") or given.get("purpose"))
    action = given.get("action", "open")
    if action == "open" and not is_named:
        action = "list"
    if action not in ("open", "list") and "session" not in given:
        raise InvalidInput(
            f"{action} needs a session",
            path="$.session",
            hint="its handle; stator_open without arguments lists sessions",
        )
    for name, actions in ACCEPTED_BY.items():
        if name in given and action not in actions:
            raise InvalidInput(
                f"{action} takes no {name}",
                path=f"$.{name}",
                hint=f"{name} goes with action {' or '.join(actions)}",
            )
    if action == "open":
        return open_session(request, given)
    if action == "list":
        return list_sessions(request, given, ended=given.get("action") == "list")
    return _ACTIONS[action](request, given)


def _fork(request: RequestContext, given: Arguments) -> ToolAnswer:
    source, view = request.find(given)
    name = given.get("name", "")
    if not name.strip():
        raise InvalidInput("fork needs a name", path="$.name", hint="a short name, such as plan-b")
    point = view.at(request.scope.checked_position(given.get("at", "head")))
    source = request.scope.store.port.session(
        point.session
    )  # the position may name another session
    context = request.context(source)
    try:
        row = fork.fork(request.scope.store.port, context, point, name=name, **SAID)
    except Conflict as error:
        row = _same_fork(request, name, point, error)
        line = f"{request.label(row)} was forked there before; handle {row.id}"
        return ToolAnswer(line, session_row(row))
    line = f"forked {request.label(source)} at @{point.seq}: {request.label(row)}; handle {row.id}"
    return ToolAnswer(line, session_row(row), appended=True)


def _same_fork(request: RequestContext, name: str, point: Point, error: Conflict) -> SessionRow:
    """Return the fork that was made before with the same arguments; raise the error if it is another session."""
    try:
        row = request.scope.find(name)
    except StatorError:
        raise error from None
    parent = row.record.parent
    if parent is None or (parent.kind, parent.session, parent.seq) != (
        "fork",
        point.session,
        point.seq,
    ):
        raise error
    return row


def _child(request: RequestContext, given: Arguments) -> ToolAnswer:
    above, _ = request.find(given)
    purpose, name = given.get("purpose", ""), given.get("name", "")
    if not purpose and not name:
        raise InvalidInput("child needs a purpose or a name", path="$.purpose")
    context = request.context(above)
    row = self_report.begin_child(
        request.scope.store.port, context, above, agent=request.client, name=name, purpose=purpose
    )
    line = f"{request.label(row)} is a child of {request.label(above)}; handle {row.id}"
    return ToolAnswer(line, session_row(row), appended=True)


def _own(request: RequestContext, given: Arguments) -> SessionRow:
    """Return a session that this agent opened: it may change the status of no other."""
    row, _ = request.find(given)
    store = request.scope.store.port
    self_report.check_begun_by(store, row, request.principal, given["action"])
    return row


def _pause(request: RequestContext, given: Arguments) -> ToolAnswer:
    row = _own(request, given)
    context = request.context(row)
    change = lifecycle.pause(
        request.scope.store.port, context, row.id, by=request.principal, **SAID
    )
    return _status_answer(request, row, change)


def _resume(request: RequestContext, given: Arguments) -> ToolAnswer:
    row = _own(request, given)
    context = request.context(row)
    change = lifecycle.resume(
        request.scope.store.port, context, row.id, by=request.principal, **SAID
    )
    return _status_answer(request, row, change)


def _close(request: RequestContext, given: Arguments) -> ToolAnswer:
    row = _own(request, given)
    return _status_answer(
        request, row, self_report.close(request.scope.store.port, request.context(row), row.id)
    )


def _status_answer(request: RequestContext, row: SessionRow, change: Moved) -> ToolAnswer:
    asked = "" if change.asked is None else "; its driver was asked to stop at its next call"
    data = session_row(request.scope.store.port.session(row.id))
    return ToolAnswer(f"{request.label(row)} is {change.status}{asked}", data, appended=True)


_ACTIONS: dict[str, Callable[[RequestContext, Arguments], ToolAnswer]] = {
    "fork": _fork,
    "pause": _pause,
    "resume": _resume,
    "close": _close,
    "child": _child,
}


# -- settle ---------------------------------------------------------------------------------------


def settle(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, _, call = request.find_by_key(given, "call")
    verdict = given.get("verdict")
    call = call_in(call) or call
    if not call:
        if verdict is not None:
            raise InvalidInput(
                "a verdict needs a call",
                path="$.call",
                hint="stator_settle without a verdict lists the calls in doubt",
            )
        doubts = in_doubt_rows(request, row)
        return ToolAnswer(
            f"{len(doubts)} in doubt in {request.label(row)}",
            {"session": row.id, "in_doubt": doubts},
        )
    if verdict is None:
        raise InvalidInput(
            "stator_settle needs a verdict", path="$.verdict", hint="done, not_done or unknown"
        )
    data: dict[str, Any] = {"session": row.id, "call": call, "verdict": verdict, "settled": False}
    intent = _call_of(request, row, call)
    line = f"{intent.call} is unchanged: nothing was settled"
    if verdict != "unknown":
        found = settlement.settle(
            request.scope.store.port,
            request.context(row),
            intent.call,
            cast("Verdict", VERDICTS[verdict]),
            by=request.principal,
            value=given.get("value", UNSET),
            why=given.get("why", ""),
            session=row.id,
            **SAID,
        )
        data |= {"settled": True, "seq": found.seq}
        line = f"settled: {found.tool} {found.verdict}"
    data |= {"call": intent.call, "in_doubt": in_doubt_rows(request, row)}
    return ToolAnswer(line, data, appended=data["settled"])


def _call_of(request: RequestContext, row: SessionRow, call: str) -> Commit:
    try:
        return find_call(request.scope.store.port, call, session=row.id)
    except NotFound as error:
        hint = "stator_settle without a call lists those in doubt"
        raise NotFound(error.what, hint=hint, **error.ids) from None
