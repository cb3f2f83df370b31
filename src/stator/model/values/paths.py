"""Paths as they are recorded: a root and a POSIX path under it. Nothing is looked up on disk."""

from __future__ import annotations

import posixpath

from stator.errors import InvalidInput


def split(path: str, root: str) -> tuple[str, str]:
    """(root, path): "." and a relative path for a file under the session's root, else the path's
    own anchor.

    Identity never depends on the machine: the same file in another checkout is the same record.
    """
    if not path or "\0" in path:
        raise InvalidInput("a file needs a path without NUL", path="$.path")
    clean = posixpath.normpath(path)
    if not posixpath.isabs(clean):
        return (".", clean) if not clean.startswith("..") else ("..", clean)
    base = posixpath.normpath(root) if root else ""
    if base and (clean == base or clean.startswith(base.rstrip("/") + "/")):
        return ".", posixpath.relpath(clean, base)
    return "/", clean
