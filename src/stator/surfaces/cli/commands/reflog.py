"""`stator reflog`: lists the rewinds of a session and the positions they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stator.runtime.views.ranges import seqs_of
from stator.runtime.views.reflog import Reflog
from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render.detail import turns_shown
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator reflog                      rewinds of the last session
stator reflog fix-login
stator rewind rewind/1             return to where the first rewind started
"""
COLUMNS = (
    Column(title="TAG", shrinks=True, most=24),
    Column(title="AT"),
    Column(title="FROM → TO"),
    Column(title="TURNS", shrinks=True, least=12),
    Column(title="BY", shrinks=True, least=8, drop=1),
    Column(title="WHEN"),
)


def reflog(
    *what: RefsArgument,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List the rewinds of a session, newest first."""
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, span = opened.named(what, session)
        after, upto = seqs_of(opened.store.as_read, view.id, span)
        found = [
            one for one in view.reflog() if after < one.seq <= (one.seq if upto is None else upto)
        ]
        if json:
            for one in found:
                screen.item(msgspec.to_builtins(one))
            return 0
        if not found:
            when = f"not rewound in {span}" if span else "never rewound"
            return opened.report_empty(f"{view.name} was {when}")
        title(screen, view, opened)
        screen.lines(table(COLUMNS, [_cells(one, opened.now) for one in found], screen.width))
    return 0


def _cells(one: Reflog, now: int) -> list[Line | str]:
    return [
        Line(one.tag, "bold"),
        Line(f"@{one.seq}", "id"),
        f"@{one.start} → @{one.end}",
        turns_shown(one.turns),
        one.by,
        Line(ago(one.at, now), "dim"),
    ]
