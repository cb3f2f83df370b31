"""What git says of the folder an agent works in: HEAD, branch, and a digest of what is not committed."""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256

TIMEOUT_S = 5.0


def facts(root: str) -> dict[str, str] | None:
    """HEAD, branch and dirty digest, or None where there is no git (or it does not answer in time)."""
    if not _in_git(root):
        return None
    head = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain=v1", "-z", "--untracked-files=normal")
    if status is None:
        return None
    branch = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    return {
        "head": (head or "").strip(),
        "branch": (branch or "").strip(),
        "dirty": sha256(status.encode("utf-8", "surrogateescape")).hexdigest() if status else "",
    }


def _in_git(root: str) -> bool:
    folder = os.path.abspath(root)
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _git(root: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=root,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
