"""Decides whether a store, or the `.stator` folder of a project, is this user's own.

It is, if the user made it or trusted it on this machine, and git does not bring it. A copy, a file that was put in
the place of another, and everything of unknown origin is foreign.
"""

from __future__ import annotations

import os

from stator.owner.folder import KEY_VARIABLE, user_folder
from stator.owner.register import CONFIRMED, PROJECT, STORE, Listed, Register

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TRACKED = "is tracked by git, or a file that belongs to it is, so that others can replace it"
UNKNOWN = "is not on the list of your stores"
REPLACED = "is not the file that you made or trusted there: it was replaced"
COPIED = "is a copy of a store of yours"
LINKED = "is a link to a store of yours elsewhere"
HOMELESS = "cannot be known as yours, because there is no home folder ($STATOR_OWNER_KEY helps)"


class StoreStanding:
    """What a store is to this user."""

    __slots__ = ("foreign", "moved", "old_grants")

    def __init__(self, foreign: str = "", *, old_grants: bool = False, moved: bool = False) -> None:
        self.foreign = foreign
        """Why it is foreign; empty if it is the user's own."""
        self.old_grants = old_grants
        """Whether the grants that releases up to 0.6 recorded in it count."""
        self.moved = moved
        """The same file, under another name than before."""


def of_store(
    environ: Mapping[str, str], path: str, id: str, *, named: bool, trust: bool = False
) -> StoreStanding:
    """What the store at a path is; `named`: the program or the person named it, it was not only found."""
    real = os.path.realpath(path)
    if trust:
        return StoreStanding()
    if is_brought_by_git(path):
        return StoreStanding(TRACKED)
    if is_at_home(environ, real):
        return StoreStanding(old_grants=True)
    if named and environ.get(KEY_VARIABLE):
        return StoreStanding()
    register = register_of(environ)
    if register is None:
        return StoreStanding(HOMELESS)
    try:
        return _listed(register.by_id(STORE, id), real, real if named else unlinked(path))
    except OSError as error:
        hint = " (make it your own: chown, chmod 600)" * isinstance(error, PermissionError)
        return StoreStanding(f"cannot be looked up in {error.filename}: {error.strerror}{hint}")


def unlinked(path: str) -> str:
    """The path of a file in a project's `.stator` folder, with links followed up to the project, and none after."""
    folder, name = os.path.split(os.path.abspath(path))
    root, folder_name = os.path.split(folder)
    return os.path.join(os.path.realpath(root), folder_name, name)


def _listed(lines: list[Listed], real: str, met: str) -> StoreStanding:
    """What the list says of a file; `met` is the path under which it was found."""
    file = os.stat(real)
    fitting = [line for line in lines if line.is_file(real, file.st_ino, file.st_dev)]
    is_link = met != real or _is_hard_link(file, real, fitting)
    if fitting and is_link and all(line.path != met for line in fitting):
        # A project that links to another one's folder would get what was approved there.
        return StoreStanding(LINKED)
    if fitting:
        return StoreStanding(
            old_grants=any(line.remark == CONFIRMED for line in fitting),
            moved=all(line.path not in (real, met) for line in fitting),
        )
    if any(line.path == real for line in lines):
        return StoreStanding(REPLACED)
    if lines:
        return StoreStanding(f"{COPIED} ({lines[-1].path})")
    return StoreStanding(UNKNOWN)


def _is_hard_link(file: os.stat_result, path: str, fitting: list[Listed]) -> bool:
    """Whether a file has other names, and this is none of those on the list: it need not have been moved."""
    return file.st_nlink > 1 and all(line.path != path for line in fitting)


def is_own_spool(environ: Mapping[str, str], path: str, *, named: bool) -> bool:
    """Whether hooks may write beside the store at a path: the same question, without opening the store."""
    real = os.path.realpath(path)
    if is_at_home(environ, real):
        return True
    register = register_of(environ)
    try:
        file = os.stat(real)
    except FileNotFoundError:
        return register is None  # no store is made where lines of unknown origin wait for it
    if named and environ.get(KEY_VARIABLE):
        return True
    if register is None:
        return False
    lines = register.by_path(STORE, real) or register.by_file(STORE, file.st_ino, file.st_dev)
    return any(line.is_file(real, file.st_ino, file.st_dev) for line in lines)


def is_own_project(environ: Mapping[str, str], path: str, id: str) -> bool:
    """Whether this user wrote the file that names a project, and neither git nor a link brings it."""
    met = unlinked(path)
    register = register_of(environ)
    if register is None or is_brought_by_git(path):
        return False
    try:
        file = os.stat(met)
        lines = register.by_id(PROJECT, id)
    except OSError:
        return False
    fitting = [line for line in lines if line.is_file(met, file.st_ino, file.st_dev)]
    return any(line.path == met for line in fitting) or (
        bool(fitting) and met == os.path.realpath(path) and not _is_hard_link(file, met, fitting)
    )


def is_brought_by_git(path: str) -> bool:
    """Whether git tracks a file, under the name that is given or under its own."""
    from stator.owner.git_index import is_tracked  # the hook does without it

    return is_tracked(path) or is_tracked(os.path.realpath(path))


def is_at_home(environ: Mapping[str, str], real: str) -> bool:
    """Whether a file is in the user's data folder."""
    folder = user_folder(environ)
    if folder is None:
        return False
    return real.startswith(os.path.realpath(folder.path) + os.sep)


def register_of(environ: Mapping[str, str]) -> Register | None:
    """The list of the user's stores; None where there is no folder for it."""
    folder = user_folder(environ)
    return None if folder is None else Register(folder)
