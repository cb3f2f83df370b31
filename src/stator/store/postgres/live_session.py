"""A session as its writer remembers it between appends: its head, its place, and the live records looked up so far.

Whatever is remembered may be out of date. An append compares the head and the lease where it writes, so that what is
wrong here is found out there, and read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from stator.model.log.commit import Change, Commit, Draft, Remove, Upsert
from stator.model.log.delta import Put
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, key_of
from stator.model.records.types import Entry, SessionRecord
from stator.model.values.ids import to_bytes
from stator.store.drafts import in_project
from stator.store.postgres.connection import Rows, Statement
from stator.store.postgres.queries import state
from stator.store.postgres.session_row import FoundSession
from stator.store.postgres.session_row import key_of as session_key
from stator.store.postgres.text import unpacked

if TYPE_CHECKING:
    from stator.model.log.redact import Redactor

KEYS_MAX = 5_000
"""Live records of a session whose keys a writer remembers: as many as are read with one statement."""
GROWN_MAX = 100_000
"""Keys that it remembers with those that it wrote itself; past it, it asks for each."""
CACHE_MAX = 4_096
"""Records kept by key; past it, those that came first go."""
LOCATED_MAX = 256

AskRows = Callable[..., list[Rows]]


SMALL_MAX = 200
SMALL = ("session", *BOOKKEEPING)
"""Collections that most commits touch: as much of them as one statement reads is remembered from the start."""


def small(session: str) -> Statement:
    """The statement that finds the newest records of these collections."""
    return state.live(session, dict.fromkeys(SMALL, SMALL_MAX), SMALL, None)


def keys_statement(session: str) -> Statement:
    values = {
        "session": session_key(session),
        "collections": list(COLLECTIONS),
        "limit": KEYS_MAX + 1,
    }
    return Statement("live_keys", values)


class RemoteLive:
    """One session in the writer's memory. `find`, `all` and `locate` make it the reducer's view of the state."""

    def __init__(
        self,
        known: FoundSession,
        redactor: Redactor | None,
        digest: Callable[[bytes], bytes],
        keys: Rows | None,
    ) -> None:
        """`keys` are those of its live records, None if they are not known."""
        self.known = known
        self.redactor = redactor
        self.digest = digest
        self.unborn = False
        self.seq, self.hash = known.head, known.hash.hex()
        self.turn, self.turn_open = known.turn, known.turn_open
        self.record = known.record
        self.epoch = known.epoch
        self.held = known.holder is not None
        self.ask: AskRows = _unasked
        """Asks the server; set by its user."""
        self._keys = None
        if keys is not None and len(keys) <= KEYS_MAX:
            self._keys = {(name, unpacked(key)) for name, key in keys}
        self._entries: dict[tuple[str, str], Entry | None] = {}
        """By collection and key, those touched last at the end."""
        self._whole: set[str] = set()
        """Collections whose live records are all among these."""
        self._written: dict[tuple[str, str], Entry | None] = {}
        """Records that were touched since the last append that landed, by collection and id."""
        self._closed: list[str] = []
        """Calls that ended since then."""
        self._located: dict[str, int] = {}

    def keep_small(self, rows: Rows) -> None:
        """Remember the records of small collections, from the rows of `small`: all there are, unless there are many."""
        many = Counter(row[0] for row in rows)
        self._whole = {name for name in SMALL if many[name] < SMALL_MAX}
        self._keep(rows)

    def _keep(self, rows: Rows) -> None:
        for name, entries in state.by_collection(rows).items():
            # Of two that answer to a key, the one that was touched last.
            self._entries |= {(name, entry.key): entry for entry in reversed(entries)}

    def find(self, collection: str, key: str) -> Entry | None:
        slot = (collection, key)
        if slot in self._entries:
            return self._entries[slot]
        if not self._may_be_there(slot):
            return None
        entry = self.read(collection, [key], self.known.head).get(key)
        self._entries[slot] = entry
        return entry

    def _may_be_there(self, slot: tuple[str, str]) -> bool:
        """Whether a record may be under a key although none is remembered there."""
        if slot[0] in self._whole:
            return False
        return self._keys is None or slot in self._keys

    def look_ahead(self, drafts: Iterable[Draft]) -> None:
        """Read what is under the keys that drafts touch, at once, so that `find` need not ask for each."""
        touched = (slot for draft in drafts for change in draft.changes for slot in _slots(change))
        wanted = {
            slot for slot in touched if slot not in self._entries and self._may_be_there(slot)
        }
        if len(wanted) < 2:
            return
        names = sorted({name for name, _ in wanted})
        keys = [key for _, key in wanted]
        (rows,) = self.ask(state.live(self.known.id, {}, names, self.known.head, keys=keys))
        self._entries |= dict.fromkeys(wanted)
        self._keep(rows)

    def read(self, collection: str, keys: list[str] | None, at: int) -> dict[str, Entry]:
        """Live records at a seq by their keys, from the server."""
        statement = state.live(self.known.id, {}, [collection], at, keys=keys)
        (rows,) = self.ask(statement)
        entries = state.by_collection(rows).get(collection, [])
        # Of two that answer to a key, the one that was touched last.
        return {entry.key: entry for entry in reversed(entries)}

    def all(self, collection: str) -> Sequence[Entry]:
        entries: list[Entry] = []
        if self._keys is None or any(name == collection for name, _ in self._keys):
            statement = state.live(self.known.id, {}, [collection], self.known.head)
            (rows,) = self.ask(statement)
            entries = state.by_collection(rows).get(collection, [])
        mine = {id: entry for (name, id), entry in self._written.items() if name == collection}
        touched = [entry for entry in reversed(mine.values()) if entry is not None]
        return touched + [entry for entry in entries if entry.id not in mine]

    def locate(self, identifier: str) -> int:
        """The seq of the commit with that id in this session or its lineage; 0 if it is not there."""
        seq = self._located.get(identifier)
        if seq is None:
            (rows,) = self.ask(Statement("known_ids", {"ids": [to_bytes(identifier)]}))
            seq = self.seq_in(rows)
            if seq:
                self._locate(identifier, seq)
        return seq

    def has_applied(self, identifier: str) -> bool:
        """Whether a commit is known to be in the log."""
        return identifier in self._located

    def seq_in(self, rows: Rows) -> int:
        """The seq of a row of `known_ids`, if it is in the session's log."""
        for _, s, seq in rows:
            for part, after, upto in zip(
                self.known.part_s, self.known.part_after, self.known.part_upto, strict=True
            ):
                if part == s and after < seq <= upto:
                    return int(seq)
        return 0

    def _locate(self, identifier: str, seq: int) -> None:
        if len(self._located) >= LOCATED_MAX:
            self._located.clear()
        self._located[identifier] = seq

    def advance(self, commit: Commit, keys: Sequence[str]) -> None:
        """Apply a commit that is about to be written."""
        seq = self.seq = commit.seq
        self.unborn = False
        self.hash = commit.hash
        self.turn = commit.turn
        if commit.kind in ("turn", "turn_end"):
            self.turn_open = commit.kind == "turn"
        self._locate(commit.id, seq)
        for op, key in zip(commit.delta, keys, strict=True):
            name = op.collection
            entry = None
            if type(op) is Put:
                if type(op.record) is SessionRecord:
                    self.record = as_here(op.record, self.record)
                entry = Entry(name, op.id, key, seq, commit.turn, op.record)
            self._entries.pop((name, key), None)
            self._entries[name, key] = entry
            if entry is None and name == "calls":  # nothing else answers to its id, nor will
                self._closed.append(key)
            elif entry is not None and self._keys is not None:
                self._keys.add((name, key))
            self._written.pop((name, op.id), None)
            self._written[name, op.id] = entry

    def landed(self) -> None:
        """Everything that was applied is written."""
        known = self.known
        known.head, known.hash, known.record = self.seq, bytes.fromhex(self.hash), self.record
        known.turn, known.turn_open = self.turn, self.turn_open
        self._written.clear()
        for key in self._closed:
            if self._entries.get(("calls", key)) is None:
                self._entries.pop(("calls", key), None)
                if self._keys is not None:
                    self._keys.discard(("calls", key))
        self._closed.clear()
        if len(self._entries) > CACHE_MAX:
            for old in list(islice(self._entries, CACHE_MAX // 2)):
                if self._entries.pop(old) is not None:
                    self._whole.discard(old[0])
        if self._keys is not None and len(self._keys) > GROWN_MAX:
            self._keys = None


def _slots(change: Change) -> Iterator[tuple[str, str]]:
    """The collections and keys that a change touches, as far as that can be seen before it is sealed."""
    if isinstance(change, Remove):
        yield change.collection, change.key
    elif isinstance(change, Upsert):
        collection = COLLECTIONS.get(change.collection)
        if collection is not None and isinstance(change.record, collection.type):
            yield change.collection, key_of(collection, change.record, "")


def _unasked(*asked: Statement) -> list[Rows]:
    raise AssertionError("a session is looked at by its writer alone")


def as_here(record: SessionRecord, before: SessionRecord) -> SessionRecord:
    """A session's record as in its row, with the project and the tenant that it belongs to in this store."""
    return msgspec.structs.replace(
        in_project(record, before.project), tenant=record.tenant or before.tenant
    )


class RemotePastState:
    """The state before a commit: the reducer's view at an earlier seq."""

    def __init__(self, live: RemoteLive, at: int) -> None:
        self._live, self._at = live, at

    def find(self, collection: str, key: str) -> Entry | None:
        return self._live.read(collection, [key], self._at).get(key)

    def all(self, collection: str) -> Sequence[Entry]:
        (rows,) = self._live.ask(state.live(self._live.known.id, {}, [collection], self._at))
        return state.by_collection(rows).get(collection, [])

    def locate(self, identifier: str) -> int:
        seq = self._live.locate(identifier)
        return seq if seq <= self._at else 0
