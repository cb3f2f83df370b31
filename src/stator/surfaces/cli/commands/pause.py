"""`stator pause`: pauses a session, or asks its driver to pause it."""

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
stator pause                       the last session
stator pause fix-login             its driver stops before its next call
stator pause fix-login --why budget
"""


def pause(
    session: SessionArgument = None,
    *,
    why: CauseOption = "user",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Pause a session, or ask its driver to pause it."""
    return change_status(
        lifecycle.pause, session, reason=why, store=store, json=json, pager=not no_pager
    )
