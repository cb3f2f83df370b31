"""Turns commits and records into JSON, with exactly the field names they are recorded under.

The JSON is ASCII: control characters become JSON escapes, so that a terminal can show it safely and nothing is lost.
Values that a tool or a user supplied are in their recorded, tagged form (see `model.values.canon`).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stator.model.log.chain import put_item
from stator.model.log.commit import (
    CONTENT,
    DATA,
    Commit,
    Gone,
    Item,
    Large,
    size_of,
)
from stator.model.log.delta import Op, Put
from stator.model.records.types import ErasedRecord, Record
from stator.model.values import canon

FIELDS = (
    "id", "v", "session", "seq", "run", "epoch", "turn", "at", "happened", "origin", "kind",
    "actor", "principal", "tool", "call", "parent", "key", "attempt", "effect", "status", "cause",
    "input", "input_hash", "output", "output_summary", "usage", "delta", "provenance", "inputs",
    "why", "trace", "prev", "hash",
)  # fmt: skip
"""All fields of a commit, in the order in which they are printed."""
_SECRET_KEYS = frozenset({"open", "fork"})
"""Kinds whose `key` is the session's redaction key, which is never shown."""


def dumps(plain: Any, *, indent: int | None = None) -> str:
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(plain, indent=indent, separators=separators, default=_other)


def _other(value: object) -> object:
    if isinstance(value, bytes):
        return {"$b": canon.to_plain(value)["$b"]}
    return msgspec.to_builtins(value)


def commit(found: Commit) -> dict[str, Any]:
    """A commit with all its fields: null for an empty one, a digest for content that was not loaded."""
    plain: dict[str, Any] = dict.fromkeys(FIELDS)
    for name in FIELDS:
        if name in CONTENT:
            plain[name] = _content(found, name)
        elif name == "delta":
            plain[name] = [_recorded(found, n, op) for n, op in enumerate(found.delta)]
        else:
            plain[name] = _structural(getattr(found, name))
    if names := found.data_names:
        plain["data"] = {name: _bytes(found.content[DATA + name]) for name in names}
    plain["happened"] = found.when
    plain["epoch"], plain["attempt"] = found.epoch, found.attempt
    plain["inputs"] = list(found.inputs)
    plain["provenance"] = {"source": found.provenance.source, "trust": found.provenance.trust}
    return plain


def _recorded(found: Commit, n: int, op: Op) -> dict[str, Any]:
    """The nth change of a commit; a record that was not loaded is its digest and size."""
    plain = operation(op)
    item = found.content.get(put_item(n))
    if isinstance(item, Large):
        plain["record"] = {"digest": item.digest.hex(), "size": item.size}
    return plain


def _structural(value: Any) -> Any:
    if value in ("", None):
        return None
    return value if isinstance(value, (str, int)) else msgspec.to_builtins(value)


def _content(found: Commit, name: str) -> Any:
    item = found.content.get(name)
    if item is None or (name == "key" and found.kind in _SECRET_KEYS):
        return None
    if isinstance(item, Gone):
        return {"erased": item.by}
    if isinstance(item, Large):
        return {"digest": item.digest.hex(), "size": item.size}
    return canon.decode(item)


def content_within(found: Commit, name: str, most: int) -> Any:
    """A content of a commit; of more than so many bytes, their number."""
    item = found.content.get(name)
    is_long = isinstance(item, bytes) and len(item) > most
    return {"size": size_of(item)} if item is not None and is_long else _content(found, name)


def _bytes(item: Item) -> dict[str, int]:
    """Bytes by their size: they can be read with the library."""
    return {"erased": item.by} if isinstance(item, Gone) else {"size": size_of(item)}


def operation(op: Op) -> dict[str, Any]:
    """One change of a delta."""
    return {
        "op": "put" if isinstance(op, Put) else "drop",
        "collection": op.collection,
        "id": op.id,
        "record": record(op.record) if isinstance(op, Put) else None,
        "was": op.was,
    }


def record(found: Record | None) -> dict[str, Any] | None:
    """A record with all its fields, including those with default values."""
    if isinstance(found, ErasedRecord):
        return {"erased": found.erased}
    if found is None:
        return None
    return {name: msgspec.to_builtins(getattr(found, name)) for name in found.__struct_fields__}
