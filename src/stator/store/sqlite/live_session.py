"""Caches a session between appends: its head, its place, and the live records looked up so far. Everything
here can be read again from the file, and is, when another connection has written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import apsw

from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.types import Entry, SessionRecord
from stator.model.values.ids import to_bytes
from stator.store.drafts import in_project
from stator.store.sqlite.projection import SEQ_BITS, SEQ_MASK, find_commit, tailed
from stator.store.sqlite.queries import state, turns
from stator.store.sqlite.queries.lineage import SessionPlace

if TYPE_CHECKING:
    from stator.model.log.redact import Redactor

CACHE_MAX = 4096
"""Records kept by key; past it, those that came first go."""


LOCATED_MAX = 256
"""Seqs kept by id; past it, all go."""


def located(db: apsw.Connection, place: SessionPlace, identifier: str) -> int:
    """The seq of a commit of a session or its lineage, among those flushed; 0 if it is not there."""
    key = find_commit(db, to_bytes(identifier))
    if key is None:
        return 0
    owner, seq = key >> SEQ_BITS, key & SEQ_MASK
    return seq if any(part.s == owner and seq <= part.upto for part in place.segments) else 0


class Live:
    """One session in the writer's memory. `find` and `all` make it the reducer's view of the state."""

    def __init__(
        self,
        connection: apsw.Connection,
        place: SessionPlace,
        redactor: Redactor | None,
        digest: Callable[[bytes], bytes],
        *,
        unborn: bool = False,
    ) -> None:
        """`unborn`: the session's row is there, its first commit is not yet."""
        self.connection = connection
        self.place = place
        self.redactor = redactor
        self.digest = digest
        """The keyed digest under which its blobs are addressed."""
        self.unborn = unborn
        head = (turns.base_head if unborn else turns.read_head)(connection, place)
        self.seq, self.hash = head.seq, head.hash
        self.turn, self.turn_open = head.turn, head.turn_open
        self.is_ingested = False
        """Whether commits come sealed, in this transaction; that no driver holds the session is known then."""
        self.sealed_after: int | None = head.seq
        """This process sealed every commit after it; None if it does not matter any more."""
        self.generation = 0
        self._known: dict[tuple[str, str], Entry | None] = {}
        self._located: dict[str, int] = {}
        """Seqs of flushed commits, by id: each answer names where its view begins."""

    def find(self, collection: str, key: str) -> Entry | None:
        slot = (collection, key)
        try:
            return self._known[slot]
        except KeyError:
            pass
        if len(self._known) > CACHE_MAX:
            for old in list(islice(self._known, CACHE_MAX // 2)):
                del self._known[old]
        entry = state.find_entry(self.connection, self.place, collection, key, None)
        self._known[slot] = entry
        return entry

    def all(self, collection: str) -> Sequence[Entry]:
        return state.read_entries(self.connection, self.place, collection, None, None)

    def locate(self, identifier: str) -> int:
        """The seq of the commit with that id in this session or its lineage; 0 if it is not there."""
        seq = self.place.tail.ids.get(to_bytes(identifier)) or self._located.get(identifier)
        if seq is None:
            seq = located(self.connection, self.place, identifier)
            if seq:
                if len(self._located) >= LOCATED_MAX:
                    self._located.clear()
                self._located[identifier] = seq
        return seq

    def advance(self, commit: Commit, keys: Sequence[str]) -> None:
        """Apply a commit that was just written."""
        seq = self.seq = commit.seq
        self.unborn = False
        self.hash = commit.hash
        self.turn = commit.turn
        if commit.kind == "turn":
            self.turn_open = True
        elif commit.kind == "turn_end":
            self.turn_open = False
        known = self._known
        for op, key in zip(commit.delta, keys, strict=True):
            name = op.collection
            if type(op) is Put:
                if type(op.record) is SessionRecord:
                    self.place.record = in_project(op.record, self.place.record.project)
                if self.is_ingested:
                    continue  # nobody asks for the state of a log that comes sealed
                known[name, key] = Entry(name, op.id, key, seq, commit.turn, op.record)
            elif name == "calls":
                known.pop((name, key), None)  # settled for good: nobody asks for it again
            else:
                known[name, key] = None
        self.place.tail.add(tailed(commit, keys))


class PastState:
    """The state before a commit: the reducer's view at an earlier seq."""

    def __init__(self, db: apsw.Connection, place: SessionPlace, at: int) -> None:
        self._db, self._place, self._at = db, place, at

    def find(self, collection: str, key: str) -> Entry | None:
        return state.find_entry(self._db, self._place, collection, key, self._at)

    def all(self, collection: str) -> Sequence[Entry]:
        return state.read_entries(self._db, self._place, collection, self._at, None)

    def locate(self, identifier: str) -> int:
        seq = self._place.tail.ids.get(to_bytes(identifier)) or located(
            self._db, self._place, identifier
        )
        return seq if seq <= self._at else 0
