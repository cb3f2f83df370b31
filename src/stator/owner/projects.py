"""Which project a folder is, and whether it is this user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from stator.locations import FOLDER
from stator.owner import standing
from stator.owner.register import PROJECT, Listed
from stator.owner.regular_file import read_regular

FILE = "project"
SIZE_MAX = 4096
ID = re.compile(r"[!-~]{1,200}")
"""What the id of a project that is written down looks like."""


def written_id(root: Path) -> str:
    """The id that `init` wrote for the project in a folder; empty without one."""
    try:
        return read_regular(root / FOLDER / FILE, SIZE_MAX).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def project_of(
    environ: Mapping[str, str], root: Path, store: str, *, is_store_own: bool
) -> tuple[str, bool]:
    """The id of the project in a folder, and whether the project is this user's own; `store` is the path of the
    store in use, if it is a file.

    An id from a file of unknown origin counts only in the store beside that file: in a store of the user's own it
    could claim to be another project of theirs, and get what was approved there.
    """
    id = written_id(root)
    if not id:
        return str(root), False
    folder = root / FOLDER
    beside = os.path.dirname(standing.unlinked(str(folder / FILE)))
    is_beside = bool(store) and os.path.dirname(os.path.realpath(store)) == beside
    is_own = (is_beside and is_store_own) or standing.is_own_project(
        environ, str(folder / FILE), id
    )
    return (id if is_own or is_beside else str(root)), is_own


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
