"""`stator trust`: shows whether a store is this user's own, and says that it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.connect import connect, locate, withdraw_trust
from stator.errors import BadQuery
from stator.locations import path_of
from stator.model.log.query import SessionQuery
from stator.owner.stores import listed
from stator.runtime.base.pages import matching
from stator.runtime.driving import approvals
from stator.runtime.driving.approvals import Grant
from stator.runtime.facade.store import Store
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask, refuse_both
from stator.surfaces.cli.parts.foreign import old_grants
from stator.surfaces.cli.parts.foreign import trust as trust_it
from stator.surfaces.cli.parts.person import refuse_agents
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.waiting_calls import grant_as_json, grant_line

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator trust                       what the store here is to you; asks whether to trust it
stator trust --yes                 trust it
stator trust --confirm-approvals --yes   also the approvals that a release before 0.7 recorded in it
stator trust --withdraw            it is foreign from now on
stator trust --list                every store you made or trusted
"""


def trust(
    *,
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    confirm_approvals: bool = False,
    withdraw: bool = False,
    list: bool = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show whether a store is your own, or say that it is.

    A store is your own if you made it on this machine or trusted it. Any other is foreign, for example one that came
    with a cloned repository, and a copy of your own: it can be read, its approvals answer nothing, its texts count
    as imported, hooks do not write to it, and a program that does not name it cannot drive it.

    Parameters
    ----------
    confirm_approvals
        Also confirm the approvals that a release before 0.7 recorded in it.
    withdraw
        Take it back: take it off the list of your stores.
    list
        List the stores and projects you made or trusted.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if withdraw and (yes or dry_run or confirm_approvals or list):
        raise BadQuery("--withdraw takes no other option but --store")
    with Screen(json=json, pager=not no_pager) as screen:
        if list:
            return _list(screen)
        with connect(locate(store), create=False, read_only=True) as opened:
            if withdraw:
                withdraw_trust(opened)
                return _show(screen, opened, done="withdrawn")
            foreign, found = opened.port.ownership.foreign, old_grants(opened)
            if not foreign and not (confirm_approvals and found):
                return _show(screen, opened, done="")
            if not screen.json:
                screen.lines(_about(opened, foreign, found))
                screen.flush()
            if yes:
                refuse_agents(
                    opened.context.below(opened.port), "a store is not trusted by an agent"
                )
            may_ask = can_ask() and not (json or dry_run)
            if not (yes or (may_ask and asks_yes("Trust it?"))):
                return _show(screen, opened, done="")
            keep = confirm_approvals or (
                not yes and bool(found) and asks_yes(f"Keep {count(len(found), 'approval')}?")
            )
            trust_it(opened, old_grants=keep)
            return _show(screen, opened, done="trusted")


def _about(store: Store, foreign: str, found: list[Grant]) -> Iterator[Line]:
    info = store.info()
    yield Line(path_of(info.url) or info.url, "title").add(f" store {info.id[:8]}", "dim")
    if foreign:
        yield Line("  it ").add(foreign, "doubt")
    rows = [row for row in matching(store.port, SessionQuery()) if row.record.mode != "project"]
    yield Line(
        f"  {count(len(rows), 'session')}; once you trust it, their texts count as recorded by you"
    )
    if others := len(approvals.grants(store.port, now=store.context.clock())) - len(found):
        yield Line(f"  {count(others, 'approval')} of others, which answer nothing either way")
    if found:
        what = f"  {count(len(found), 'approval')} of a release before 0.7:"
        yield Line(what, "doubt")
    for grant in found:
        yield Line("    ").extend(grant_line(grant))


def _show(screen: Screen, store: Store, *, done: str) -> int:
    """Say what the store is to the user now."""
    url, why, left = store.info().url, store.port.ownership.foreign, old_grants(store)
    path = path_of(url) or url
    if screen.json:
        found: dict[str, Any] = {
            "store": path,
            "id": store.info().id,
            "own": not why,
            "why": why,
            "done": done,
            "unconfirmed": [grant_as_json(grant) for grant in left],
        }
        screen.document("stator.trust/1", found)
    elif why:
        screen.line(Line("foreign: ", "doubt").add(path).add(f" {why}"))
        if not done:
            screen.line(Line("  nothing was changed; confirm with --yes", "dim"))
    else:
        word = "trusted from now on" if done == "trusted" else "your own"
        screen.line(Line(f"{word}: ", "ok").add(path))
        if left:
            screen.line(
                Line(
                    f"  {count(len(left), 'approval')} of a release before 0.7 answer nothing: ",
                    "doubt",
                ).add("stator trust --confirm-approvals")
            )
    return FINDING if why and done == "trusted" else OK


def _list(screen: Screen) -> int:
    for line in listed(os.environ):
        if screen.json:
            screen.item({"kind": line.kind, "id": line.id, "path": line.path})
        else:
            shown = Line().add(line.kind, "dim", width=8).add(line.path)
            screen.whole([shown.add(f"  {line.id[:8]}", "id")])
    return OK
