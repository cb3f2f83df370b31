"""Finds the calls of a turn that repaired an earlier failure: the next that did the same, and worked."""

from __future__ import annotations

from collections.abc import Sequence

from stator.model.brief.command_words import LOOKERS, gist, parts
from stator.model.log.commit import Commit
from stator.surfaces.cli.render.record_line import value_of
from stator.surfaces.cli.render.turns.subject import subject_of

Ended = tuple[Commit, bool]
"""A call, and whether it ended ok."""


def repairs(calls: Sequence[Ended]) -> dict[int, list[int]]:
    """By the seq of a call that worked, the seqs of the failures that it repaired, the newest last."""
    failed: dict[int, frozenset[str]] = {}
    found: dict[int, list[int]] = {}
    for commit, is_ok in calls:
        done = _does(commit)
        if not is_ok:
            failed[commit.seq] = done
            continue
        repaired = [seq for seq, what in failed.items() if what and what <= done]
        if repaired:
            found[commit.seq] = repaired
        for seq in repaired:
            del failed[seq]
    return found


def _does(commit: Commit) -> frozenset[str]:
    """What a call does: programs with their verbs, or a tool and its path. Programs that only look do nothing."""
    about = subject_of(given := value_of(commit, "input"))
    if about.is_path:
        return frozenset({f"{commit.tool} {about.words}"})
    command = given.get("command", given.get("cmd", "")) if isinstance(given, dict) else ""
    if not isinstance(command, str):
        return frozenset({about.words})
    return frozenset(gist(words) for words in parts(command) if words[0] not in LOOKERS)
