"""`stator close`: Close a session: it takes no more turns until it is resumed, from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime import lifecycle
from stator.surfaces.cli.asking import telling
from stator.surfaces.cli.moving import show_moved
from stator.surfaces.cli.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        ReasonOption,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator close                       the last session
stator close fix-login --reason error
"""


def close(
    session: SessionArgument = None,
    *,
    reason: ReasonOption = "done",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Close a session: it takes no more turns until it is resumed."""
    with telling(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        view = ask.session(session)
        context = ask.store.context
        moved = lifecycle.close(
            ask.store.port, context, view.id, reason=reason, by=context.principal
        )
        show_moved(screen, moved)
    return 0
