"""Finds what calls taught: what failed and then worked in another way, and how the working tree was left. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from stator.model.brief.command_words import LOOKERS, check_in, gist
from stator.model.brief.condense import beginning
from stator.model.brief.story import DID_NOT_WORK, Deed, failure, is_web

SOON = 12
"""Calls after a failure among which the one is that worked instead."""
WAY_SHOWN = 110
"""Characters of a command that is shown."""
WHY_SHOWN = 100
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
_CLEAN = re.compile(r"working tree clean|nothing to commit")


def turned(deeds: Sequence[Deed]) -> list[tuple[Deed, Deed]]:
    """Commands that failed, each with the one that did the same in another way soon after and worked; the newest
    first. A check that fails is about the code, what later works unchanged failed for another reason, and what the
    failure itself says to run is no news. What came from the web teaches nothing."""
    shells = [deed for deed in deeds if deed.is_shell and not is_web(deed)]
    worked = {deed.act.text for deed in shells if deed.act is not None and deed.status == "ok"}
    found: dict[str, tuple[Deed, Deed]] = {}
    for place, deed in enumerate(shells):
        if deed.status not in DID_NOT_WORK or deed.only_looks or deed.act is None:
            continue
        verbs = _verbs(deed)
        if deed.act.text in worked or not verbs:
            continue
        later = (
            other
            for other in shells[place + 1 : place + 1 + SOON]
            if other.status == "ok" and verbs & _verbs(other)
        )
        if (instead := next(later, None)) is None or not failure(deed):
            continue
        lost, new = ways(deed, instead, "")
        if lost and new and not any(one in deed.result for one in new.split(" && ")):
            key = " ".join(sorted(verbs))
            found.pop(key, None)
            found[key] = (deed, instead)
    return list(found.values())[::-1]


def _verbs(deed: Deed) -> set[str]:
    return {_verb(words) for words in deed.steps if _does(words)}


def _does(words: Sequence[str]) -> bool:
    return words[0] not in LOOKERS and not check_in(words)


def _verb(words: Sequence[str]) -> str:
    """The program and its verb, whatever folder its file is in."""
    return gist(words).rpartition("/")[2] if "/" in gist(words) else gist(words)


def ways(failed: Deed, worked: Deed, folder: str) -> tuple[str, str]:
    """The parts of two commands in which they differ: how it failed, and how it worked."""
    verbs = _verbs(failed) & _verbs(worked)
    before, after = _commands(failed, verbs, folder), _commands(worked, verbs, folder)
    lost = [one for one in before if one not in after]
    new = [one for one in after if one not in before]
    return _news(lost, after), _news(new, before)


def _news(commands: Sequence[str], others: Sequence[str]) -> str:
    """Commands in a line; of long ones only their beginnings and the words that the others do not have."""
    known = {word for one in others for word in one.split()}
    found = []
    for one in commands:
        words = one.split()
        new = [word for word in words[2:] if word not in known]
        if len(one) <= WAY_SHOWN // 2:
            found.append(one)
        elif new or len(commands) == 1:
            found.append(" ".join([*words[:2], *new]))
    return beginning(" && ".join(found), WAY_SHOWN)


def _commands(deed: Deed, verbs: Collection[str], folder: str) -> list[str]:
    """The commands of a call that do what `verbs` say, and where; below a folder."""
    found = [
        " ".join(word for word in words if word != '""')
        for words in deed.steps
        if words[0] == "cd" or _verb(words) in verbs
    ]
    return [one.replace(f"{folder}/", "") if folder else one for one in found]


def why(failed: Deed) -> str:
    return beginning(failure(failed), WHY_SHOWN)


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
    elif _CLEAN.search(shown):
        parts.append("clean")
    return ", ".join(parts)
