"""`stator hold`: exempts a session from retention policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.model.values.ids import short
from stator.runtime.base import project_flags
from stator.runtime.retention import policies
from stator.surfaces.cli.exits import FINDING
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        StoreOption,
        WhyOption,
    )

EXAMPLES = """
stator hold                              held sessions, by whom and why
stator hold fix-login --why "case 4711"
stator hold fix-login --release
"""
COLUMNS = (
    Column(title="ID"),
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="BY", shrinks=True, least=8),
    Column(title="SINCE"),
    Column(title="WHY", shrinks=True, least=12),
)


def hold(
    session: str | None = None,
    /,
    *,
    why: WhyOption = "",
    release: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Exempt a session from retention policies, or list exempt sessions.

    Parameters
    ----------
    session
        A session name, an id or its last characters, or last.
    release
        Release the session: the policies apply to it again.
    """
    if session is None:
        with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
            return _list(opened, screen)
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, context = opened.session(session), opened.store.context
        was = True
        if release:
            was = policies.release(opened.store.port, context, view.id, by=context.principal)
        else:
            policies.hold(opened.store.port, context, view.id, by=context.principal, why=why)
        if json:
            found = {"session": view.id, "name": view.name, "held": not release, "was": was}
            screen.document("stator.hold/1", found)
        else:
            line = Line(view.name, "bold").add(" ").add(short(view.id), "id").add(": ")
            now = "held until released" if not release else "no longer held"
            screen.line(line.add(now if was else "was not held"))
    return 0 if was else FINDING


def _list(opened: OpenedStore, screen: Screen) -> int:
    marks = sorted(
        project_flags.marked(opened.store.port, project_flags.HOLD).values(), key=lambda one: one.at
    )
    names = opened.names()
    if screen.json:
        for mark in marks:
            plain = {"session": mark.session, "name": names[mark.session], "by": mark.by}
            screen.item({**plain, "why": mark.why, "at": mark.at})
    else:
        rows: list[list[Line | str]] = [
            [
                Line(short(mark.session), "id"),
                Line(names[mark.session], "bold"),
                mark.by,
                Line(ago(mark.at, opened.now), "dim"),
                mark.why,
            ]
            for mark in marks
        ]
        screen.lines(table(COLUMNS, rows, screen.width))
    return 0 if marks else opened.report_empty("no session is held")
