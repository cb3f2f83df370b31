"""The list of the repositories that were met on this machine, in the user's data folder: which project each is.

A line for each, as JSON: where its git folder is, the file's inode and device, the commit its history begins with, and
the project. It says where sessions belong and gives no rights: a clone that shares a project only by its first commit
could be anyone's copy, so the project's approvals do not answer there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from stator.owner.folder import UserFolder, user_folder
from stator.owner.root_commit import GIVEN_UP, root_commit
from stator.worktrees import Repository

FILE = "repositories"
PRUNE_BYTES = 2**20
"""A longer list is shortened: lines of repositories that no longer exist are left out."""


class KnownRepository:
    """A line of the list."""

    __slots__ = ("common", "device", "inode", "joined", "project", "root")

    def __init__(
        self, common: str, inode: int, device: int, root: str, project: str, *, joined: bool
    ) -> None:
        self.common, self.inode, self.device = common, inode, device
        self.root, self.project = root, project
        self.joined = joined
        """Whether it has its project only because its first commit is that of another repository."""

    def line(self) -> bytes:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, sort_keys=True).encode() + b"\n"


class Repositories:
    """The list, as it is when it is asked."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._folder: UserFolder | None = user_folder(environ)

    def find(self, repository: Repository) -> KnownRepository | None:
        """The newest line about a repository: under the same name, or moved within its filesystem."""
        place = _identity(repository)
        if place is None:
            return None
        found = [line for line in self._lines() if line.inode == place[0]]
        return next(
            (
                line
                for line in reversed(found)
                if line.common == repository.common
                or (line.device == place[1] and not os.path.lexists(line.common))
            ),
            None,
        )

    def sharing(self, root: str) -> KnownRepository | None:
        """The first repository on the list whose history begins with a commit."""
        newest = {line.common: line for line in self._lines()}
        return next((line for line in newest.values() if root and line.root == root), None)

    def first_commit(self, repository: Repository, known: KnownRepository | None) -> str:
        """The commit that a repository begins with: as the list has it, else as git says; empty if unknown."""
        if known is not None and known.root:
            return known.root
        if self._folder is None:  # it could not be kept, and git would be asked each time
            return ""
        return root_commit(repository.common, repository.git, self._environ)

    def keep(
        self,
        repository: Repository,
        project: str,
        root: str,
        *,
        joined: bool = False,
    ) -> None:
        """Write down which project a repository is. Where that cannot be kept, it is found out again."""
        place = _identity(repository)
        if place is None or self._folder is None:
            return
        line = KnownRepository(repository.common, *place, root, project, joined=joined)
        try:
            self._folder.append(FILE, line.line())
            if os.stat(self._folder.file(FILE)).st_size > PRUNE_BYTES:
                self._folder.rewrite(FILE, _pruned)
        except OSError:
            return

    def _lines(self) -> list[KnownRepository]:
        try:
            data = self._folder.read(FILE) if self._folder is not None else None
        except OSError:  # another user could have written it
            return []
        return list(_parsed(data or b""))


def is_root(root: str) -> bool:
    """Whether a commit is known that a repository begins with."""
    return root not in ("", GIVEN_UP)


def _identity(repository: Repository) -> tuple[int, int] | None:
    try:
        found = os.stat(repository.common, follow_symlinks=False)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_dev


def _pruned(data: bytes) -> bytes:
    """The list without what no longer exists, and with the newest line about each repository."""
    newest = {line.common: line for line in _parsed(data) if os.path.lexists(line.common)}
    return b"".join(line.line() for line in newest.values())


def _parsed(data: bytes) -> Iterator[KnownRepository]:
    for line in data.splitlines():
        try:
            found: Any = json.loads(line)
            yield KnownRepository(
                str(found["common"]), int(found["inode"]), int(found["device"]),
                str(found["root"]), str(found["project"]), joined=bool(found["joined"]),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError):
            continue  # a line that was not written to its end
