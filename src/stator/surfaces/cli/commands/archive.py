"""`stator archive`: archives a closed session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.runtime.driving import lifecycle
from stator.surfaces.cli.parts.change_status import change_status

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        CauseOption,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
    )

EXAMPLES = """
stator archive fix-login           a session that is closed
stator archive s_7f2a91bc --json
"""


def archive(
    session: str,
    /,
    *,
    why: CauseOption = "done",
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Archive a closed session; it can be read and forked, not driven.

    Parameters
    ----------
    session
        A session name, an id or its last characters, or last.
    """
    return change_status(
        lifecycle.archive, session, reason=why, store=store, json=json, pager=not no_pager
    )
