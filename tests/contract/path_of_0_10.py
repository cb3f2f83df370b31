"""How 0.10 made a row of a draft: kept as it was, so that `test_same_rows` can compare every later path with it.

Draft → preimage → commit → envelope → row, and what the indexes need of a commit. Nothing here is to be improved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from stator.errors import StoreCorrupt, TooLarge
from stator.model.log.chain import SALT_BYTES, Preimage, commitment, digest, item_salt, put_item
from stator.model.log.check import check_draft, encode_checked, encode_record
from stator.model.log.clean_record import clean_record
from stator.model.log.commit import (
    CONTENT,
    FORMAT,
    Change,
    Commit,
    Draft,
    Gone,
    Item,
    Reset,
    Upsert,
    size_of,
)
from stator.model.log.delta import Delta, Put
from stator.model.log.edges import LogView, resolved, scrubbed_names
from stator.model.log.redact import Redactor
from stator.model.log.reduce import reduce
from stator.model.log.turn_keys import names_of
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS
from stator.model.records.types import KEYLESS, ErasedRecord
from stator.model.values import canon
from stator.model.values.ids import check_id, run_id, to_bytes
from stator.store.compress import compress
from stator.store.sqlite.projection import NAMING, Tailed
from stator.store.sqlite.versions import Version

CONTENT_MAX = 64 * 1024 * 1024


SUMMARY_CHARS = 120


SUMMARISED = 200


SHORT = 12


_CHECKED = frozenset(("id", "session", "kind", "actor", "call", "parent", "run"))


_STRUCTURE = tuple(
    field.name
    for field in msgspec.structs.fields(Draft)
    if field.type is str and field.name not in _CHECKED and field.name not in CONTENT
)


_structure: Callable[[Draft], tuple[str, ...]] = attrgetter(*_STRUCTURE)


Salts = Callable[[int], bytes]


class Place(msgspec.Struct, frozen=True):
    """What the store knows of where the commit goes."""

    seq: int
    turn: int
    at: int
    prev: str


class Sealed(msgspec.Struct, frozen=True):
    """A commit ready to be written, and the key each of its ops answers to."""

    commit: Commit
    keys: list[str]


def seal(
    draft: Draft, place: Place, view: LogView, redactor: Redactor | None, salts: Salts
) -> Sealed:
    """The commit a draft becomes at this place. Raises `InvalidInput` and changes nothing."""
    encoded: dict[int, bytes] = {}
    draft = scrub(draft, redactor, encoded)
    inputs = resolved(draft, view, place.seq) if draft.inputs else []
    delta, keys = reduce(draft, view)
    content = encode_content(draft, redactor)
    salt = salts(SALT_BYTES)
    hashes = {name: committed(salt, name, data) for name, data in content.items()}
    ops = _commit_to_ops(delta, encoded, content, salt)
    if not content:
        salt = b""  # no hash would cover it, so it could be changed unseen
    if sum(map(len, content.values())) > CONTENT_MAX:
        raise _too_large(content, draft)
    happened = draft.happened or place.at
    # Positional on purpose: twenty-five keywords make this 5 µs slower, as much again as encoding and
    # hashing take, and every append pays it. The order is that of `Preimage`. A slip cannot go
    # unseen: `chain.rehash` passes the same fields by name, and every check of a chain compares.
    whole = digest(
        Preimage(
            draft.actor,
            place.at,
            draft.attempt,
            draft.call,
            draft.cause,
            hashes,
            ops,
            draft.effect,
            draft.epoch,
            happened,
            draft.id,
            inputs,
            draft.kind,
            draft.origin or (),
            draft.parent,
            place.prev,
            (draft.provenance.source, draft.provenance.trust),
            draft.run,
            place.seq,
            draft.session,
            draft.status,
            draft.tool,
            draft.trace,
            place.turn,
            1,
        )
    )
    items: dict[str, Item] = content  # type: ignore[assignment]
    commit = Commit(
        id=draft.id,
        session=draft.session,
        seq=place.seq,
        kind=draft.kind,
        turn=place.turn,
        at=place.at,
        hash=whole,
        prev=place.prev,
        actor=draft.actor,
        attempt=draft.attempt,
        call=draft.call,
        cause=draft.cause,
        content=items,
        delta=delta,
        effect=draft.effect,
        epoch=draft.epoch,
        happened=happened,
        inputs=inputs,
        origin=draft.origin,
        parent=draft.parent,
        provenance=draft.provenance,
        run=draft.run,
        salt=salt,
        status=draft.status,
        tool=draft.tool,
        trace=draft.trace,
    )
    return Sealed(commit, keys)


def committed(salt: bytes, name: str, data: bytes) -> str:
    return commitment(item_salt(salt, name), data)


def _commit_to_ops(
    delta: Delta, encoded: dict[int, bytes], content: dict[str, bytes], salt: bytes
) -> list[list[Any]]:
    """The ops as the preimage holds them: each put with a commitment to its record, which joins `content`."""
    ops: list[list[Any]] = []
    for n, op in enumerate(delta):
        if type(op) is Put:
            name = put_item(n)
            data = encoded.get(id(op.record)) or encode_record(op.record)
            content[name] = data
            ops.append(["put", op.collection, op.id, op.was, committed(salt, name, data)])
        else:
            ops.append(["drop", op.collection, op.id, op.was])
    return ops


def _too_large(content: dict[str, bytes], draft: Draft) -> TooLarge:
    return TooLarge(
        f"commit of {sum(map(len, content.values())):,} bytes; at most {CONTENT_MAX:,} fit",
        hint="record a digest and keep the bytes elsewhere",
        commit=draft.id,
    )


def encode_content(draft: Draft, redactor: Redactor | None) -> dict[str, bytes]:
    """Canonical, redacted bytes of each content field the draft has, in stored order."""
    scrubbed = redactor.scrub if redactor else None
    content: dict[str, bytes] = {}
    if draft.principal:
        content["principal"] = canon.dumps(draft.principal, scrub=scrubbed)
    if draft.key:
        # An opening's key is what everything else is redacted with.
        content["key"] = canon.dumps(draft.key, scrub=None if draft.kind == "open" else scrubbed)
    if draft.input is not UNSET:
        data = content["input"] = canon.dumps(draft.input, path="$.input", scrub=scrubbed)
        if draft.kind == "call":
            # Of the redacted bytes: a program that runs again redacts its arguments the same way, and its call is
            # found by this hash.
            content["input_hash"] = b'"%s"' % sha256(data).hexdigest().encode()
    if draft.output is not UNSET:
        plain = canon.to_plain(draft.output, path="$.output", scrub=scrubbed)
        data = content["output"] = canon.encode(plain)
        if len(data) > SUMMARISED and not draft.output_summary:
            content["output_summary"] = canon.encode(summarise(plain, len(data)))
    if draft.output_summary:
        content["output_summary"] = canon.dumps(draft.output_summary, scrub=scrubbed)
    if draft.usage is not None:
        # No scrub: `scrub` has cleaned the names of the units, and the rest are numbers.
        content["usage"] = canon.dumps(draft.usage)
    if draft.why:
        content["why"] = canon.dumps(draft.why, scrub=scrubbed)
    return content


def summarise(plain: Any, size: int) -> str:
    """One short line about a long output: how it starts, or what it is made of."""
    if isinstance(plain, str):
        start = plain[: SUMMARY_CHARS * 2].strip().partition("\n")[0][:SUMMARY_CHARS]
        return f"{start}… ({size:,} bytes)"
    if isinstance(plain, dict):
        keys = ", ".join(sorted(plain)[:8])[:SUMMARY_CHARS]
        return f"object with {len(plain)} keys: {keys} ({size:,} bytes)"
    if isinstance(plain, list):
        return f"list of {len(plain)} ({size:,} bytes)"
    return f"{type(plain).__name__} ({size:,} bytes)"


def scrub(
    draft: Draft, redactor: Redactor | None, encoded: dict[int, bytes] | None = None
) -> Draft:
    """The draft with secrets gone from its structural text and its changes; shape and ids checked.

    `encoded` collects the bytes of the records on the way, by their identity.
    """
    check_draft(draft)
    if draft.call:
        check_id(draft.call, "call")
    if draft.parent:
        check_id(draft.parent, "call")
    if draft.run and draft.run != run_id(draft.session, draft.epoch):
        check_id(draft.run, "run")
    found: dict[str, Any] = {}
    if redactor is not None and (
        len("".join(_structure(draft))) >= SHORT
        or draft.origin
        or draft.usage
        or any(type(item) is not int for item in draft.inputs)
    ):
        found = _scrub_structure(draft, redactor)
    if draft.changes:
        changes = tuple(_scrub_change(change, redactor, encoded) for change in draft.changes)
        if any(new is not old for new, old in zip(changes, draft.changes, strict=True)):
            found["changes"] = changes
    return msgspec.structs.replace(draft, **found) if found else draft


def _scrub_structure(draft: Draft, redactor: Redactor) -> dict[str, Any]:
    """The structural fields that held a secret, as they are without it."""
    found: dict[str, Any] = {}
    for name, text in zip(_STRUCTURE, _structure(draft), strict=True):
        if len(text) >= SHORT and (clean := redactor.scrub(text)) is not text:
            found[name] = clean
    if draft.origin:
        found["origin"] = (redactor.scrub(draft.origin[0]), redactor.scrub(draft.origin[1]))
    if draft.inputs:
        found["inputs"] = scrubbed_names(draft.inputs, redactor.scrub)
    if draft.usage:
        found["usage"] = {redactor.scrub(unit): n for unit, n in draft.usage.items()}
    return found


def _scrub_change(
    change: Change, redactor: Redactor | None, encoded: dict[int, bytes] | None
) -> Change:
    if isinstance(change, Reset) and change.record is not None:
        encode_checked(change.collection, change.record)  # it was scrubbed when it was recorded
    if not isinstance(change, Upsert):
        return change
    if redactor is None:
        record = clean_record(change.record, None)
    else:
        record = clean_record(change.record, redactor.scrub, redactor.passes)
    data = encode_checked(change.collection, record)
    if encoded is not None:
        encoded[id(record)] = data
    return change if record is change.record else Upsert(change.collection, record)


BLOB_MIN = 8 * 1024


GUESSED = 3 * BLOB_MIN


GUESS_MAX = BLOB_MIN - 512


OWN = b"="


TAIL = "~"


INLINE, BLOB, ERASED, DERIVED = 0, 1, 2, 3


EXPLICIT = b"\x01"


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


Digest = Callable[[bytes], bytes]


def to_row(commit: Commit, digest: Digest) -> Row:
    """The row of a commit.

    Whether a content item is a blob is known once it is compressed. Most that are long enough to
    ask are none and would be compressed again in their envelope; so it is guessed first that they
    are none, and asked only if the whole row is no shorter than a blob.
    """
    packed, blobs, guessed = pack(commit, digest, guess=True)
    body = compress(packed)
    if guessed and len(body) > GUESS_MAX:
        packed, blobs, _ = pack(commit, digest)
        body = compress(packed)
    salts = commit.salt or _packed_salts(commit)
    return Row(to_bytes(commit.id), bytes.fromhex(commit.hash), salts, body, blobs)


def pack(
    commit: Commit, digest: Digest, *, guess: bool = False
) -> tuple[bytes, tuple[tuple[bytes, bytes, int], ...], bool]:
    """A commit's envelope before compression, the blobs it needs, and whether that is a guess."""
    items, blobs, guessed = _stored_items(commit, digest, guess)
    return _pack(_envelope(commit, items)), tuple(blobs), guessed


def _stored_items(
    commit: Commit, digest: Digest, guess: bool
) -> tuple[list[Stored], list[tuple[bytes, bytes, int]], bool]:
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
    return items, blobs, guessed


def _envelope(commit: Commit, items: list[Stored]) -> Envelope:
    tail = commit.id[-16:]
    call = commit.call
    return Envelope(
        commit.kind,
        commit.turn,
        commit.at,
        items,
        [
            (
                COLLECTIONS[op.collection].number * (1 if type(op) is Put else -1),
                TAIL + op.id[16:] if op.id.startswith(tail) else op.id,
                op.was,
            )
            for op in commit.delta
        ],
        commit.actor,
        _packed_run(commit),
        commit.epoch,
        commit.tool,
        b"" if not call else OWN if call[2:] == commit.id[2:] else to_bytes(call),
        commit.status,
        commit.effect,
        commit.attempt,
        commit.provenance.source,
        commit.provenance.trust,
        commit.happened - commit.at,
        commit.cause,
        commit.parent,
        commit.origin,
        commit.inputs,
        commit.trace,
        commit.v,
    )


def _packed_run(commit: Commit) -> bytes:
    if commit.run == run_id(commit.session, commit.epoch):
        return OWN
    return to_bytes(commit.run) if commit.run else b""


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


def tailed(commit: Commit, keys: Sequence[str]) -> Tailed:
    """A commit as the indexes see it; `keys` are those of its ops."""
    versions: list[tuple[int, Version]] = []
    seq, turn, content = commit.seq, commit.turn, commit.content
    for n, op in enumerate(commit.delta):
        small = op.collection in BOOKKEEPING
        body: Any = None
        if is_put := type(op) is Put:
            # The content item is gone; the mark itself is kept as the body, so that a reader sees an erasure
            # and not a record that was never there.
            if type(op.record) is ErasedRecord:
                body = msgspec.json.encode(op.record)
            elif not small:
                body = content[put_item(n)]
        key = None if small or keys[n][:1] == KEYLESS else keys[n]
        version = (seq, n, int(is_put), op.was, turn, op.id, key, body)
        versions.append((COLLECTIONS[op.collection].number, version))
    return Tailed(
        seq,
        to_bytes(commit.id),
        commit.kind,
        turn,
        commit.at,
        commit.status,
        commit.call,
        commit.tool,
        commit.effect,
        commit.cause,
        commit.attempt,
        commit.origin,
        sum(len(item) if type(item) is bytes else size_of(item) for item in content.values()),
        versions,
        commit.used,
        names_of(commit) if commit.kind in NAMING else (),
    )
