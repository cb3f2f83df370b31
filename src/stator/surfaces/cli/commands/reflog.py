"""`stator reflog`: lists the rewinds of a session and the positions they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render.detail import turns_shown
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import ago

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionArgument, StoreOption

EXAMPLES = """
stator reflog                      rewinds of the last session
stator reflog fix-login
stator rewind rewind/1             return to where the first rewind started
"""


def reflog(
    session: SessionArgument = None,
    *,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List the rewinds of a session, newest first."""
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.session(session)
        found = view.reflog()
        if json:
            for one in found:
                screen.item(msgspec.to_builtins(one))
            return 0
        if not found:
            return opened.report_empty(f"{view.name} was never rewound")
        title(screen, view, opened.now)
        tags = widest((one.tag for one in found), 16)
        for one in found:
            line = Line().add(one.tag, "bold", width=tags).add(f"  @{one.seq}", "id", width=9)
            line.add(f"@{one.start} → @{one.end}", width=16).add(f"  {turns_shown(one.turns)}")
            screen.line(line.add(f" · {one.by} · {ago(one.at, opened.now)}", "dim"))
    return 0
