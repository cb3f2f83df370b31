"""Rows: how a commit is laid out in a log table, the same in every SQL store.

    id     16 bytes      hash   32 bytes
    salts  the commit's 16 random bytes; after an erasure, byte 1 and the 16 of each item left
    body   one codec byte, then msgpack of `Envelope`, compressed

Salts, ids and hashes are random, so they stay out of the compressed part. `prev` is the hash of the
row before (or the parent commit's, for the first row of a fork) and is not stored twice. Additive
only: a field may be appended to `Envelope` with a default, nothing may be removed or moved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from stator.errors import StatorError, StoreCorrupt
from stator.model.exchange.packed import Packed
from stator.model.log.chain import SALT_BYTES, put_item
from stator.model.log.commit import (
    FORMAT,
    Commit,
    Gone,
    Item,
    Large,
    Provenance,
)
from stator.model.log.delta import (
    Delta,
    Drop,
    Put,
    decode_record,
)
from stator.model.records.tables import COLLECTIONS, NUMBERED
from stator.model.records.types import ErasedRecord
from stator.model.values.digest import sha256
from stator.model.values.ids import (
    from_bytes,
    run_id,
    to_bytes,
)
from stator.store.compress import compress, decompress
from stator.store.kept_commits import KeptCommits

BLOB_MIN = 8 * 1024
"""Compressed content items from this size on are kept as blobs, once."""
GUESSED = 3 * BLOB_MIN
"""Content items up to this size usually compress to less than a blob."""
GUESS_MAX = BLOB_MIN - 512
"""No row is so much shorter than one of its items by itself: one this short holds none that is a blob."""

OWN = b"="
"""Abbreviates "the call that this commit begins", and the run that its epoch implies."""
TAIL = "~"
"""Abbreviates the digits a record id shares with the commit that minted it."""

INLINE, BLOB, ERASED, DERIVED = 0, 1, 2, 3
"""DERIVED: the input's hash, which is computed from the input."""
INPUT_HASH_BYTES = 66
"""How long `input_hash` is."""
EXPLICIT = b"\x01"


_kept = KeptCommits()
NOT_A_COMMIT = "its bytes are not those of a commit"
UNREADABLE = (StatorError, msgspec.MsgspecError, ValueError, TypeError, AttributeError)
"""What decoding a damaged row raises."""


class Stored(msgspec.Struct, array_like=True, omit_defaults=True):
    """One content item: its bytes, or the digest of its blob, or what erasure left."""

    name: str
    data: bytes | None = None
    state: int = INLINE
    number: int = 0
    """Size of a blob's content, or the seq of the erasure."""


class Envelope(msgspec.Struct, array_like=True, omit_defaults=True):
    """Everything of a commit but id, hash, prev, salts and what the row's key says."""

    kind: str
    turn: int
    at: int
    items: list[Stored]
    ops: list[tuple[int, str, int]] = []
    actor: str = "agent"
    run: bytes = OWN
    epoch: int = 0
    tool: str = ""
    call: bytes = b""
    status: str = ""
    effect: str = ""
    attempt: int = 0
    source: str = "system"
    trust: str = "verified"
    happened: int = 0
    """µs relative to `at`; 0 when they are the same."""
    cause: str = ""
    parent: str = ""
    origin: tuple[str, str] | None = None
    inputs: list[int | str] = []
    trace: str = ""
    v: int = FORMAT


class Row(msgspec.Struct, frozen=True):
    """A commit as the columns of a log table, and the blobs it needs beside it."""

    id: bytes
    hash: bytes
    salts: bytes
    body: bytes
    blobs: tuple[tuple[bytes, bytes, int], ...] = ()
    """(keyed digest, compressed bytes, size)."""


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Envelope).decode

Digest = Callable[[bytes], bytes]
"""The keyed digest under which a blob is addressed."""
Load = Callable[[bytes], bytes]
"""Compressed blob bytes by digest."""


def to_row(commit: Commit, digest: Digest, *, guess: bool = True) -> Row:
    """The row of a commit.

    Whether a content item is a blob is known once it is compressed. Most that are long enough to
    ask are none and would be compressed again in their envelope; so it is guessed first that they
    are none, and asked only if the whole row is no shorter than a blob.
    """
    items: list[Stored] = []
    blobs: list[tuple[bytes, bytes, int]] = []
    guessed = False
    for name, item in commit.content.items():
        if type(item) is bytes:
            if name == "input_hash" and item == input_hash(commit.content.get("input")):
                items.append(Stored(name, None, DERIVED))
            elif len(item) < BLOB_MIN:
                items.append(Stored(name, item))
            elif guess and len(item) < GUESSED:
                items.append(Stored(name, item))
                guessed = True
            else:
                items.append(_stored(name, item, digest, blobs))
        elif isinstance(item, Gone):
            items.append(Stored(name, item.commitment, ERASED, item.by))
        else:
            raise StoreCorrupt(f"{name} of commit {commit.id} is not loaded")
    body = compress(_pack(_envelope(commit, items)))
    if guessed and len(body) > GUESS_MAX:
        return to_row(commit, digest, guess=False)
    salts = commit.salt or _packed_salts(commit)
    key = bytes.fromhex(commit.id[2:])
    return Row(key, bytes.fromhex(commit.hash), salts, body, tuple(blobs))


def _envelope(commit: Commit, items: list[Stored]) -> Envelope:
    digits, tail = commit.id[2:], commit.id[-16:]
    call, run, source, at = commit.call, commit.run, commit.provenance, commit.at
    ops: list[tuple[int, str, int]] = []
    for op in commit.delta:
        number = COLLECTIONS[op.collection].number
        short = TAIL + op.id[16:] if op.id.startswith(tail) else op.id
        ops.append((number if type(op) is Put else -number, short, op.was))
    # Positional, in the order of `Envelope`: twice as fast as by name.
    return Envelope(
        commit.kind,
        commit.turn,
        at,
        items,
        ops,
        commit.actor,
        OWN if run == run_id(commit.session, commit.epoch) else bytes.fromhex(run[2:]),
        commit.epoch,
        commit.tool,
        OWN if call[2:] == digits else bytes.fromhex(call[2:]),
        commit.status,
        commit.effect,
        commit.attempt,
        source.source,
        source.trust,
        commit.happened - at,
        commit.cause,
        commit.parent,
        commit.origin,
        commit.inputs,
        commit.trace,
        commit.v,
    )


def _packed_salts(commit: Commit) -> bytes:
    """The salts of what an erasure left."""
    kept = (name for name, item in commit.content.items() if not isinstance(item, Gone))
    return EXPLICIT + b"".join(commit.salts[name] for name in kept)


def input_hash(item: Item | None) -> bytes | None:
    """The canonical bytes of an input's hash, from the input's."""
    if not isinstance(item, bytes):
        return None
    return b'"%s"' % sha256(item).hexdigest().encode()


def _stored(
    name: str, item: bytes, digest: Digest, blobs: list[tuple[bytes, bytes, int]]
) -> Stored:
    packed = compress(item)
    if len(packed) < BLOB_MIN:
        return Stored(name, item)
    address = digest(item)
    blobs.append((address, packed, len(item)))
    return Stored(name, address, BLOB, len(item))


def envelope_of(body: bytes) -> Envelope:
    """The envelope in a row's body; `StoreCorrupt` if it is not one."""
    try:
        return _unpack(decompress(body))
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreCorrupt(NOT_A_COMMIT) from error


def from_row(
    session: str, seq: int, prev: bytes, row: tuple[bytes, bytes, bytes, bytes], load: Load | None
) -> Commit:
    """The commit in a row (id, hash, salts, body); without `load`, blobs stay `Large`.

    `StoreCorrupt` names the session and the seq of a row that holds no commit.
    """
    kept = _kept.find(session, seq, prev, row) if load is None else None
    if kept is not None:
        return kept
    try:
        found = _decoded(session, seq, prev, row, load)
    except UNREADABLE as error:
        raise damaged(session, seq, error) from error
    if load is None:
        _kept.keep(prev, row, found)
    return found


def to_packed(session: str, seq: int, row: tuple[bytes, bytes, bytes, bytes], load: Load) -> Packed:
    """A row (id, hash, salts, body) as a bundle holds it, without making a commit of it."""
    try:
        return _as_packed(session, seq, row, load)
    except UNREADABLE as error:
        raise damaged(session, seq, error) from error


def damaged(session: str, seq: int, error: Exception) -> StoreCorrupt:
    """The error for a row that holds no commit, from the one of `UNREADABLE` that decoding it raised."""
    reason = error.what if isinstance(error, StatorError) else NOT_A_COMMIT
    return StoreCorrupt(
        f"@{seq} of session {session} cannot be read: {reason}",
        hint="stator verify lists all that is damaged",
        session=session,
        seq=seq,
        reason=reason,
    )


def _as_packed(
    session: str, seq: int, row: tuple[bytes, bytes, bytes, bytes], load: Load
) -> Packed:
    key, hashed, salts, body = row
    envelope = envelope_of(body)
    content = _content(envelope, load)
    tail = key.hex()[-16:]
    explicit = _is_explicit(salts)
    run = envelope.run
    # Positional, as `bundle.pack` has it: the order is that of `Packed`.
    return Packed(
        key,
        hashed,
        seq,
        envelope.kind,
        envelope.turn,
        envelope.at,
        {
            name: (item.by, item.commitment) if isinstance(item, Gone) else item
            for name, item in content.items()
            if not isinstance(item, Large)  # there is none: all of it is loaded
        },
        [
            (number, tail + short[1:] if short[:1] == TAIL else short, was)
            for number, short, was in envelope.ops
        ],
        b"" if explicit else salts,
        _unpacked_salts(salts, content) if explicit else {},
        envelope.actor,
        to_bytes(run_id(session, envelope.epoch)) if run == OWN else run,
        envelope.epoch,
        envelope.at + envelope.happened,
        envelope.tool,
        key if envelope.call == OWN else envelope.call,
        envelope.status,
        envelope.effect,
        envelope.attempt,
        envelope.source,  # type: ignore[arg-type]
        envelope.trust,  # type: ignore[arg-type]
        envelope.cause,
        envelope.parent,
        envelope.origin,
        envelope.inputs,
        envelope.trace,
        envelope.v,
    )


def _decoded(
    session: str, seq: int, prev: bytes, row: tuple[bytes, bytes, bytes, bytes], load: Load | None
) -> Commit:
    key, hashed, salt_bytes, body = row
    envelope = envelope_of(body)
    identifier = from_bytes(key, "commit")
    content = _content(envelope, load)
    explicit = _is_explicit(salt_bytes)
    return Commit(
        id=identifier,
        session=session,
        seq=seq,
        kind=envelope.kind,
        turn=envelope.turn,
        at=envelope.at,
        hash=hashed.hex(),
        prev=prev.hex(),
        v=envelope.v,
        actor=envelope.actor,
        attempt=envelope.attempt,
        call=call_of(envelope, key),
        cause=envelope.cause,
        content=content,
        delta=_delta(envelope, content, identifier[-16:]),
        effect=envelope.effect,
        epoch=envelope.epoch,
        happened=envelope.at + envelope.happened,
        inputs=envelope.inputs,
        origin=envelope.origin,
        parent=envelope.parent,
        provenance=_provenance(envelope.source, envelope.trust),
        run=_unpacked_run(envelope, session),
        salt=b"" if explicit else salt_bytes,
        salts=_unpacked_salts(salt_bytes, content) if explicit else {},
        status=envelope.status,
        tool=envelope.tool,
        trace=envelope.trace,
    )


@lru_cache(maxsize=64)
def _provenance(source: str, trust: str) -> Provenance:
    return Provenance(source, trust)  # type: ignore[arg-type]


def call_of(envelope: Envelope, identifier: bytes) -> str:
    """The id of the call that a commit belongs to; "" if to none."""
    call = envelope.call
    return "c_" + (identifier if call == OWN else call).hex() if call else ""


def op_id(short: str, digits: str) -> str:
    """The id of the record that an op touches; `digits` are the last 16 of its commit's id."""
    return digits + short[1:] if short.startswith(TAIL) else short


def content_size(envelope: Envelope) -> int:
    """Bytes of a commit's content items in canonical form, those of its blobs included."""
    size, has_input = 0, False
    for item in envelope.items:
        if item.state == INLINE and not item.number:
            size += len(item.data or b"")
        elif item.state == BLOB:
            size += item.number
        elif item.state == DERIVED and not item.number:
            size += INPUT_HASH_BYTES if has_input else 0
        elif item.state != ERASED:
            raise StoreCorrupt(NOT_A_COMMIT)
        has_input |= item.name == "input" and item.state != ERASED
    return size


def _content(envelope: Envelope, load: Load | None) -> dict[str, Item]:
    content: dict[str, Item] = {}
    for stored in envelope.items:
        state = stored.state
        if (
            state == INLINE and not stored.number
        ):  # no hash covers it, so that it must be what was written
            content[stored.name] = stored.data or b""
        elif state == ERASED:
            content[stored.name] = Gone(stored.number, stored.data or b"")
        elif state == BLOB:
            content[stored.name] = _large(stored, load)
        elif state == DERIVED and not stored.number:
            given = content.get("input")
            if not isinstance(given, Large):  # else it is not loaded either
                content[stored.name] = input_hash(given) or b""
        else:
            raise StoreCorrupt(NOT_A_COMMIT)
    return content


def content_of(envelope: Envelope) -> dict[str, Item]:
    """The content items of a commit; blobs stay `Large`."""
    return _content(envelope, None)


def _is_explicit(salts: bytes) -> bool:
    """Whether each item left has a salt of its own, as after an erasure."""
    return salts.startswith(EXPLICIT) and len(salts) % SALT_BYTES == 1


def _large(stored: Stored, load: Load | None) -> Item:
    digest = stored.data or b""
    if load is None:
        return Large(digest, stored.number)
    data = decompress(load(digest))
    if len(data) != stored.number:
        raise StoreCorrupt(f"its {stored.name} has another size than the one noted")
    return data


def _unpacked_run(envelope: Envelope, session: str) -> str:
    if envelope.run == OWN:
        return run_id(session, envelope.epoch)
    return from_bytes(envelope.run, "run") if envelope.run else ""


def _unpacked_salts(data: bytes, content: dict[str, Item]) -> dict[str, bytes]:
    kept = [name for name, item in content.items() if not isinstance(item, Gone)]
    return {
        name: data[1 + n * SALT_BYTES : 1 + (n + 1) * SALT_BYTES] for n, name in enumerate(kept)
    }


def _delta(envelope: Envelope, content: dict[str, Item], tail: str) -> Delta:
    delta: Delta = []
    for n, (number, short, was) in enumerate(envelope.ops):
        identifier = op_id(short, tail)
        known = NUMBERED.get(abs(number))
        if known is None:
            raise StoreCorrupt(f"no collection {number}", hint="a newer release may read it")
        collection = known.name
        if number < 0:
            delta.append(Drop(collection, identifier, was))
            continue
        item = content.get(put_item(n), b"")
        if isinstance(item, bytes):
            delta.append(Put(collection, identifier, decode_record(collection, item), was))
        else:
            by = item.by if isinstance(item, Gone) else 0
            delta.append(Put(collection, identifier, ErasedRecord(erased=by), was))
    return delta
