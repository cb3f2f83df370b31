"""Compares sessions of two stores by their heads: a hash covers everything before it, so no log is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from stator.model.log.chain import GENESIS
from stator.model.log.query import Head, SessionRow, read
from stator.runtime.exchange.choice import SessionToSend
from stator.store.port import StorePort

AT_ONCE = 200
"""Sessions that are asked about in one call."""

SentFate = Literal["new", "continued", "same", "longer there", "diverged", "fork", "refused"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a session has come in the other store."""

    one: SessionToSend
    fate: SentFate
    there: int
    """The last seq that is there already."""
    prev: str
    """The hash of the commit at that seq."""
    project: str | None = None
    """The project it has there; None if it is not there."""

    @property
    def new(self) -> int:
        """How many commits it lacks."""
        return self.one.seq - self.there if self.fate in ("new", "continued") else 0


def compare(
    source: StorePort, target: StorePort, chosen: Sequence[SessionToSend]
) -> list[Standing]:
    """For each session, what has to be done so that the other store has it too."""
    present = target.heads({}, others=True)
    found = _found(target, [one.id for one in chosen if one.id in present])
    heads = {session: head for session, (head, _) in found.items()}
    # Of each pair, the shorter log ends at a seq that both have: the hashes there decide.
    mine = {one.id: min(heads[one.id].seq, one.known) for one in chosen if one.id in heads}
    theirs = {session: seq for session, seq in mine.items() if seq < heads[session].seq}
    here, there = hashes(source, mine), hashes(target, theirs)
    return [
        _standing(one, found.get(one.id), here.get(one.id, ""), there.get(one.id)) for one in chosen
    ]


def _standing(
    one: SessionToSend, found: tuple[Head, str] | None, here: str, there: str | None
) -> Standing:
    if found is None:
        parent = one.record.parent
        prev = parent.hash if one.record.lineage and parent is not None else GENESIS
        return Standing(one=one, fate="new", there=one.after, prev=prev)
    head, project = found
    fate: SentFate
    if here != (head.hash if there is None else there):
        fate = "diverged"
    elif head.seq > one.known and one.whole:
        fate = "longer there"
    else:
        fate = "same" if head.seq >= one.seq else "continued"
    return Standing(one=one, fate=fate, there=head.seq, prev=head.hash, project=project)


def _found(store: StorePort, sessions: Sequence[str]) -> dict[str, tuple[Head, str]]:
    """The head and the project of each session that is there."""
    found: dict[str, tuple[Head, str]] = {}
    for start in range(0, len(sessions), AT_ONCE):
        some = sessions[start : start + AT_ONCE]
        reads = [read(method, session) for session in some for method in ("head", "session")]
        answers = store.together(*reads)
        for session, head, row in zip(some, answers[::2], answers[1::2], strict=True):
            if isinstance(head, Head) and isinstance(row, SessionRow):
                found[session] = (head, row.record.project)
    return found


def hashes(store: StorePort, seqs: Mapping[str, int]) -> dict[str, str]:
    """The hash of the commit at a seq of each session; no entry where there is no such commit."""
    wanted = list(seqs.items())
    found: dict[str, str] = {}
    for start in range(0, len(wanted), AT_ONCE):
        some = wanted[start : start + AT_ONCE]
        answers = store.together(
            *(read("commits", s, after=n - 1, upto=n, limit=1, load=False) for s, n in some)
        )
        for (session, _), commits in zip(some, answers, strict=True):
            if isinstance(commits, list) and commits:
                found[session] = commits[0].hash
    return found
