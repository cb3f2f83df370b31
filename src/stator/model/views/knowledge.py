"""Works out what one session knows: the values of its durable records, and what they replaced. Pure.

Commits are fed one by one, in the order of the log. What is kept in between is bounded and can be written down, so
that an index continues where it was. The result depends on the commits alone, not on where it was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Drop, Put, decode_record
from stator.model.records.tables import COLLECTIONS, KEPT_IN_REWIND, key_of, record_words
from stator.model.records.types import (
    DecisionRecord,
    ErasedRecord,
    FileRecord,
    FlagRecord,
    ForgottenRecord,
    PlanRecord,
    Record,
    RevisionRecord,
    WorkingRecord,
    file_key,
    to_settle,
)
from stator.model.values.canon import encode
from stator.model.values.digest import blake2b
from stator.model.values.late_pattern import late
from stator.model.views.untrusted import SessionTaint

DURABLE = (
    "decisions",
    "facts",
    "preferences",
    "dead_ends",
    "plan",
    "pending",
    "artifacts",
    "working_set",
    "revisions",
    "candidates",
)
"""Collections whose records outlive a session, in the order in which they are shown."""
SAYS: dict[str, tuple[str, ...]] = {
    "decisions": ("what",),
    "facts": ("value",),
    "preferences": ("value",),
    "plan": ("status",),
    "artifacts": ("digest",),
}
"""The fields in which two values of a key can disagree. Values of the other collections never do."""
EARLIER_KEPT = 8
"""Earlier values of a key that a session remembers, the newest."""
LIVE_MAX = 2000
"""Live values of a collection that a session remembers, the newest."""
FILES_MAX = 2000
ANCHORS_MAX = 8
TEXT_LOOKED = 20_000
"""Characters of a record that are searched for paths."""
TRASH = "trash"
IMPORTED = "imported"
CARRY = "carry"


class Anchor(msgspec.Struct, frozen=True, array_like=True):
    """A file that a value is about, and what it held then, as far as that is known."""

    path: str
    digest: str = ""


class Value(msgspec.Struct, frozen=True, array_like=True):
    """One value of a key, as a session recorded it."""

    collection: str
    key: str
    id: str
    """The id of its record in its session."""
    body: bytes
    session: str
    seq: int
    n: int
    turn: int
    commit: str
    happened: int
    source: str
    trust: str
    live: bool = True
    carried: str = ""
    """Of a value that was taken over from another session: the commit that recorded it there."""
    anchors: list[Anchor] = []
    revision: str = ""
    unverified: str = ""
    """Where the untrusted root came from that it rests on; empty if it rests on none."""
    said: str = ""
    """What it says, as a digest: values that agree have the same. Empty where values of a key cannot disagree."""

    @property
    def record(self) -> Record:
        return decode_record(self.collection, self.body)

    @property
    def order(self) -> tuple[int, bool, str, int, int]:
        """Newer values are greater. Of equals, the original counts before what was taken over."""
        return self.happened, not self.carried, self.session, self.seq, self.n


class KeyDrop(msgspec.Struct, frozen=True, array_like=True):
    """A session removed a key that it had from a session before it."""

    collection: str
    key: str
    session: str
    seq: int
    happened: int


class SessionKnowledge(msgspec.Struct):
    """What a session knows after some of its commits."""

    live: dict[str, dict[str, Value]] = {}
    """Collection → record id → value."""
    earlier: dict[str, dict[str, list[Value]]] = {}
    """Collection → key → values that were replaced, the newest first."""
    drops: dict[str, dict[str, KeyDrop]] = {}
    forgotten: dict[str, dict[str, int]] = {}
    """Of a project's own session: collection → key → up to when its values are forgotten."""
    trashed: dict[str, int] = {}
    """Of a project's own session: sessions in the trash, and the head that each had."""
    files: dict[str, str] = {}
    turn: list[tuple[str, str]] = []
    """(collection, id) of what the current turn recorded."""
    ids: dict[str, str] = {}
    """Of a project's own session: which flag or forgotten key a record id is."""
    imported: dict[str, str] = {}
    """Of a project's own session: sessions that came with a bundle, and how far."""
    taint: SessionTaint = msgspec.field(default_factory=SessionTaint)
    """What is not trusted of its log."""

    def values(self) -> Iterator[Value]:
        """Every value, live or replaced."""
        for records in self.live.values():
            yield from records.values()
        for keys in self.earlier.values():
            for replaced in keys.values():
                yield from replaced

    def add(self, values: Iterable[Value], drops: Iterable[KeyDrop]) -> None:
        """Put back values and drops that were written down apart."""
        for value in sorted(values, key=lambda one: (one.seq, one.n)):
            if value.live:
                self.live.setdefault(value.collection, {})[value.id] = value
            else:
                keys = self.earlier.setdefault(value.collection, {})
                keys.setdefault(value.key, []).insert(0, value)
        for drop in sorted(drops, key=lambda one: one.seq):
            self.drops.setdefault(drop.collection, {})[drop.key] = drop

    def key_drops(self) -> Iterator[KeyDrop]:
        for keys in self.drops.values():
            yield from keys.values()


def _said(collection: str, record: Record) -> str:
    fields = SAYS.get(collection, ())
    if not fields:
        return ""
    said = [msgspec.to_builtins(getattr(record, name, None)) for name in fields]
    return blake2b(encode(said), digest_size=8).hexdigest()


def learn(
    known: SessionKnowledge,
    commit: Commit,
    *,
    in_force: bool = True,
    dropped_key: Callable[[Drop, int], str] = lambda op, seq: "",
    unverified: Callable[[int], str] = lambda place: "",
) -> None:
    """Take the next commit. `in_force`: no rewind went back before it. `dropped_key` gives the key of a record that
    the session had from the sessions it was forked from; `unverified`, where the untrusted root came from that one
    of its records rests on, by the place of that record."""
    if commit.kind == "rewind":
        return
    if commit.kind == "turn":
        known.turn = []
    puts = [(n, op) for n, op in enumerate(commit.delta) if isinstance(op, Put)]
    again = {
        (op.collection, key_of(COLLECTIONS[op.collection], op.record, op.id)) for _, op in puts
    }
    superseded = {
        op.record.supersedes: op for _, op in puts if isinstance(op.record, DecisionRecord)
    }
    for drop in commit.delta:
        if isinstance(drop, Drop) and (in_force or drop.collection in KEPT_IN_REWIND):
            _drop(known, commit, drop, again, superseded, dropped_key)
    origins = origins_of(commit)
    for place, (n, op) in enumerate(puts):
        if in_force or op.collection in KEPT_IN_REWIND:
            origin = origins[place] if place < len(origins) else None
            _put(known, commit, n, op, origin, unverified(place))
    if commit.kind == "turn_end" and in_force:
        _mark_revision(known, commit)


def _drop(
    known: SessionKnowledge,
    commit: Commit,
    drop: Drop,
    again: set[tuple[str, str]],
    superseded: Mapping[str, Put],
    dropped_key: Callable[[Drop, int], str],
) -> None:
    name = drop.collection
    if name in ("flags", "forgotten"):
        _put_aside(known, name, drop.id)
        return
    if name not in DURABLE:
        return
    value = known.live.get(name, {}).pop(drop.id, None)
    by = superseded.get(drop.id)
    if value is not None:
        if by is not None:
            _replaced(known, value, key_of(COLLECTIONS[name], by.record, by.id))
        elif (name, value.key) in again:
            _replaced(known, value, value.key)
        else:
            known.earlier.get(name, {}).pop(value.key, None)
    key = value.key if value is not None else dropped_key(drop, commit.seq)
    if key and (name, key) not in again:
        drops = known.drops.setdefault(name, {})
        drops.pop(key, None)
        drops[key] = KeyDrop(name, key, commit.session, commit.seq, commit.used)
        if len(drops) > LIVE_MAX:
            del drops[next(iter(drops))]


def _put_aside(known: SessionKnowledge, collection: str, identifier: str) -> None:
    about = known.ids.pop(identifier, "")
    if collection == "flags":
        known.trashed.pop(about, None)
    elif about:
        of, _, key = about.partition("\0")
        known.forgotten.get(of, {}).pop(key, None)


def _put(
    known: SessionKnowledge,
    commit: Commit,
    n: int,
    op: Put,
    origin: tuple[str, int] | None,
    unverified: str,
) -> None:
    name, record = op.collection, op.record
    if isinstance(record, FileRecord):
        _touch(known, record)
        return
    if isinstance(record, FlagRecord):
        if record.name == TRASH and record.on:
            known.ids[op.id] = record.on
            known.trashed[record.on] = _head_in(commit)
        elif record.name == IMPORTED and record.on:
            known.imported[record.on] = record.why
        return
    if isinstance(record, ForgottenRecord):
        known.ids[op.id] = f"{record.collection}\0{record.name}"
        known.forgotten.setdefault(record.collection, {})[record.name] = record.upto
        return
    if name not in DURABLE:
        return
    live = known.live.setdefault(name, {})
    before = live.pop(op.id, None)
    if isinstance(record, ErasedRecord):
        return
    key = key_of(COLLECTIONS[name], record, op.id)
    if name == "pending" and key.startswith(to_settle("")):
        return  # it follows a call in doubt, which readers show
    value = Value(
        collection=name,
        key=key,
        id=op.id,
        body=encode(record),
        session=commit.session,
        seq=commit.seq,
        n=n,
        turn=commit.turn,
        commit=commit.id,
        happened=commit.used if origin is None else min(origin[1], commit.at),
        source=commit.provenance.source,
        trust=commit.provenance.trust,
        carried="" if origin is None else origin[0],
        anchors=_anchors(known, record),
        unverified=unverified,
        said=_said(name, record),
    )
    live[op.id] = value
    if before is not None:
        _replaced(known, before, key)
    _agreed(known, value)
    if len(live) > LIVE_MAX:
        del live[next(iter(live))]
    known.turn.append((name, op.id))


def _replaced(known: SessionKnowledge, value: Value, key: str) -> None:
    """Keep a value as an earlier one of a key, where values of its collection can disagree."""
    if value.collection not in SAYS:
        return
    keys = known.earlier.setdefault(value.collection, {})
    older = keys.pop(value.key, [])
    if key != value.key:
        older = [msgspec.structs.replace(one, key=key) for one in older] + keys.pop(key, [])
    old = msgspec.structs.replace(value, live=False, key=key)
    keys[key] = _newest([old, *older])


def _newest(values: list[Value]) -> list[Value]:
    """Of values that say the same, the newest; and of those some."""
    found: dict[str, Value] = {}
    for value in sorted(values, key=lambda one: (-one.seq, -one.n)):
        found.setdefault(value.said, value)
    return list(found.values())[:EARLIER_KEPT]


def _agreed(known: SessionKnowledge, value: Value) -> None:
    """Leave out earlier values that say what the newest says."""
    keys = known.earlier.get(value.collection, {})
    if value.key in keys:
        keys[value.key] = [one for one in keys[value.key] if one.said != value.said]
        if not keys[value.key]:
            del keys[value.key]


def _touch(known: SessionKnowledge, record: FileRecord) -> None:
    path = file_key(record.root, record.path).replace("\n", "/")
    known.files.pop(path, None)
    known.files[path] = record.after
    if len(known.files) > FILES_MAX:
        del known.files[next(iter(known.files))]


_WORD = late(r"[^\s\"'`()<>,;\[\]{}]+")


def _anchors(known: SessionKnowledge, record: Record) -> list[Anchor]:
    """The files that a record names, with the digest they had then."""
    if isinstance(record, PlanRecord | RevisionRecord) and record.files:
        named = [str(path) for path in record.files]
    elif isinstance(record, WorkingRecord):
        named = [record.name] if record.kind == "file" else []
    elif known.files:
        text = " ".join(str(part) for part in record_words(record))[:TEXT_LOOKED]
        words = (word.group().rstrip(".:!?").removeprefix("./") for word in _WORD.finditer(text))
        named = [word for word in words if word in known.files]
    else:
        named = []
    found = dict.fromkeys(named)
    return [Anchor(path, known.files.get(path, "")) for path in list(found)[:ANCHORS_MAX]]


_SHA = late(r"[0-9a-f]{7,64}\Z")


def _mark_revision(known: SessionKnowledge, commit: Commit) -> None:
    found = commit.known("input")
    git = found.get("git") if isinstance(found, Mapping) else None
    head = git.get("head") if isinstance(git, Mapping) else None
    if not isinstance(head, str) or not _SHA.match(head):  # before the first commit there is none
        return
    for name, identifier in known.turn:
        value = known.live.get(name, {}).get(identifier)
        if value is not None and value.turn == commit.turn:
            known.live[name][identifier] = msgspec.structs.replace(value, revision=head)


def _head_in(commit: Commit) -> int:
    found = commit.known("input", {})
    head = found.get("head", 0) if isinstance(found, Mapping) else 0
    return head if type(head) is int else 0


def origins_of(commit: Commit) -> list[tuple[str, int]]:
    """Of a commit that takes values over: the commit that recorded each, and when that happened."""
    if commit.kind != CARRY:
        return []
    found = commit.known("input", {})
    records: Any = found.get("records") if isinstance(found, Mapping) else None
    return [
        (one[0], one[1])
        if isinstance(one, list | tuple)
        and len(one) >= 2
        and isinstance(one[0], str)
        and type(one[1]) is int
        else ("", commit.used)
        for one in (records if isinstance(records, list) else [])
    ]
