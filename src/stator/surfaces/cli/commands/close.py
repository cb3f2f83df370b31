"""`stator close`: closes a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.driving import lifecycle
from stator.surfaces.cli.parts.change_status import change_status

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        CauseOption,
        JsonFlag,
        NoPagerFlag,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator close                       the last session
stator close fix-login --why error
"""


def close(
    session: SessionArgument = None,
    *,
    why: CauseOption = "done",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Close a session; it accepts no turns until it is resumed."""
    return change_status(
        lifecycle.close, session, reason=why, store=store, json=json, pager=not no_pager
    )
