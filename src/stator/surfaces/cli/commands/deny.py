"""`stator deny`: no, it may not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stator.errors import BadQuery
from stator.model.approval import Scope
from stator.runtime import approvals as use
from stator.surfaces.cli.asking import telling
from stator.surfaces.cli.commands.approve import said
from stator.surfaces.cli.screen import Screen
from stator.surfaces.cli.times import parse_until

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        ExpiresOption,
        ForOption,
        JsonFlag,
        NoPagerFlag,
        PatternOption,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator deny c_7f2a91bc             this call
stator deny 7f2a91bc --why "ask finance first"
stator deny --pattern 'pay(amount>1000)' -s fix-login
"""


def deny(
    *calls: str,
    why: str = "",
    scope: ForOption = None,
    pattern: PatternOption = None,
    expires: ExpiresOption = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Refuse a waiting call.

    Parameters
    ----------
    calls
        Calls, by id or the end of one, as stator approvals shows them.
    why
        The reason; the agent is told.
    """
    with telling(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        until = parse_until(expires, ask.now) if expires is not None else 0
        wide = cast("Scope", scope or ("session" if pattern else "once"))
        port, context = ask.store.port, ask.store.context
        by = context.principal
        if not calls:
            if pattern is None:
                raise BadQuery("which call?", hint="stator approvals shows what waits")
            target = ask.session(session).id
            found = [
                use.grant(
                    port, context, target, pattern,
                    by=by, verdict="denied", scope=wide, expires=until, why=why,
                )
            ]  # fmt: skip
        else:
            found = [
                use.deny(
                    port, context, call,
                    by=by, why=why, scope=wide, pattern=pattern or "", expires=until,
                )
                for call in calls
            ]  # fmt: skip
        for grant in found:
            said(screen, grant)
    return 0
