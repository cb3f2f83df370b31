"""`stator approvals`: lists calls that wait for approval, and the approvals given."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.runtime.driving import approvals as use
from stator.runtime.driving.approvals import Waiting
from stator.surfaces.cli.parts.approver_setup import what_is_proven
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import header
from stator.surfaces.cli.render.waiting_calls import (
    as_json,
    grant_as_json,
    grant_line,
    waiting_lines,
)

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator approvals                   calls that wait in this project
stator approvals --watch           keep watching; ring the bell for each new one
stator approvals --grants          approvals given, their scope and expiry
stator approvals --revoke 3fa9…    revoke an approval
"""
SECONDS, SHARE = 0.5, 4
"""--watch waits this long between two reads of the store, and at least SHARE times as long as a read took."""


def approvals(
    session: SessionArgument = None,
    *,
    watch: bool = False,
    grants: bool = False,
    revoke: str | None = None,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List calls that wait for approval, or the approvals given.

    Parameters
    ----------
    watch
        Keep watching, and ring the bell for each new call that waits.
    grants
        List the approvals and denials given, including expired ones.
    revoke
        Revoke an approval, by its id or the last characters of it.
    """
    if sum((watch, grants, revoke is not None)) > 1:
        raise BadQuery("use only one of --watch, --grants and --revoke")
    if revoke is not None:
        return _revoke(revoke, store, json=json)
    pager = not (no_pager or watch)
    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        one = opened.session(session).id if session is not None else None
        scope = None if everywhere or one else opened.project
        if grants:
            return _grants(opened, screen, one, scope)
        if watch:
            return _watch(opened, screen, one, scope)
        found = _waiting(opened, one, scope)
        if found and not json:
            screen.line(header(("CALL", 11), ("WHAT IT ASKS FOR", 0)))
        for item in found:
            _show(screen, item, opened.now)
        if not found:
            return opened.report_empty(
                "no call waits for approval" + ("" if everywhere or one else " in this project")
            )
        if not json:
            screen.line()
            screen.line(Line("or deny it: stator deny CALL", "dim"))
            _show_proven(screen)
    return 0


def _waiting(opened: OpenedStore, session: str | None, project: str | None) -> list[Waiting]:
    store = opened.store
    return use.waiting(
        store.port, now=opened.now, session=session, project=project, context=store.context
    )


def _show_proven(screen: Screen) -> None:
    """One line about what an approval proves in this set-up."""
    if not screen.json:
        screen.line(Line(what_is_proven()[0], "dim"))


def _show(screen: Screen, item: Waiting, now: int) -> None:
    if screen.json:
        screen.item(as_json(item))
    else:
        screen.lines(waiting_lines(item, now), hang=11)


def _watch(opened: OpenedStore, screen: Screen, session: str | None, project: str | None) -> int:
    """Show each waiting call once, until interrupted."""
    seen: set[str] = set()
    while True:
        began = time.monotonic()
        found = _waiting(opened, session, project)
        for item in found:
            if item.call not in seen and not item.answer:
                _show(screen, item, opened.now)
                if screen.is_terminal and not screen.json:
                    screen.out.write("\a")
        screen.out.flush()
        seen = {item.call for item in found}
        time.sleep(max(SECONDS, SHARE * (time.monotonic() - began)))


def _grants(opened: OpenedStore, screen: Screen, session: str | None, project: str | None) -> int:
    store = opened.store
    found = use.grants(
        store.port, now=opened.now, session=session, project=project, context=store.context
    )
    if found and not screen.json:
        screen.line(header(("GRANT", 18), ("ANSWER", 10), ("CALLS, SCOPE, WHO", 0)))
    for item in found:
        if screen.json:
            screen.item(grant_as_json(item))
        else:
            screen.line(grant_line(item))
    if not found:
        return opened.report_empty("no approvals were given")
    _show_proven(screen)
    return 0


def _revoke(grant: str, store: str | None, *, json: bool) -> int:
    with open_to_write(store) as opened, Screen(json=json) as screen:
        context = opened.store.context
        found = use.revoke(opened.store.port, context, grant, by=context.principal)
        if json:
            screen.document("stator.revoked/1", grant_as_json(found))
        else:
            screen.line(Line("revoked: ").extend(grant_line(found)))
    return 0
