"""`stator deny`: denies calls that wait for approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.surfaces.cli.parts.grants import ApprovalAnswer, show_grant
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        ExpiresOption,
        ForOption,
        JsonFlag,
        NoPagerFlag,
        PatternOption,
        SessionOption,
        StoreOption,
        WhyOption,
    )

EXAMPLES = """
stator deny c_7f2a91bc             this call
stator deny 7f2a91bc --why "ask finance first"
stator deny --pattern 'pay(amount>1000)' -s fix-login
"""


def deny(
    *calls: str,
    why: WhyOption = "",
    scope: ForOption = None,
    pattern: PatternOption = None,
    expires: ExpiresOption = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Deny a call that waits for approval.

    Parameters
    ----------
    calls
        Call ids, or their last characters, as stator approvals shows them.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        answer = ApprovalAnswer(opened, session, scope, pattern, expires, verdict="denied", why=why)
        for grant in answer.apply(calls):
            show_grant(screen, grant)
    return 0
