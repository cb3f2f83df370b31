"""Real git repositories for tests: made, cloned, and with worktrees."""

from __future__ import annotations

import os
import subprocess

ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder, *arguments):
    """Run git in a folder; what it prints."""
    command = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        [*command, *map(str, arguments)], cwd=folder, env={**os.environ, **ENVIRONMENT},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def made(folder, *, first="begin", commits=2):
    """A repository with a few commits. Its first commit differs from that of others, in other tests too."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for number in range(commits):
        (folder / "README.md").write_text(f"{first} {number}\n")
        git(folder, "add", "README.md")
        git(folder, "commit", "-q", "-m", f"{first} {number} in {folder}")
    return folder


def cloned(origin, folder, *options):
    git(origin.parent, "clone", "-q", *options, f"file://{origin}", folder)
    return folder


def worktree(origin, folder, branch):
    git(origin, "worktree", "add", "-q", "-b", branch, folder)
    return folder
