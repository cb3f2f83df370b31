"""Deltas: the typed change a commit records, as whole-record puts and drops.

Computed once, when the commit is appended; folding only applies what was recorded, so a later bug
fix never changes old state. RFC 6902 JSON Patch is a rendering of a delta for the wire, nothing is
stored as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stator.errors import BadDelta
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import ErasedRecord, Record


class Put(msgspec.Struct, frozen=True):
    """`record` is now what `id` holds; `was` is the seq that last touched it (0: it is new)."""

    collection: str
    id: str
    record: Record
    was: int = 0


class Drop(msgspec.Struct, frozen=True):
    """`id` holds nothing any more; `was` is the seq that last touched it."""

    collection: str
    id: str
    was: int = 0


Op = Put | Drop
Delta = list[Op]


class Version(msgspec.Struct, frozen=True):
    """One op as the log holds it: its position, and the key of its record."""

    seq: int
    n: int
    turn: int
    key: str
    op: Op


def first_ops(ops: Iterable[Op]) -> list[Op]:
    """The first op of each record: what it replaced is how the record was before them all."""
    found: dict[tuple[str, str], Op] = {}
    for op in ops:
        found.setdefault((op.collection, op.id), op)
    return list(found.values())


class _Decoders(dict[str, Callable[[bytes], Record]]):
    """The decoder of each collection, made when it is first needed: all of them take milliseconds of every start."""

    def __missing__(self, collection: str) -> Callable[[bytes], Record]:
        made = self[collection] = msgspec.json.Decoder(COLLECTIONS[collection].type).decode
        return made


record_decoders = _Decoders()


def decode_record(collection: str, data: bytes) -> Record:
    """A record from its canonical bytes."""
    try:
        return record_decoders[collection](data)
    except msgspec.ValidationError:
        if data.startswith(b'{"erased"') or data.startswith(b'{"type":"erased"'):
            return msgspec.json.decode(data, type=ErasedRecord)
        raise


def to_plain(record: Record) -> dict[str, Any]:
    """A record as plain data, for JSON."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_plain(collection: str, plain: Any) -> Record:
    """A typed record from plain data; `BadDelta` names the offending field."""
    if isinstance(plain, dict) and "erased" in plain and plain.get("type") == "erased":
        return ErasedRecord(erased=plain["erased"])
    try:
        return msgspec.convert(plain, COLLECTIONS[collection].type)
    except msgspec.ValidationError as error:
        raise BadDelta(f"not a {collection} record: {error}") from None


def json_patch(delta: Iterable[Op]) -> list[dict[str, Any]]:
    """The delta as RFC 6902 operations on `{collection: {id: record}}`."""
    return [_operation(op) for op in delta]


def _operation(op: Op) -> dict[str, Any]:
    path = f"/{op.collection}/{op.id.replace('~', '~0').replace('/', '~1')}"
    if isinstance(op, Drop):
        return {"op": "remove", "path": path}
    return {"op": "replace" if op.was else "add", "path": path, "value": to_plain(op.record)}
