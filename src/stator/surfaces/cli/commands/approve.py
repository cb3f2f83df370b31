"""`stator approve`: yes, it may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stator.errors import BadQuery
from stator.model.approval import Scope
from stator.model.ids import short
from stator.runtime import approvals as use
from stator.runtime.approvals import Grant
from stator.surfaces.cli.asking import Asking, telling
from stator.surfaces.cli.gates import grant_line, grant_plain
from stator.surfaces.cli.paint import Line
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
stator approve c_7f2a91bc          this call, once
stator approve 7f2a91bc --for session --expires 2h
stator approve 7f2a91bc --pattern 'pay(amount<=100)' --for project
stator approve --all               everything that waits in this project
stator approve --pattern 'read_*' -s fix-login
"""


def approve(
    *calls: str,
    all: bool = False,
    scope: ForOption = None,
    pattern: PatternOption = None,
    expires: ExpiresOption = None,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Let a waiting call run.

    Parameters
    ----------
    calls
        Calls, by id or the end of one, as stator approvals shows them.
    all
        Every call that waits in this project, or in the session.
    """
    with telling(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        until = parse_until(expires, ask.now) if expires is not None else 0
        wide = cast("Scope", scope or ("session" if pattern else "once"))
        port, context = ask.store.port, ask.store.context
        by = context.principal
        if not calls and not all:
            if pattern is None:
                raise BadQuery("which call?", hint="stator approvals shows what waits")
            target = ask.session(session)
            found = [use.grant(port, context, target.id, pattern, by=by, scope=wide, expires=until)]
        else:
            found = [
                use.approve(
                    port, context, call, by=by, scope=wide, pattern=pattern or "", expires=until
                )
                for call in calls or _waiting(ask, session)
            ]
        for grant in found:
            said(screen, grant)
        if not found:
            return ask.nothing("no call waits for approval")
    return 0


def _waiting(ask: Asking, session: str | None) -> list[str]:
    one = ask.session(session).id if session is not None else None
    project = None if one else ask.project
    found = use.waiting(ask.store.port, now=ask.now, session=one, project=project)
    return [item.call for item in found if not item.answer]


def said(screen: Screen, grant: Grant) -> None:
    """Show what was just said, and where."""
    if screen.json:
        screen.item(grant_plain(grant))
    else:
        line = grant_line(grant).add(" ").add(short(grant.session), "id")
        screen.line(line.add(f" @{grant.seq}", "id"))
        if grant.record.verdict == "approved" and grant.record.call:
            screen.line(Line("  it runs when its session is driven next, or now if it is", "dim"))
