"""Says that a store is not this user's own, and asks whether it is one from an earlier release."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from stator.connect import FOLDER, trust_store
from stator.locations import path_of
from stator.owner.projects import trust_project
from stator.owner.standing import TRACKED, UNKNOWN
from stator.owner.stores import decline_store, is_declined
from stator.runtime.driving import approvals
from stator.runtime.driving.approvals import Grant
from stator.runtime.facade.store import Store
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import note
from stator.surfaces.cli.render.waiting_calls import grant_line


def warn_if_foreign(store: Store) -> None:
    """Say in one line that a store is not this user's own, and what to do. At a terminal, ask once whether it is a
    store of the user's own from a release that kept no list."""
    why = store.port.ownership.foreign
    if not why:
        return
    path = path_of(store.info().url)
    if why == UNKNOWN and can_ask() and not is_declined(os.environ, store.info().id):
        if _is_own(store, path):
            return
        decline_store(os.environ, path, store.info().id)
    first = "git rm --cached it, then " if why == TRACKED else ""
    note(
        f"foreign store: {path} {why}; nothing in it acts. If you know where it comes from: {first}stator trust"
    )


def trust(store: Store, *, old_grants: bool) -> bool:
    """Write a store, and the project beside it, down as this user's own; returns whether there is such a project."""
    trust_store(store, old_grants=old_grants)
    folder = os.path.dirname(os.path.abspath(store.port.ownership.path))
    return os.path.basename(folder) == FOLDER and trust_project(os.environ, Path(folder).parent)


def old_grants(store: Store) -> list[Grant]:
    """The grants that were recorded here by a release up to 0.6, if they are not confirmed."""
    return old_among(approvals.grants(store.port, now=store.context.clock()))


def old_among(found: Iterable[Grant]) -> list[Grant]:
    """Those of some grants that were recorded here by a release up to 0.6, if they are not confirmed."""
    return [grant for grant in found if grant.state in ("foreign", "unconfirmed") and grant.is_old]


def _is_own(store: Store, path: str) -> bool:
    note(
        f"{path} is not on the list of your stores. Answer y if you made it with a release before 0.7, n if it came "
        "with something that you downloaded or cloned."
    )
    if not asks_yes("Is it yours?"):
        return False
    found = old_grants(store)
    for grant in found:
        note(f"  {grant_line(grant).plain}")
    keep = bool(found) and asks_yes(f"Keep {count(len(found), 'approval')} that it holds?")
    trust(store, old_grants=keep)
    return True
