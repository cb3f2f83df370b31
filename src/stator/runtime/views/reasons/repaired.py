"""Says which call repaired which failure: in a turn, the next that did the same, and worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stator.model.brief.command_words import LOOKERS, gist, parts
from stator.model.calls.argument_names import COMMANDS, PATHS, SOUGHT
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery
from stator.model.records.text import arguments_text
from stator.model.views.diff import CallItem
from stator.store.port import StorePort

LOOKED = 500
"""Calls of a turn, its last, that are looked at."""
TURNS_LOOKED = 20
"""Turns with failures in which repairs are looked for, where a range has more: the last."""
RUNS = ("started", "running")
UNKNOWN = (*RUNS, "in doubt")
"""How a call stands whose outcome nobody knows: what a later one did says nothing about it."""


EndedCall = tuple[Commit, bool]
"""A call, and whether it ended ok."""


def repairs_in(store: StorePort, session: str, turn: int) -> dict[int, list[int]]:
    """By the seq of a call of the turn that worked, the seqs of the failures that it repaired, the newest last."""
    turns = store.turns(session, after=turn - 1, upto=turn) if turn > 0 else []
    if not turns:
        return {}
    query = CallQuery(session=session, after=turns[0].first - 1)
    rows = store.calls(query, cursor=(turns[0].last + 1,), limit=LOOKED).rows
    ended = {row.seq: row.status == "ok" for row in rows if row.status not in RUNS}
    failed = [seq for seq, is_ok in ended.items() if not is_ok]
    if not failed:
        return {}
    wanted = sorted(seq for seq in ended if seq >= min(failed))
    intents = store.commits(session, seqs=wanted, limit=LOOKED)
    return repairs([(one, ended[one.seq]) for one in sorted(intents, key=lambda each: each.seq)])


def repaired_by(store: StorePort, session: str, turn: int) -> dict[int, int]:
    """By the seq of a failed call of the turn, that of the call which repaired it."""
    found = repairs_in(store, session, turn)
    return {failed: seq for seq, repaired in found.items() for failed in repaired}


def repaired_calls(store: StorePort, session: str, failed: Sequence[CallItem]) -> set[str]:
    """Those of a range of calls that failed and that a later call of their turn did again, and worked."""
    turns: dict[tuple[str, int], list[CallItem]] = {}
    for call in failed:
        if call.status not in UNKNOWN:
            turns.setdefault((call.session or session, call.turn), []).append(call)
    newest = sorted(turns, key=lambda turn: turn[1])[-TURNS_LOOKED:]
    return {
        call.call
        for owner, turn in newest
        if (repaired := repaired_by(store, owner, turn))
        for call in turns[owner, turn]
        if call.seq in repaired
    }


def repairs(calls: Sequence[EndedCall]) -> dict[int, list[int]]:
    """By the seq of a call that worked, the seqs of the failures that it repaired, the newest last."""
    failed: dict[int, frozenset[str]] = {}
    found: dict[int, list[int]] = {}
    for commit, is_ok in calls:
        if is_ok and not failed:
            continue
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
    given = commit.known("input", None)
    if not isinstance(given, Mapping):
        return frozenset({arguments_text(commit.tool, given)} if given not in ("", None) else ())
    if command := _command(given):
        return frozenset(gist(words) for words in parts(command) if words[0] not in LOOKERS)
    path = next((given[name] for name in PATHS if isinstance(given.get(name), str)), "")
    if path and not any(name in given for name in SOUGHT):
        return frozenset({f"{commit.tool} {path}"})
    return frozenset({arguments_text(commit.tool, given)})


def _command(given: Mapping[str, Any]) -> str:
    """The command line that a call runs; of a list of words, what its shell is given."""
    found = next((given[name] for name in COMMANDS if name in given), "")
    if isinstance(found, (list, tuple)):  # ["bash", "-lc", "make test"]
        words = [word for word in found if isinstance(word, str)]
        return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return found if isinstance(found, str) else ""
