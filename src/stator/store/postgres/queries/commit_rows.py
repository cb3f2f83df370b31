"""Rows of the log as commits, and the statements that read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from stator.errors import StoreCorrupt
from stator.model.log.chain import put_item
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Put, decode_record
from stator.model.values.ids import from_bytes
from stator.store.compress import decompress
from stator.store.postgres.connection import Statement
from stator.store.postgres.session_row import MAX_SEQ, key_of
from stator.store.postgres.text import digest
from stator.store.rows import from_row


def ranged(
    identifier: str, after: int, upto: int, newest: bool, limit: int, load: bool
) -> Statement:
    return Statement(
        "commits_range",
        {
            "session": key_of(identifier),
            "after": max(after, 0),
            "upto": min(upto, MAX_SEQ),
            "newest": newest,
            "limit": limit,
            "load": load,
        },
    )


def named(
    identifier: str,
    seqs: Collection[int],
    ids: Sequence[bytes],
    upto: int,
    load: bool,
    *,
    newest: bool = False,
    origins: Collection[tuple[str, str]] | None = None,
) -> Statement:
    values = {"session": key_of(identifier), "seqs": list(seqs), "ids": list(ids), "load": load}
    found = [digest(*origin) for origin in origins or ()]
    return Statement("commits_named", {**values, "origins": found, "newest": newest, "upto": upto})


def commit_of(row: tuple[Any, ...], load: bool = True) -> Commit:
    """The commit in a row of `commits_range` or `commits_named`."""
    owner, seq, identifier, hashed, prev, salts, body, digests, datas = row
    session, stored = from_bytes(owner, "session"), (identifier, hashed, salts, body)
    if load:
        return from_row(session, seq, prev, stored, loader(digests, datas))
    return with_records(from_row(session, seq, prev, stored, None), digests, datas)


def with_records(
    bare: Commit, digests: Sequence[bytes] | None, datas: Sequence[bytes] | None
) -> Commit:
    """A commit whose content stays in its blobs, with the records that are in blobs."""
    if not digests:
        return bare
    load = loader(digests, datas)
    delta = list(bare.delta)
    for n, op in enumerate(delta):
        item = bare.content.get(put_item(n))
        if isinstance(op, Put) and isinstance(item, Large):
            record = decode_record(op.collection, decompress(load(item.digest)))
            delta[n] = msgspec.structs.replace(op, record=record)
    return msgspec.structs.replace(bare, delta=delta)


def loader(digests: Sequence[bytes] | None, datas: Sequence[bytes] | None) -> Any:
    """Gives the blobs that came with a row."""
    blobs = dict(zip(digests or (), datas or (), strict=True))

    def load(address: bytes) -> bytes:
        try:
            return blobs[address]
        except KeyError:
            raise StoreCorrupt(f"blob {address.hex()[:12]} is missing") from None

    return load
