"""Says in `stator doctor` which sessions of an agent are not recorded, why, and which command imports them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from stator.connect import spools
from stator.hooks.unrecorded import MissingSession, MissingSessions, missing_sessions
from stator.model.log.query import Finding
from stator.runtime.facade.store import Store
from stator.surfaces.cli.render.record_line import count, size

CHECK = "missing"
LISTED = 3


def missing_findings(store: Store) -> Iterator[Finding]:
    """A finding for each agent and reason."""
    home = Path(os.path.expanduser("~"))
    found = missing_sessions(
        store.port, store.context, home, os.environ, spools=spools(store.port)
    ).sessions
    found.sort(key=_group)
    for (agent, why, is_cut), group in groupby(found, key=_group):
        sessions = list(group)
        number = count(len(sessions), "session")
        lacks = "not recorded to the end" if is_cut else "not recorded"
        yield Finding(
            what=f"{number} of {agent} in this project: {lacks}; {why}: {_named(sessions)}",
            check=CHECK,
            severity="warning" if any(one.is_expected for one in sessions) else "note",
            hint=f"import what is missing: {MissingSessions(sessions=sessions).command()}",
        )


def _group(session: MissingSession) -> tuple[str, str, bool]:
    return session.agent, session.why, bool(session.read)


def _named(sessions: list[MissingSession]) -> str:
    newest = sorted(sessions, key=lambda one: -one.changed)
    shown = [f"{one.id} ({size(one.size - one.read)})" for one in newest[:LISTED]]
    more = len(sessions) - LISTED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
