"""Grafts a log that diverged in another store onto a fork of the local one.

The commits keep their ids, their content and its salts. They move one seq later, because the fork has a
commit of its own before them; so references to seqs after the fork are shifted, the session's own record is
the fork's, and every hash is recomputed. The same commits always give the same graft.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stator.model.log import chain
from stator.model.log.check import encode_record
from stator.model.log.commit import (
    Commit,
    Gone,
    Item,
    Provenance,
)
from stator.model.log.delta import Delta, Op, Put
from stator.model.records.types import (
    Entry,
    ErasedRecord,
    EvictedRecord,
    FlagRecord,
    Record,
    ScoreRecord,
    SessionRecord,
    TagRecord,
)
from stator.model.values import canon

POINTING = {
    "compaction": ("outputs", "mask", "summarise"),
    "rewind": ("to", "from"),
    "erasure": ("seq", "from", "to"),
}
"""Kinds whose input names seqs, and under which keys."""
_ASKED = re.compile(r"(\d{1,16})/")
"""How the origin of a call that a model asked for begins: the seq of the entry that asked."""
_AT = re.compile(r"@(\d{1,16})\Z")
_ENTRY = re.compile(r"entry:@(\d{1,16})\Z")
"""The key of an entry: it names the seq that holds it."""


def root(
    identifier: str,
    record: SessionRecord,
    parent: Commit,
    standing: Sequence[Entry],
    *,
    at: int,
    principal: str,
    salt: bytes,
) -> Commit:
    """The first commit of a fork that continues as the other log did: the session, and its open calls. Unlike
    a fork made by a person, it keeps what was approved and spent: the commits after it
        were made with that. What was approved elsewhere answers no call here anyway.
    """
    delta: Delta = []
    content: dict[str, Item] = {"principal": canon.dumps(principal)}
    for entry in standing:
        told = record if entry.collection == "session" else entry.record
        if not isinstance(told, ErasedRecord):
            content[chain.put_item(len(delta))] = encode_record(told)
            delta.append(Put(entry.collection, entry.id, told, entry.seq))
    commit = Commit(
        id=identifier,
        session=record.id,
        seq=parent.seq + 1,
        kind="fork",
        turn=parent.turn,
        at=at,
        happened=at,
        hash="",
        prev=parent.hash,
        actor="system",
        content=content,
        delta=delta,
        provenance=Provenance("import", "unverified"),
        salt=salt,
    )
    return replace(commit, hash=chain.rehash(commit))


class Graft:
    """Takes the commits behind the last cut, in order, and gives them as the fork's."""

    def __init__(
        self,
        first: Commit,
        record: SessionRecord,
        cuts: Sequence[int],
        hash_at: Callable[[int], str],
    ) -> None:
        """`first`: the fork's own first commit. `cuts`: the seq before each fork on the way to it.

        `hash_at` gives the hash of a commit of the fork's lineage, by its seq here.
        """
        self._record = record
        self._cuts = cuts
        self._hash_at = hash_at
        self._first = first.seq
        self._again = {(op.collection, op.id) for op in first.delta}
        self._prev = first.hash
        self._hashes: dict[int, str] = {first.seq: first.hash}

    def moved(self, seq: int) -> int:
        """The seq here of what had that seq elsewhere."""
        return seq + sum(cut < seq for cut in self._cuts)

    def _moved_input(self, item: int | str) -> int | str:
        """Both ends of a range move; its end is written as a negative seq."""
        if isinstance(item, str):
            return item
        return self.moved(item) if item >= 0 else -self.moved(-item)

    def take(self, commit: Commit) -> Commit:
        content: dict[str, Item] = {}
        delta: Delta = []
        for n, op in enumerate(commit.delta):
            made, item = self._op(op, commit.content.get(chain.put_item(n)))
            delta.append(made)
            if item is not None:
                content[chain.put_item(n)] = item
        for name, given in commit.content.items():
            if name not in content:
                content[name] = self._item(commit, name, given)
        made_of = replace(
            commit,
            session=self._record.id,
            seq=self.moved(commit.seq),
            prev=self._prev,
            content={name: content[name] for name in commit.content},
            delta=delta,
            inputs=[self._moved_input(item) for item in commit.inputs],
            origin=self._origin(commit.origin),
        )
        moved = replace(made_of, hash=chain.rehash(made_of))
        self._prev = self._hashes[moved.seq] = moved.hash
        return moved

    def _op(self, op: Op, item: Item | None) -> tuple[Op, Item | None]:
        was = self.moved(op.was)
        if op.was and was < self._first and (op.collection, op.id) in self._again:
            was = self._first
        if not isinstance(op, Put):
            return replace(op, was=was), None
        if isinstance(item, Gone):
            by = self.moved(item.by)
            return replace(op, was=was, record=ErasedRecord(erased=by)), Gone(by, item.commitment)
        record = self._pointed(op.record)
        data = item if record is op.record else encode_record(record)
        return replace(op, was=was, record=record), data

    def _pointed(self, record: Record) -> Record:
        """A record with the seqs, hashes and session it names as they are here."""
        if isinstance(record, SessionRecord):
            mine = self._record
            return replace(
                record,
                id=mine.id,
                name=mine.name,
                aliases=mine.aliases,
                lineage=mine.lineage,
                parent=mine.parent,
                project=mine.project,
                tenant=mine.tenant,
            )
        if isinstance(record, TagRecord) and self.moved(record.seq) != record.seq:
            seq = self.moved(record.seq)
            known = self._hashes.get(seq)
            return replace(record, seq=seq, hash=self._hash_at(seq) if known is None else known)
        if isinstance(record, EvictedRecord) and self.moved(record.seq) != record.seq:
            said = _ENTRY.match(record.key)
            key = f"entry:@{self.moved(int(said[1]))}" if said else record.key
            return replace(record, key=key, seq=self.moved(record.seq))
        if isinstance(record, (ScoreRecord, FlagRecord)) and (at := _AT.match(record.on)):
            return replace(record, on=f"@{self.moved(int(at[1]))}")
        return record

    def _item(self, commit: Commit, name: str, item: Item) -> Item:
        if isinstance(item, Gone):
            return Gone(self.moved(item.by), item.commitment)
        if name == "input" and commit.kind in POINTING and isinstance(item, bytes):
            plain: Any = canon.decode(item)
            if isinstance(plain, dict):
                for key in POINTING[commit.kind]:
                    if isinstance(plain.get(key), int):
                        plain[key] = self.moved(plain[key])
                if commit.kind == "erasure" and isinstance(plain.get("commits"), list):
                    plain["commits"] = [self._erased(each) for each in plain["commits"]]
                return canon.encode(plain)
        return item

    def _erased(self, each: Any) -> Any:
        """One of the commits a larger erasure is about: its seq and the content that went."""
        if isinstance(each, list) and each and isinstance(each[0], int):
            return [self.moved(each[0]), *each[1:]]
        return each

    def _origin(self, origin: tuple[str, str] | None) -> tuple[str, str] | None:
        asked = _ASKED.match(origin[1]) if origin and origin[0] == "model" else None
        if origin is None or asked is None:
            return origin
        return origin[0], f"{self.moved(int(asked[1]))}{origin[1][asked.end() - 1 :]}"
