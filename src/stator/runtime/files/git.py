"""Asks git about the folder an agent works in: HEAD, branch, and a digest of what is not committed."""

from __future__ import annotations

import os
from collections.abc import Iterable

from stator.model.values.digest import sha256

TIMEOUT_S = 5.0


def facts(root: str) -> dict[str, str] | None:
    """HEAD, branch and dirty digest; None without git (or if it does not answer in time)."""
    status = _git(root, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "-z")
    if status is None:
        return None
    lines = status.split("\0")
    said = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    changes = "\0".join(line for line in lines if not line.startswith("# "))
    return {
        "head": said.get("branch.oid", ""),
        "branch": said.get("branch.head", ""),
        "dirty": sha256(changes.encode("utf-8", "surrogateescape")).hexdigest() if changes else "",
    }


def place(root: str) -> dict[str, str] | None:
    """HEAD and branch alone, in one quick call; None without git or without a commit."""
    said = _git(root, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    found = said.split("\n") if said is not None else []
    if len(found) < 2:
        return None
    return {"head": found[0], "branch": "(detached)" if found[1] == "HEAD" else found[1]}


def in_git(root: str) -> bool:
    """Whether a folder is in a git work tree."""
    return top(root) is not None


def top(root: str) -> str | None:
    """The root of the git work tree that contains a folder."""
    folder = os.path.abspath(root)
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def ignored(root: str, paths: Iterable[str]) -> set[str] | None:
    """Which of some absolute paths in a work tree git ignores; None where it does not say."""
    given = "\0".join(paths).encode("utf-8", "surrogateescape")
    said = _git(root, "check-ignore", "-z", "--stdin", given=given, fine=(0, 1))
    return None if said is None else set(said.split("\0")) - {""}


def _git(
    root: str, *arguments: str, given: bytes | None = None, fine: tuple[int, ...] = (0,)
) -> str | None:
    import subprocess  # takes a while to load, and only a turn that ends in a work tree needs it

    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=root,
            input=given,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode in fine else None
