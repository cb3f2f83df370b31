"""Finds what calls taught: what failed and then worked in another way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stator.model.brief.command_words import LOOKERS, check_in, gist
from stator.model.brief.condense import beginning
from stator.model.brief.story import DID_NOT_WORK, Deed, failure, is_web

SOON = 12
"""Calls after a failure among which the one is that worked instead."""
WAY_SHOWN = 110
"""Characters of a command that is shown."""
WHY_SHOWN = 100


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
            if other.status == "ok" and _has_news(deed, other, verbs)
        )
        if (instead := next(later, None)) is None or not failure(deed):
            continue
        lost, new = ways(deed, instead, "")
        if lost and new and not any(one in deed.result for one in new.split(" && ")):
            key = " ".join(sorted(verbs))
            found.pop(key, None)
            found[key] = (deed, instead)
    return list(found.values())[::-1]


def _has_news(failed: Deed, worked: Deed, verbs: Collection[str]) -> bool:
    """Whether a call does the same with a word that the one that failed did not have: to leave words out is to do
    less."""
    words = {word for one in _commands(failed, verbs, "") for word in one.split()}
    shared = _verbs(worked) & set(verbs)
    return any(
        word not in words for one in _commands(worked, shared, "") for word in one.split()
    ) and bool(shared)


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
    instead = _news(new, before)
    return _shared(lost, instead) or _news(lost, after), instead


def _shared(commands: Sequence[str], instead: str) -> str:
    """Of one long command, its beginning and the words that the one that worked has too."""
    if len(commands) != 1 or len(commands[0]) <= WAY_SHOWN:
        return ""
    words = commands[0].split()
    same = [word for word in words[2:] if word in instead.split()]
    return beginning(" ".join([*words[:2], *same]), WAY_SHOWN) if same else ""


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
