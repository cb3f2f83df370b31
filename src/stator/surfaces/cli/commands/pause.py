"""`stator pause`: Pause a session, or ask its driver to, from outside."""

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
stator pause                       the last session
stator pause fix-login             its driver stops at its next call
stator pause fix-login --reason budget
"""


def pause(
    session: SessionArgument = None,
    *,
    reason: ReasonOption = "user",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Pause a session, or ask its driver to."""
    with telling(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        view = ask.session(session)
        context = ask.store.context
        moved = lifecycle.pause(
            ask.store.port, context, view.id, reason=reason, by=context.principal
        )
        show_moved(screen, moved)
    return 0
