"""Marking a session, a turn or a call: what `score` and `flag` have in common."""

from __future__ import annotations

from collections.abc import Callable

from stator.errors import BadPosition
from stator.model.values.ids import short, suffix_of
from stator.model.values.position import AtTurn, parse_position
from stator.runtime.facade.contributor import Contributor
from stator.runtime.facade.view import SessionView
from stator.runtime.views.refs import find_call
from stator.surfaces.cli.parts.scope import Asking, telling
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen


def mark(
    make: Callable[[Contributor, str], str],
    schema: str,
    *,
    session: str | None,
    on: str | None,
    store: str | None,
    json: bool,
    pager: bool,
) -> int:
    """Record a mark in the name of whoever asks for it, and show it."""
    with telling(store) as ask, Screen(json=json, pager=pager) as screen:
        view = ask.session(session)
        place = _place(ask, view, on) if on else ""
        made = make(ask.store.contribute(view.id), place)
        commit = view.commit(made[2:])
        if json:
            found = {"session": view.id, "commit": made, "seq": commit.seq, "on": place}
            screen.document(schema, found)
        else:
            line = Line(view.name, "bold").add(" ").add(short(view.id), "id").add(": ")
            screen.line(line.extend(record_line.of_commit(commit)).add(f"  @{commit.seq}", "id"))
    return 0


def _place(ask: Asking, view: SessionView, on: str) -> str:
    """What is marked, as the record names it: a turn by its number, a call by its id."""
    if suffix_of(on, "call"):
        return find_call(ask.store.port, on, session=view.id).call
    if isinstance(parse_position(on), AtTurn):
        return view.at(on).shown
    raise BadPosition(f"{on!r:.60} is no turn and no call", hint="t5, or the id of a call")
