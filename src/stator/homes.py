"""Says which project a folder of this machine is in a store, and where that project's own folder is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from stator.model.log.query import SessionQuery
from stator.owner.projects import Project, StoreInUse, is_marked, project_of, project_root
from stator.store.port import StorePort

Home = tuple[str, str]
"""The id of a project, and its folder."""


def project_in(environ: Mapping[str, str], root: Path, store: StorePort | None) -> Project:
    """The project in a folder, as it is called in a store."""
    if store is None:
        return project_of(environ, root, StoreInUse())
    in_use = StoreInUse(
        store.ownership.path,
        is_own=not store.ownership.foreign,
        is_recorded=lambda id: _is_recorded(store, id),
    )
    return project_of(environ, root, in_use)


def home_of(environ: Mapping[str, str], folder: str, store: StorePort) -> Home | None:
    """The project that a folder belongs to. Of a folder that is gone, the project around it, or the one that was
    recorded under its path; None if there is neither."""
    if not os.path.isabs(folder) or "\0" in folder:
        return None
    is_gone = not os.path.isdir(folder)
    if is_gone and _is_recorded(store, folder):
        return folder, folder
    there = next(one for one in (Path(folder), *Path(folder).parents) if os.path.isdir(one))
    root = project_root(there)
    if is_gone and not is_marked(root):
        return None
    return project_in(environ, root, store).id, str(root)


def homes(
    environ: Mapping[str, str], store: StorePort | None, root: str, project: str | None
) -> Callable[[str], Home | None]:
    """A function that finds the project of any folder. In the folder `root` it is the one that a program named."""

    def found(folder: str) -> Home | None:
        home = None if store is None else home_of(environ, folder, store)
        return (project, root) if home and home[1] == root and project is not None else home

    return found


def _is_recorded(store: StorePort, project: str) -> bool:
    return bool(store.sessions(SessionQuery(project=project), limit=1).rows)
