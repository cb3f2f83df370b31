"""Finds out from git's own files which checkouts belong to one repository; imports nothing that takes time to load.

A linked worktree names its repository in a file, and anybody can write such a file into a folder. It counts only if
the repository names the worktree in return: a folder that was unpacked cannot claim to be part of a repository of
the user's own. No program is run, and only regular files are read.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from collections.abc import Iterator

GIT = ".git"
LINKED = "worktrees"
"""The folder of a repository in which it keeps its linked worktrees."""
FILE_MAX = 4096
"""Bytes of one of git's small files that are read."""
LISTED_MAX = 64
"""Linked worktrees of a repository that are looked at."""
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class Repository:
    """The repository of a checkout."""

    __slots__ = ("common", "git", "home", "tree")

    def __init__(self, tree: str, git: str, common: str, home: str) -> None:
        self.tree = tree
        """The checkout that was asked about, without links."""
        self.git = git
        """Its git folder."""
        self.common = common
        """What all checkouts of the repository share; of a checkout that shares nothing, its own `.git`."""
        self.home = home
        """The main checkout; of a bare repository, the repository itself."""

    @property
    def is_linked(self) -> bool:
        """Whether the checkout is a worktree that was added to a repository elsewhere."""
        return os.path.dirname(self.git) == os.path.join(self.common, LINKED)

    @property
    def has_main(self) -> bool:
        """Whether there is a main checkout; a bare repository has only linked ones."""
        return self.home != self.common


def repository_at(folder: str) -> Repository | None:
    """The repository whose checkout begins in this folder; None if none does."""
    tree = os.path.realpath(folder)
    path = os.path.join(tree, GIT)
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(mode):
        return Repository(tree, path, path, tree)
    if stat.S_ISLNK(mode):  # it may lead to the repository of another project
        return Repository(tree, os.path.realpath(path), path, tree)
    given = _small(path)
    if not given.startswith("gitdir:"):
        return None
    git = os.path.realpath(os.path.join(tree, given[len("gitdir:") :].strip()))
    above, name = os.path.split(os.path.dirname(git))
    if name == LINKED and _tree_of(git) == tree and _common_of(git) == above:
        home = os.path.dirname(above) if os.path.basename(above) == GIT else above
        return Repository(tree, git, above, home)
    return Repository(tree, git, path, tree)  # a submodule, or a claim


def repository_around(folder: str) -> Repository | None:
    """The repository of the nearest checkout upward."""
    here = os.path.realpath(folder)
    while True:
        found = repository_at(here)
        above = os.path.dirname(here)
        if found is not None or above == here:
            return found
        here = above


def linked_trees(common: str) -> Iterator[str]:
    """The worktrees that were added to a repository, as far as they are there."""
    folder = os.path.join(common, LINKED)
    try:
        names = sorted(os.listdir(folder))[:LISTED_MAX]
    except OSError:
        return
    for name in names:
        tree = _tree_of(os.path.join(folder, name))
        found = repository_at(tree) if tree else None
        if found is not None and found.common == common:
            yield tree


def _tree_of(git: str) -> str:
    """The worktree that a git folder belongs to, as its repository says."""
    given = _small(os.path.join(git, "gitdir"))
    return os.path.dirname(os.path.realpath(os.path.join(git, given))) if given else ""


def _common_of(git: str) -> str:
    given = _small(os.path.join(git, "commondir"))
    return os.path.realpath(os.path.join(git, given)) if given else ""


def _small(path: str) -> str:
    """What a small file holds, without the white space around it; empty if it is no regular file."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.fsdecode(os.read(descriptor, FILE_MAX)).strip().replace("\0", "")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
