"""`stator resume`: where a session stands, how to go on with it, and going on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.calls.budget import is_whole, shown
from stator.model.log.commit import Commit
from stator.model.log.query import TurnRow
from stator.model.records.types import Entry, PlanRecord
from stator.model.values import canon
from stator.runtime.driving import approvals, budgets, settlement
from stator.runtime.facade.view import SessionView
from stator.runtime.views.file_changes import FileChange
from stator.surfaces.cli.commands.ls import plain as session_plain
from stator.surfaces.cli.commands.show import pair, section
from stator.surfaces.cli.parts.hand_over import become, environ_for
from stator.surfaces.cli.parts.scope import Asking, asking, heading
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.waiting_calls import doubt_lines, plain, waiting_lines

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, StoreOption, Text

EXAMPLES = """
stator resume                      the last session: where it stands, how to go on
stator resume fix-login
stator resume fix-login -- python agent.py
"""
TURNS = 3
"""How many of the last turns' files are shown."""
FILES = 12


class Standing(msgspec.Struct, frozen=True):
    """Where a session stands."""

    turn: TurnRow | None
    began: Commit | None
    doubts: list[settlement.Doubt]
    waiting: list[approvals.Waiting]
    plan: list[Entry]
    pending: list[Entry]
    files: list[FileChange]


def resume(
    session: Text = None,
    /,
    *command: str,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show where a session stands and how to go on with it, or go on.

    Parameters
    ----------
    session
        Name, id or end of one, or last.
    command
        After --: the program to go on with; it finds $STATOR_STORE and $STATOR_SESSION.
    """
    with asking(store) as ask:
        view = ask.session(session)
        if not command:
            with Screen(json=json, pager=not no_pager) as screen:
                _show(screen, view, ask)
            return 0
        environ = environ_for(view.row, ask)
    return become(command, environ)


# -- looking --------------------------------------------------------------------------------------


def _standing(view: SessionView, ask: Asking) -> Standing:
    left = view.rewound()
    turns = [row for row in view.turns(last=len(left) + 1) if row.turn not in left]
    port = ask.store.port
    return Standing(
        turn=turns[-1] if turns else None,
        began=view.beginning(turns[-1].turn) if turns else None,
        doubts=settlement.doubts(port, session=view.id),
        waiting=approvals.waiting(port, now=ask.now, session=view.id),
        plan=sorted(view.entries("plan"), key=lambda entry: getattr(entry.record, "order", 0)),
        pending=view.entries("pending"),
        files=view.files(last=TURNS)[:FILES],
    )


def _show(screen: Screen, view: SessionView, ask: Asking) -> None:
    found = _standing(view, ask)
    if screen.json:
        screen.document("stator.resume/1", _plain(view, found, ask))
        return
    screen.line(heading(view, ask.now))
    screen.lines(_status(view, found, ask))
    screen.lines(_calls(found, ask.now), hang=4)
    done = sum(isinstance(e.record, PlanRecord) and e.record.status == "done" for e in found.plan)
    left = [e for e in found.plan if getattr(e.record, "status", "") not in ("done", "dropped")]
    if found.plan:
        screen.lines(section(f"Plan ({done} of {len(found.plan)} done)", left or found.plan[-1:]))
    screen.lines(section("Pending", found.pending))
    screen.lines(_files(found.files))
    screen.line()
    screen.line(Line("To go on", "title"))
    screen.whole(Line(f"  {line}") for line in _code(view, ask))


def _status(view: SessionView, found: Standing, ask: Asking) -> Iterator[Line]:
    row = view.row
    if row.holder is not None and row.holder.live:
        driver = row.holder
        yield pair("driver", f"{driver.program} on {driver.host}, pid {driver.pid}")
    elif row.shown == "interrupted":
        yield pair("interrupted", "its driver is gone (process died)")
    elif row.record.reason:
        yield pair(row.shown, f"because: {row.record.reason}")
    if found.turn is not None:
        line = pair("last turn", f"t{found.turn.turn} ").status(_ended(found.turn, row.shown))
        asked = record_line.of_commit(found.began) if found.began is not None else Line()
        yield line.add(" · ", "dim").extend(asked)
    for limit in budgets.limits(ask.store.port, view.id):
        used = budgets.spent_tree(ask.store.port, limit.session)
        parts = [_of(unit, most, used) for unit, most in sorted(limit.budget.items())]
        whose = "" if limit.session == view.id else f" ({limit.name} above it)"
        yield pair("budget", ", ".join(parts) + whose)


def _ended(turn: TurnRow, shown: str) -> str:
    return turn.status or ("interrupted" if shown == "interrupted" else "open")


def _of(unit: str, limit: int, used: Mapping[str, int]) -> str:
    amount = used.get(unit, 0) if is_whole(used, unit) else None
    return f"{shown(unit, amount)} of {shown(unit, limit)}"


def _calls(found: Standing, now: int) -> Iterator[Line]:
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
    yield Line("Files of the last turns", "title")
    for change in files:
        line = Line("  ").add(change.op, record_line.OP_STYLES.get(change.op, ""), width=10)
        yield line.add(change.path).add(f"  t{change.turn}", "dim")


def _code(view: SessionView, ask: Asking) -> list[str]:
    """How a program takes the session up."""
    if view.record.status == "archived":
        return [f"it is archived; a fork can go on: store.fork({view.name!r})"]
    where = repr(ask.place.url) if ask.place.why in ("as given", "$STATOR_STORE") else ""
    other = view.record.project != ask.project
    project = f", project={view.record.project!r}" if other else ""
    return [
        f"with stator.connect({where}).open({view.name!r}{project}) as s, s.turn(…) as t: …",
        f"stator resume {shlex.quote(view.name)} -- python agent.py",
    ]


def _plain(view: SessionView, found: Standing, ask: Asking) -> dict[str, Any]:
    turn = found.turn
    prompt = record_line.value_of(found.began, "input") if found.began is not None else None
    return {
        "session": session_plain(view.row),
        "turn": None
        if turn is None
        else {
            "turn": turn.turn,
            "status": _ended(turn, view.row.shown),
            "prompt": canon.to_plain(prompt),
        },
        "in_doubt": [plain(doubt) for doubt in found.doubts],
        "waiting": [plain(item) for item in found.waiting],
        "plan": [wire.record(entry.record) for entry in found.plan],
        "pending": [wire.record(entry.record) for entry in found.pending],
        "files": [msgspec.to_builtins(change) for change in found.files],
        "spent": budgets.spent_tree(ask.store.port, view.id),
        "limits": view.record.budget,
        "code": _code(view, ask)[0],
    }
