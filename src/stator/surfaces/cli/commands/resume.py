"""`stator resume`: shows where a session stopped and how to continue it, or continues it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.calls.budget import is_whole, shown
from stator.model.log.commit import Commit
from stator.model.log.query import TurnRow
from stator.model.records.types import Entry
from stator.model.values import canon
from stator.model.values.ids import short
from stator.model.views.open_calls import SettledCall, is_cut_off
from stator.runtime.driving import approvals, budgets, lifecycle, settlement
from stator.runtime.facade.view import SessionView
from stator.runtime.views.file_changes import FileChange
from stator.runtime.views.reasons.doubt_story import settled_in
from stator.runtime.views.words import ModelWords, last_words
from stator.surfaces.cli.commands.show import pair, plan_section, section
from stator.surfaces.cli.parts.agent_command import agent_command, by_hand
from stator.surfaces.cli.parts.agent_command import shown as agent_words
from stator.surfaces.cli.parts.change_status import change_status
from stator.surfaces.cli.parts.hand_over import become, environ_for
from stator.surfaces.cli.parts.open_store import OpenedStore, heading, open_to_read
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.cli.render.documents import session_row
from stator.surfaces.cli.render.lines import NO_SIGN, Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.turns.subject import base_of
from stator.surfaces.cli.render.waiting_calls import (
    as_json,
    doubt_lines,
    settled_words,
    waiting_lines,
)

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption, Text

EXAMPLES = """
stator resume                      the last session: where it stopped, how to continue
stator resume fix-login
stator resume fix-login -- python agent.py   continue it with a program
"""
TURNS = 3
"""Files touched in this many of the last turns are shown."""
FILES = 12
NEWEST = 60
"""Commits at the end of a log in which calls are looked for that were settled."""


class SessionSummary(msgspec.Struct, frozen=True):
    """What a person needs to know to continue a session."""

    turn: TurnRow | None
    began: Commit | None
    doubts: list[settlement.Doubt]
    waiting: list[approvals.Waiting]
    plan: list[Entry]
    pending: list[Entry]
    files: list[FileChange]
    settled: list[SettledCall]
    """Calls in doubt that were settled since the last turn began."""
    said: ModelWords | None = None
    """The agent's last words."""


def resume(
    session: Text = None,
    /,
    *command: str,
    reopen: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show where a session stopped and how to continue it, or do so.

    Parameters
    ----------
    session
        A session name, an id or its last characters, or last.
    command
        After --: the program that continues it; $STATOR_STORE and $STATOR_SESSION are set for it.
    reopen
        Open a closed session again: it is paused until a program continues it.
    """
    if reopen and not command:
        return change_status(
            lifecycle.resume, session, reason="user", store=store, json=json, pager=not no_pager
        )
    with open_to_read(store) as opened:
        view = opened.session(session)
        if not command:
            with Screen(json=json, pager=not no_pager) as screen:
                _show(screen, view, opened)
            return 0
        environ = environ_for(view.row, opened)
    return become(command, environ)


# -- showing --------------------------------------------------------------------------------------


def _summary(view: SessionView, opened: OpenedStore) -> SessionSummary:
    left = view.rewound()
    turns = [row for row in view.turns(last=len(left) + 1) if row.turn not in left]
    port = opened.store.port
    newest = opened.store.as_read.commits(view.id, newest_first=True, limit=NEWEST)
    return SessionSummary(
        turn=turns[-1] if turns else None,
        began=view.beginning(turns[-1].turn) if turns else None,
        doubts=settlement.doubts(opened.store.as_read, session=view.id),
        waiting=approvals.waiting(
            port, now=opened.now, session=view.id, context=opened.store.context
        ),
        plan=sorted(view.entries("plan"), key=lambda entry: getattr(entry.record, "order", 0)),
        pending=view.entries("pending"),
        files=view.files(last=TURNS)[:FILES],
        settled=settled_in(opened.store.as_read, view.id, newest, turns[-1].first if turns else 0),
        said=last_words(opened.store.as_read, view.id),
    )


def _show(screen: Screen, view: SessionView, opened: OpenedStore) -> None:
    found = _summary(view, opened)
    if screen.json:
        screen.document("stator.resume/1", _as_json(view, found, opened))
        return
    screen.line(heading(view, opened, room=screen.cut))
    screen.lines(_status(view, found, opened))
    screen.lines(_calls(found, opened.now), hang=4)
    screen.lines(plan_section(found.plan, view.id, done_too=1))
    screen.lines(section("Pending", found.pending))
    screen.lines(_files(found.files))
    screen.line()
    screen.line(Line("To continue", "title"))
    screen.whole(Line(f"  {line}") for line in _how_to_continue(view, opened))
    if view.record.mode == "recorded" and (base := base_of(one.path for one in found.files)):
        screen.line(Line(f"  start it where it worked: its files are below {base}", "dim"), hang=4)


def _status(view: SessionView, found: SessionSummary, opened: OpenedStore) -> Iterator[Line]:
    row = view.row
    if row.holder is not None and row.holder.live:
        driver = row.holder
        sign = NO_SIGN if driver.live == "silent" else ""
        yield pair("driver", f"{driver.program} on {driver.host}, pid {driver.pid}{sign}")
    elif is_cut_off(row):
        yield pair("interrupted", "its driver is gone (process died)")
    elif row.record.reason and (found.waiting or row.record.reason != "approval"):
        yield pair(row.shown, f"reason: {row.record.reason}")
    if found.turn is not None:
        yield pair("last turn", f"t{found.turn.turn}, ").status(_turn_status(found.turn, row.shown))
        if found.began is not None:
            yield pair("asked", "").extend(record_line.of_commit(found.began))
    for call in found.settled:
        yield pair("settled", "").extend(settled_words(call))
    if found.said is not None:
        line = pair("last words", record_line.brief(found.said.text))
        is_earlier = found.turn is not None and found.said.turn != found.turn.turn
        yield line.add(f"  t{found.said.turn}" if is_earlier else "", "dim")
    for limit in budgets.limits(opened.store.port, view.id):
        used = budgets.spent_tree(opened.store.port, limit.session)
        parts = [_spent_of_limit(unit, most, used) for unit, most in sorted(limit.budget.items())]
        whose = "" if limit.session == view.id else f" (limit of its parent {limit.name})"
        yield pair("budget", ", ".join(parts) + whose)


def _turn_status(turn: TurnRow, shown: str) -> str:
    return turn.status or ("interrupted" if shown == "interrupted" else "open")


def _spent_of_limit(unit: str, limit: int, used: Mapping[str, int]) -> str:
    amount = used.get(unit, 0) if is_whole(used, unit) else None
    return f"{shown(unit, amount)} of {shown(unit, limit)}"


def _calls(found: SessionSummary, now: int) -> Iterator[Line]:
    if found.doubts or found.waiting:
        yield Line()
    for doubt in found.doubts:
        yield from doubt_lines(doubt, named=False)
    for item in found.waiting:
        yield Line("waiting for approval: ", "doubt").extend(
            next(waiting_lines(item, now, named=False))
        )


def _files(files: list[FileChange]) -> Iterator[Line]:
    if not files:
        return
    yield Line()
    yield Line("Files touched in the last turns", "title")
    for change in files:
        line = Line("  ").add(change.op, record_line.OP_STYLES.get(change.op, ""), width=10)
        yield line.add(change.path).add(f"  t{change.turn}", "dim")


def _how_to_continue(view: SessionView, opened: OpenedStore) -> list[str]:
    """How a program continues the session."""
    if view.record.status == "archived":
        return [f"the session is archived; continue in a fork: store.fork({view.name!r})"]
    if view.record.mode == "recorded":
        return _how_its_agent_continues(view)
    where = repr(opened.place.shown) if opened.place.why in ("as given", "$STATOR_STORE") else ""
    other = view.record.project != opened.project
    project = f", project={view.record.project!r}" if other else ""
    is_closed = view.record.status == "closed"
    closed = [f"it is closed: stator resume {shlex.quote(view.name)} --reopen opens it"] * is_closed
    return [
        f"in Python:  with stator.connect({where}).open({view.name!r}{project}) as s: …",
        f"in a shell: stator resume {shlex.quote(view.name)} -- python agent.py",
        *closed,
    ]


def _how_its_agent_continues(view: SessionView) -> list[str]:
    """How a session continues whose agent runs outside Stator."""
    name = short(view.id)
    words = agent_command(view.record)
    told = f"stator brief {name}   # what another agent must know to continue"
    if words is None:
        return [told, f"In {view.record.agent or 'its agent'} itself: {by_hand(view.record)}."]
    return [
        agent_words(words),
        f"stator resume {name} -- {agent_words(words)}",
        told,
    ]


def _as_json(view: SessionView, found: SessionSummary, opened: OpenedStore) -> dict[str, Any]:
    turn = found.turn
    prompt = record_line.value_of(found.began, "input") if found.began is not None else None
    return {
        "session": session_row(view.row),
        "turn": None
        if turn is None
        else {
            "turn": turn.turn,
            "status": _turn_status(turn, view.row.shown),
            "prompt": canon.to_plain(prompt),
        },
        "in_doubt": [as_json(doubt) for doubt in found.doubts],
        "waiting": [as_json(item) for item in found.waiting],
        "plan": [wire.record(entry.record) for entry in found.plan],
        "pending": [wire.record(entry.record) for entry in found.pending],
        "files": [msgspec.to_builtins(change) for change in found.files],
        "settled": [msgspec.to_builtins(call) for call in found.settled],
        "said": None if found.said is None else found.said.text,
        "spent": budgets.spent_tree(opened.store.port, view.id),
        "limits": view.record.budget,
        "code": _how_to_continue(view, opened)[0],
    }
