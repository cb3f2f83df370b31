"""What this user is to a store that a program opens, and writing stores down as the user's own."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping

from stator.errors import ForeignStore, NoOwner, NotAStore
from stator.locations import spool_of, waits
from stator.model.sessions.ownership import Ownership
from stator.owner import standing
from stator.owner.folder import KEY_VARIABLE
from stator.owner.key import owner_key
from stator.owner.register import CONFIRMED, DECLINED, PROJECT, STORE, Listed

LOGS = ("-wal", "-journal")
"""The files beside a store that SQLite writes into it when it is opened."""
RUNS = "-runs"
_made: set[tuple[str, str]] = set()
"""Stores that this process made and could not write down: path and id."""


def ownership(
    environ: Mapping[str, str], path: str, id: str, *, was_found: bool, trust: bool = False
) -> Ownership:
    """What this user is to the store with an id. `path` is empty for a store on a server: it belongs to the role of
    its connection, and who names its URL trusts it."""
    key = functools.cache(lambda make: owner_key(environ, make=make))
    if not path:
        return Ownership(key=key, old_grants=False)
    real = os.path.realpath(path)
    found = standing.of_store(
        environ, path, id, named=not was_found, trust=trust or (real, id) in _made
    )
    if found.moved:
        with contextlib.suppress(OSError):  # the file is known by its inode as well
            _add(environ, real, id, os.stat(real), old_grants=found.old_grants)
    return Ownership(
        found.foreign, path=path, was_found=was_found, old_grants=found.old_grants, key=key
    )


def check_place(environ: Mapping[str, str], path: str) -> None:
    """Refuse to make a store where files of unknown origin would become part of it: a log that SQLite writes into it,
    lines of hooks, recorded commands."""
    real = os.path.realpath(path)
    if standing.is_at_home(environ, real):
        return
    beside = [real + end for end in LOGS if _has_content(real + end)]
    if standing.register_of(environ) is not None and waits(spool_of(real)):
        beside.append(spool_of(real))
    with contextlib.suppress(OSError):
        if os.listdir(real + RUNS):
            beside.append(real + RUNS)
    # If there is a store by now, another process was faster, and they are its own.
    if beside and not os.path.lexists(path):
        raise NotAStore(
            f"{path}: cannot be created: {beside[0]} is there already, of unknown origin or from a store that is gone",
            hint="move it away",
            store=path,
        )


def _has_content(path: str) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False


def announced(environ: Mapping[str, str], path: str) -> Callable[[str, os.stat_result], None]:
    """A function that writes a new store down as this user's own, given its id and its file."""

    def announce(id: str, file: os.stat_result) -> None:
        real = os.path.realpath(path)
        if standing.is_at_home(environ, real):
            return
        try:
            _add(environ, real, id, file, old_grants=False)
        except (
            OSError
        ):  # a home folder that cannot be written: the store is ours while this process lives
            _made.add((real, id))

    return announce


def trust_store(environ: Mapping[str, str], path: str, id: str, *, old_grants: bool) -> None:
    """Write a store down as this user's own; `old_grants`: with the grants that releases up to 0.6 recorded."""
    real = os.path.realpath(path)
    if standing.is_brought_by_git(path):
        raise ForeignStore(
            f"{path} {standing.TRACKED}: it cannot be trusted",
            hint=f"git rm --cached -r '{path}*', then stator trust",
            store=path,
        )
    try:
        for place in {real, standing.unlinked(path)}:
            _add(environ, place, id, os.stat(real), old_grants=old_grants)
    except OSError as error:
        raise NoOwner(
            f"{path} cannot be written down as yours: {error.strerror}",
            hint=f"set {KEY_VARIABLE} and name the store, or use connect(..., trust=True)",
            store=path,
        ) from None


def withdraw_trust(environ: Mapping[str, str], path: str, id: str) -> None:
    """Take a store off the list: from now on it is foreign."""
    register = standing.register_of(environ)
    if register is not None and register.by_id(STORE, id):
        register.withdraw(STORE, id, os.path.realpath(path))


def decline_store(environ: Mapping[str, str], path: str, id: str) -> None:
    """Write down that the user was asked whether a store is theirs, and said no: they are not asked again."""
    register = standing.register_of(environ)
    if register is not None:
        with contextlib.suppress(OSError):  # then the question comes again
            register.add(Listed(DECLINED, id, 0, 0, "", os.path.realpath(path)))


def is_declined(environ: Mapping[str, str], id: str) -> bool:
    """Whether that was written down."""
    register = standing.register_of(environ)
    return register is not None and bool(register.by_id(DECLINED, id))


def listed(environ: Mapping[str, str]) -> list[Listed]:
    """The stores and projects on the list."""
    register = standing.register_of(environ)
    found = register.everything() if register is not None else []
    return [line for line in found if line.kind in (STORE, PROJECT)]


def _add(
    environ: Mapping[str, str], real: str, id: str, file: os.stat_result, *, old_grants: bool
) -> None:
    register = standing.register_of(environ)
    if register is None:
        raise FileNotFoundError(2, "there is no home folder")
    remark = CONFIRMED if old_grants else ""
    register.add(Listed(STORE, id, file.st_ino, file.st_dev, remark, real))
