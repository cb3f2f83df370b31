"""`stator fork`: starts a session from a position of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.model.log.query import SessionRow
from stator.model.values.ids import short
from stator.runtime.branches import fork as forks
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        PlaceArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator fork                        from the head of the last session
stator fork t3 --name plan-b       from the end of turn 3
stator fork fix-login:@42
"""


def fork(
    *what: PlaceArgument,
    name: str | None = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Start a new session from a position of another one.

    The fork begins at the position, by default at the head. No commits are copied.

    Parameters
    ----------
    name
        The name of the new session; default: derived from its parent's name.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, ref = opened.named(what, session)
        port, context = opened.store.port, opened.store.context
        row = forks.fork(port, context, view.at(ref or "head"), name=name or "")
        if json:
            screen.document("stator.fork/1", as_json(row))
        else:
            screen.lines(new_session_lines(row, opened))
    return 0


def as_json(row: SessionRow) -> dict[str, Any]:
    """A fork or retry as JSON."""
    parent = row.record.parent
    assert parent is not None
    return {
        "session": row.id,
        "name": row.record.name,
        "kind": parent.kind,
        "parent": parent.session,
        "seq": parent.seq,
    }


def new_session_lines(row: SessionRow, opened: OpenedStore, what: str = "") -> list[Line]:
    """The new session, its origin, and the command that continues it."""
    parent = row.record.parent
    assert parent is not None
    line = Line(row.record.name, "bold").add(" ").add(short(row.id), "id")
    origin = opened.names()[parent.session]
    line.add(f" · {parent.kind} of {origin}{f' {what}' if what else ''} at @{parent.seq}", "dim")
    return [line, Line(f"  stator resume {short(row.id)} -- COMMAND", "dim")]
