"""Which project a folder is, and whether it is this user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from stator.locations import FOLDER
from stator.owner import standing
from stator.owner.register import PROJECT, Listed
from stator.owner.regular_file import read_regular
from stator.owner.repositories import Repositories, is_root
from stator.worktrees import Repository, linked_trees, repository_around, repository_at

FILE = "project"
SIZE_MAX = 4096
PREFIX = "p_"
"""How an id begins that `init` made; other ids are paths of folders, or names of sources."""
ID = re.compile(r"[!-~]{1,200}")
"""What the id of a project that is written down looks like."""


def written_id(root: Path) -> str:
    """The id that `init` wrote for the project in a folder; empty without one."""
    try:
        return read_regular(root / FOLDER / FILE, SIZE_MAX).decode("utf-8", "replace").strip()
    except OSError:
        return ""


class Project:
    """Which project a folder is, and what that gives."""

    __slots__ = ("id", "is_joined", "is_own")

    def __init__(self, id: str, *, is_own: bool = False, is_joined: bool = False) -> None:
        self.id = id
        self.is_own = is_own
        """Whether the project is this user's own: then its policy file may allow."""
        self.is_joined = is_joined
        """Whether the folder belongs to it only as a clone: its history begins with the same commit. It could be
        anyone's copy, so what was approved in the project does not answer there."""


class StoreInUse:
    """The store that a project is looked for in."""

    __slots__ = ("is_own", "is_recorded", "path")

    def __init__(
        self,
        path: str = "",
        *,
        is_own: bool = False,
        is_recorded: Callable[[str], bool] = lambda id: False,
    ) -> None:
        self.path = path
        """Empty if it is no file."""
        self.is_own = is_own
        self.is_recorded = is_recorded
        """Whether it has a session of the project with an id."""


def project_root(start: Path) -> Path:
    """The folder of a project: the checkout of a repository, or where `.stator/project` is, else the folder itself.

    A repository inside another one, as a submodule, is a project of its own. A `.stator/project` in a folder that is
    in no repository makes one project of everything below it.
    """
    here = start.absolute()
    tree: Path | None = None
    for folder in (here, *here.parents):
        if os.path.exists(folder / FOLDER / FILE):
            is_around = tree is not None and repository_around(str(folder)) is not None
            return tree if is_around and tree is not None else folder
        if tree is None and os.path.exists(folder / ".git"):
            tree = folder
    return tree or here


def is_marked(root: Path) -> bool:
    """Whether a folder is more than a folder: a checkout, or a project that `init` made."""
    return os.path.exists(root / ".git") or os.path.exists(root / FOLDER / FILE)


def project_of(environ: Mapping[str, str], root: Path, store: StoreInUse) -> Project:
    """The project in a folder: the one that `init` wrote down, else the repository's, else the folder.

    An id from a file of unknown origin counts only in the store beside that file: in a store of the user's own it
    could claim to be another project of theirs, and get what was approved there.
    """
    written = _written(environ, root, store)
    repository = repository_at(str(root))
    if repository is None:
        return written or Project(str(root))
    if written is not None:
        if written.is_own and not repository.is_linked:
            _keep(environ, repository, written.id)
        return written
    if repository.is_linked and store.is_recorded(str(root)):
        return Project(str(root))  # as releases up to 0.7 called it
    return _of_repository(environ, root, repository, store)


def _written(environ: Mapping[str, str], root: Path, store: StoreInUse) -> Project | None:
    """The project that is written down in a folder, if the file counts here."""
    id = written_id(root)
    if not id:
        return None
    folder = root / FOLDER
    beside = os.path.dirname(standing.unlinked(str(folder / FILE)))
    is_beside = bool(store.path) and os.path.dirname(os.path.realpath(store.path)) == beside
    is_own = (is_beside and store.is_own) or standing.is_own_project(
        environ, str(folder / FILE), id
    )
    return Project(id, is_own=is_own) if is_own or is_beside else None


def _of_repository(
    environ: Mapping[str, str], root: Path, repository: Repository, store: StoreInUse
) -> Project:
    """The project that all checkouts of a repository share; a clone has that of the repository that was seen first."""
    trees = [repository.home] if repository.has_main else list(linked_trees(repository.common))
    for tree in trees if repository.is_linked else ():
        if (written := _written(environ, Path(tree), store)) is not None:
            return written
    home = repository.home if repository.is_linked else str(root)
    repositories = Repositories(environ)
    known = repositories.find(repository)
    first = repositories.first_commit(repository, known)
    recorded = next((id for id in (home, *trees) if store.is_recorded(id)), "")
    shared = repositories.sharing(first) if is_root(first) and known is None else None
    found = Project(home)
    if recorded:
        found = Project(recorded)
    elif known is not None:
        found = Project(known.project, is_joined=known.joined)
    elif shared is not None:
        found = Project(shared.project, is_joined=True)
    is_moved = known is not None and known.common != repository.common
    if known is None or is_moved or (first and not known.root):
        repositories.keep(repository, found.id, first, joined=found.is_joined)
    return found


def _keep(environ: Mapping[str, str], repository: Repository, id: str) -> None:
    """Write down which project a repository is, so that its clones are found to belong to it."""
    repositories = Repositories(environ)
    known = repositories.find(repository)
    first = repositories.first_commit(repository, known)
    if known is None or known.project != id or known.root != first:
        repositories.keep(repository, id, first)


def id_for_new(environ: Mapping[str, str], root: Path) -> str:
    """The id that a new project in a folder shares with other checkouts of its repository; empty if there is none."""
    id = project_of(environ, root, StoreInUse()).id
    return id if id.startswith(PREFIX) and ID.fullmatch(id) else ""


def folder_of(environ: Mapping[str, str], id: str) -> str:
    """Where the project is that `init` gave an id and this user made or trusted; empty if that is not known."""
    register = standing.register_of(environ) if id.startswith(PREFIX) else None
    listed = register.by_id(PROJECT, id) if register is not None else []
    return os.path.dirname(os.path.dirname(listed[-1].path)) if listed else ""


def trust_project(environ: Mapping[str, str], root: Path) -> bool:
    """Write the project in a folder down as this user's own; False if the folder names none, or the list cannot be
    written."""
    id, path = written_id(root), standing.unlinked(str(root / FOLDER / FILE))
    register = standing.register_of(environ)
    if register is None or not ID.fullmatch(id):
        return False
    file = os.stat(path)
    try:
        register.add(Listed(PROJECT, id, file.st_ino, file.st_dev, "", path))
    except OSError:  # a home folder that cannot be written
        return False
    return True
