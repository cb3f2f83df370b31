"""Answers whose the lines of a file are, also where the record has the file under the path of another checkout."""

from __future__ import annotations

import msgspec

from stator.model.values import paths
from stator.runtime.views.authors.blame import Blame, blame_file
from stator.runtime.views.reasons.lookup import Lookup
from stator.runtime.views.reasons.recorded_names import paths_ending
from stator.store.port import StorePort

OTHERS_MAX = 5
"""More paths that are named."""


def whose_lines(
    store: StorePort,
    path: str,
    root: str,
    *,
    session: str | None,
    project: str | None,
    now: str | None,
) -> Blame:
    """Where the lines of a file come from; of a path that is not recorded, those of the one that ends so."""
    found = blame_file(store, path, root, session=session, project=project, now=now)
    if found.sessions or root != ".":
        return found
    reading = Lookup(store, project=None if session else project, session=session)
    ending = paths_ending(reading, path)
    if not ending:
        return found
    root, same = paths.split(ending[0], "")
    made = blame_file(store, same, root, session=session, project=project, now=now)
    return msgspec.structs.replace(made, asked=path, others=ending[1 : OTHERS_MAX + 1])
