"""Says which call repaired which failure: in a turn, the next that did the same, and worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stator.model.brief.command_words import LOOKERS, VERBAL, check_in, is_one_liner, parts
from stator.model.calls.argument_names import COMMANDS, PATHS, SOUGHT
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery
from stator.model.records.text import arguments_text
from stator.model.values.late_pattern import late
from stator.model.views.diff import CallItem
from stator.store.port import StorePort

LOOKED = 500
"""Calls of a turn, its last, that are looked at."""
TURNS_LOOKED = 100
"""Turns with failures in which repairs are looked for, where a range has more: the last."""
UNKNOWN = ("started", "running", "awaiting approval", "in doubt")
"""How a call stands whose outcome nobody knows: what a later one did says nothing about it."""
AS_A_WHOLE = frozenset([("git", "add"), ("git", "commit")])
"""Commands whose next success is what the failed one was for, whichever files it names: one that is ignored, or that
a check objects to, is left out."""
_OPERAND = late(r"(?!-)[\w:./@+=-]*[\w/]")
"""A word that is no option and no shell syntax: a path, a name, a target."""
_VERB = late(r"[a-z][\w:-]*")

EndedCall = tuple[Commit, bool]
"""A call, and whether it ended ok."""


def repairs_in(store: StorePort, session: str, turn: int) -> dict[int, list[int]]:
    """By the seq of a call of the turn that worked, the seqs of the failures that it repaired, the newest last."""
    turns = store.turns(session, after=turn - 1, upto=turn) if turn > 0 else []
    if not turns:
        return {}
    query = CallQuery(session=session, after=turns[0].first - 1)
    rows = store.calls(query, cursor=(turns[0].last + 1,), limit=LOOKED).rows
    ended = {row.seq: row.status == "ok" for row in rows if row.status not in UNKNOWN}
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
    failed: dict[int, list[_Deed]] = {}
    found: dict[int, list[int]] = {}
    for commit, is_ok in calls:
        if is_ok and not failed:
            continue
        done = _does(commit)
        if not is_ok:
            failed[commit.seq] = done
            continue
        repaired = [
            seq
            for seq, deeds in failed.items()
            if deeds and all(any(one.covers(deed) for one in done) for deed in deeds)
        ]
        if repaired:
            found[commit.seq] = repaired
        for seq in repaired:
            del failed[seq]
    return found


class _Deed(msgspec.Struct, frozen=True):
    """What a call does, as far as its arguments say: a tool or a program with its verb, and what to."""

    act: str
    objects: frozenset[str] = frozenset()
    """Empty for a check: everything."""
    is_check: bool = False

    def covers(self, failed: _Deed) -> bool:
        """Whether that this one worked means that what failed is done: a wider check of the same, or the same act on
        all that the other was for."""
        if self.act != failed.act:
            return False
        if self.is_check and not (failed.objects and self.objects):
            return not self.objects
        return failed.objects <= self.objects


def _does(commit: Commit) -> list[_Deed]:
    """What a call does: what each program of its command does, or the tool with its path. Programs that only look do
    nothing."""
    given = commit.known("input", None)
    if not isinstance(given, Mapping):
        return [_Deed(arguments_text(commit.tool, given))] if given not in ("", None) else []
    if command := _command(given):
        ran = [words for words in parts(command) if words[0] not in LOOKERS]
        return [_ran(words, command) for words in ran]
    path = next((given[name] for name in PATHS if isinstance(given.get(name), str)), "")
    if path and not any(name in given for name in SOUGHT):
        return [_Deed(f"{commit.tool} {path}")]
    return [_Deed(arguments_text(commit.tool, given))]


def _ran(words: Sequence[str], command: str) -> _Deed:
    """What a program does. One whose program is in the command itself does what that says, and nothing else does."""
    plain = [word for word in words[1:] if _OPERAND.fullmatch(word)]
    if is_one_liner(words) or not (plain or check_in(words) or words[0] in VERBAL):
        return _Deed(command)
    if words[0] not in VERBAL:
        return _Deed(words[0], frozenset(plain), check_in(words))
    verb = next((word for word in plain if _VERB.fullmatch(word)), "")
    if (words[0], verb) in AS_A_WHOLE:
        return _Deed(f"{words[0]} {verb}")
    return _Deed(f"{words[0]} {verb}", frozenset(plain) - {verb}, check_in(words))


def _command(given: Mapping[str, Any]) -> str:
    """The command line that a call runs; of a list of words, what its shell is given."""
    found = next((given[name] for name in COMMANDS if name in given), "")
    if isinstance(found, (list, tuple)):  # ["bash", "-lc", "make test"]
        words = [word for word in found if isinstance(word, str)]
        return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return found if isinstance(found, str) else ""
