"""Reads what git printed about the working tree: how it was left, and which files git knew. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from stator.model.brief.story import CLEAN, GONE_AGAIN, Deed, NetFile, is_web

PATHS_SHOWN = 6
_MOVES = frozenset("commit checkout switch merge rebase reset stash pull restore add".split())
"""Verbs of git after which a `git status` is obsolete."""
_BRANCH = re.compile(r"^On branch (\S+)$|^## (\S+?)(?:\.\.\.|$)", re.MULTILINE)
_TRACKS = re.compile(
    r"^Your branch (is up to date with|is ahead of|is behind|and) '(\S+?)'(?: by (\d+))?|\.\.\.(\S+)( \[[^\]]+\])?$",
    re.MULTILINE,
)
_CHANGED = re.compile(
    r"^\t(?:modified|new file|deleted|renamed|both modified):\s+(.+)$|^(?:[ MADRCU?]{2}) (\S.*)$",
    re.MULTILINE,
)
_UNTRACKED = re.compile(r"^Untracked files:\n(?:\s+\(.*\)\n)?((?:\t.+\n?)+)", re.MULTILINE)
_KNEW = re.compile(r"^\tmodified:\s+(.+)$|^(?: M|M |MM) (\S.*)$", re.MULTILINE)
_ADDED = re.compile(r"^\tnew file:\s+(.+)$|^(?:A |AM) (\S.*)$", re.MULTILINE)
_DELETED = re.compile(r"^\tdeleted:\s+(.+)$|^(?: D|D ) (\S.*)$", re.MULTILINE)


def as_git_shows(files: Sequence[NetFile], deeds: Sequence[Deed]) -> list[NetFile]:
    """Files as a later `git status` shows them: deleted, or *modified* where a call created one and git knew it before
    anything was added to a revision, so that the call wrote over a file that was there."""
    known: set[str] = set()
    deleted: dict[str, int] = {}
    is_moved = False
    for deed in deeds:
        verbs = [words[1] for words in deed.steps if words[0] == "git" and len(words) > 1]
        is_moved = is_moved or bool(_MOVES & set(verbs))
        if deed.status != "ok" or verbs[-1:] != ["status"] or is_web(deed):
            continue
        deleted |= dict.fromkeys(_paths(_DELETED, deed.result), deed.seq)
        if not is_moved:
            known |= _paths(_KNEW, deed.result) - _paths(_ADDED, deed.result)
    found = []
    for one in files:
        later = (seq for path, seq in deleted.items() if _is_at(one, path))
        if one.op != GONE_AGAIN and max(later, default=0) > (one.changed or one.seq):
            one = msgspec.structs.replace(one, op="deleted")
        elif one.op == "created" and any(_is_at(one, path) for path in known):
            one = msgspec.structs.replace(one, op="modified")
        found.append(one)
    return found


def _paths(pattern: re.Pattern[str], shown: str) -> set[str]:
    return {(found[1] or found[2]).strip() for found in pattern.finditer(shown)}


def _is_at(one: NetFile, path: str) -> bool:
    return f"/{one.path}".endswith(f"/{path}")


def left_as(deeds: Sequence[Deed]) -> tuple[str, Deed] | None:
    """How the newest `git status` shows the working tree: the branch, what it follows, and what is not committed."""
    for deed in reversed(deeds):
        verbs = [words[1] for words in deed.steps if words[0] == "git" and len(words) > 1]
        if deed.status == "ok" and verbs[-1:] == ["status"] and not is_web(deed):
            text = _status(deed.result)
            return (text, deed) if ", " in text else None
        if _MOVES & set(verbs):
            return None
    return None


def _status(shown: str) -> str:
    parts: list[str] = []
    if branch := _BRANCH.search(shown):
        parts.append(f"on {branch[1] or branch[2]}")
    if track := _TRACKS.search(shown):
        if track[2]:
            by = f" by {track[3]}" if track[3] else ""
            parts.append(
                f"{track[1].removeprefix('is ').replace('and', 'diverged from')} {track[2]}{by}"
            )
        else:
            parts.append(f"follows {track[4]}{track[5] or ''}")
    paths = [(one or other).strip() for one, other in _CHANGED.findall(shown)]
    for block in _UNTRACKED.findall(shown):
        paths += [line.strip() for line in block.split("\n") if line.strip()]
    if paths := list(dict.fromkeys(paths)):
        more = f" and {len(paths) - PATHS_SHOWN} more" if len(paths) > PATHS_SHOWN else ""
        parts.append(f"not committed: {', '.join(paths[:PATHS_SHOWN])}{more}")
    elif CLEAN.search(shown):
        parts.append("clean")
    return ", ".join(parts)
