"""`stator archive`: Archive a closed session: it can be read and forked, never driven, from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime import lifecycle
from stator.surfaces.cli.asking import telling
from stator.surfaces.cli.moving import show_moved
from stator.surfaces.cli.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, ReasonOption, StoreOption

EXAMPLES = """
stator archive fix-login           it is closed already
stator archive s_7f2a91bc --json
"""


def archive(
    session: str,
    /,
    *,
    reason: ReasonOption = "done",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Archive a closed session: it can be read and forked, never driven."""
    with telling(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        view = ask.session(session)
        context = ask.store.context
        moved = lifecycle.archive(
            ask.store.port, context, view.id, reason=reason, by=context.principal
        )
        show_moved(screen, moved)
    return 0
