"""`stator pause`: Pause a session, or ask its driver to, from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.driving import lifecycle
from stator.surfaces.cli.parts.change_status import move

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
    return move(lifecycle.pause, session, reason=reason, store=store, json=json, pager=not no_pager)
