"""Asks git for the commit that a repository's history begins with: clones have the same one.

The repository may be anyone's. Git is asked one question about its commits, with nothing that its settings could make
it run, no network, and little time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

TIMEOUT_S = 1.0
GIVEN_UP = "?"
"""Git did not answer in time; it is not asked again."""
SHALLOW = "shallow"
"""The file of a repository that lacks its oldest commits."""
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SETTINGS = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "core.packedGitLimit=512m",
)  # fmt: skip
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}


def root_commit(common: str, git: str, environ: Mapping[str, str]) -> str:
    """The first commit of a repository, following first parents from its HEAD, else from that of a worktree's git
    folder. Empty if there is none yet or the repository lacks it; `GIVEN_UP` if git does not answer in time.
    """
    for folder in dict.fromkeys((common if os.path.isdir(common) else git, git)):
        if os.path.lexists(os.path.join(folder, SHALLOW)):
            return ""
        found = _asked(folder, environ)
        if found:
            return found
    return ""


def _asked(folder: str, environ: Mapping[str, str]) -> str:
    import subprocess  # takes a while to load, and is needed once for each repository

    options = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = ["git", "--no-pager", "--no-replace-objects", f"--git-dir={folder}", *options]
    command += ["rev-list", "--first-parent", "--max-parents=0", "HEAD", "--"]
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            env={"PATH": environ.get("PATH", os.defpath), **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:  # there is no git here
        return GIVEN_UP
    with process:
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return GIVEN_UP
    lines = said.decode("ascii", "replace").split()
    return lines[-1] if lines and _ID.fullmatch(lines[-1]) else ""
