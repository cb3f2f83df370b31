"""Paths as they are recorded: a root and a POSIX path under it. Nothing is looked up on disk."""

from __future__ import annotations

import posixpath
from pathlib import PurePath

from stator.errors import InvalidInput


def split(path: str, root: str) -> tuple[str, str]:
    """(root, path): "." and a relative path for what lies under the session's root, else the path's
    own anchor.

    Identity never depends on the machine: the same file in another checkout is the same record.
    """
    if not path or "\0" in path:
        raise InvalidInput("a file needs a path without NUL", path="$.path")
    posix = PurePath(path).as_posix()
    if not posixpath.isabs(posix):
        clean = posixpath.normpath(posix)
        return (".", clean) if not clean.startswith("..") else ("..", clean)
    base = posixpath.normpath(PurePath(root).as_posix()) if root else ""
    clean = posixpath.normpath(posix)
    if base and (clean == base or clean.startswith(base.rstrip("/") + "/")):
        return ".", posixpath.relpath(clean, base)
    return "/", clean
