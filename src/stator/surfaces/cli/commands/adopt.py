"""`stator adopt`: makes a retry or a fork replace the original session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionOption, StoreOption

EXAMPLES = """
stator adopt t5.2                  use the first retry of turn 5 from now on
stator adopt t5.1                  use the original again
stator adopt plan-b                use a fork
"""


def adopt(
    what: str,
    /,
    *,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Make a retry or a fork replace the original session.

    The name of the original refers to the adopted session from then on. No session is changed or deleted.

    Parameters
    ----------
    what
        The retry (t5.2), or a forked session; t5.1 undoes an adoption.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, ref = opened.resolve(session, what)
        done = opened.store.contribute(view.id).adopt(ref or "head")
        if json:
            screen.document("stator.adopted/1", msgspec.to_builtins(done))
            return 0
        line = Line(done.name, "bold").add(" → ").add(done.by_name, "bold").add(" ")
        line.add(short(done.by), "id")
        screen.line(line.add(" (the original again)" if done.by == done.original else "", "dim"))
    return 0
