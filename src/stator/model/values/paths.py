"""Paths as they are recorded: a root and a POSIX path under it. Nothing is looked up on disk."""

from __future__ import annotations

import posixpath

from stator.errors import InvalidInput

HOME = "~"


def split(path: str, root: str, folder: str = "") -> tuple[str, str]:
    """(root, path): "." and a relative path for a file under the session's root, else the path's
    own anchor; "~" for a path that names the home folder. `folder`: what a relative path is relative
    to, if that is not the root.

    Identity never depends on the machine: the same file in another checkout is the same record.
    """
    if not path or "\0" in path:
        raise InvalidInput("a file needs a path without NUL", path="$.path")
    clean = posixpath.normpath(path)
    if clean == HOME or clean.startswith(HOME + "/"):
        return HOME, clean
    if folder and posixpath.isabs(folder):
        clean = posixpath.normpath(posixpath.join(folder, clean))
    if not clean.startswith("/"):
        return (".", clean) if not clean.startswith("..") else ("..", clean)
    base = posixpath.normpath(root) if root else ""
    if base and (clean == base or clean.startswith(base.rstrip("/") + "/")):
        return ".", posixpath.relpath(clean, base)
    return "/", clean


def outside(root: str, path: str) -> str:
    """What must be said of a path's root beside the path: nothing, if the path is relative to the session's root or
    names its own, as an absolute path does."""
    return "" if root == "." or path.startswith(root) else f" in {root}"
