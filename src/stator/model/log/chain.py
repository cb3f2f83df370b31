"""The hash chain: salted commitments to content, and the hash of each commit over the one before.

    salt of an item = first 16 bytes of SHA-256(commit's random salt ‖ item's name)
    commitment      = SHA-256(salt of the item ‖ bytes)      one per content item and per put record
    hash            = SHA-256(TAG ‖ canonical JSON of `Preimage`)

The preimage holds structure and commitments, never content: erasing bytes and salt of an item
leaves every hash valid, and without the salt the bytes cannot be guessed. A chain shows changes to a reader who
knows its head; it cannot prevent a rewrite that recomputes all of it, which is what an exported head is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from stator.errors import BadDelta, BrokenChain
from stator.model.log.commit import (
    CONTENT,
    Commit,
    Gone,
    Item,
)
from stator.model.log.delta import Delta, Put
from stator.model.values.digest import sha256

TAG = b"stator.commit/1\n"
GENESIS = "0" * 64
"""`prev` of a session's first commit, unless it is a fork: then it is its parent commit's hash."""
SALT_BYTES = 16
TRACES = {"input": "input_hash", "output": "output_summary"}
"""Fields that reveal a content item: they are erased with it."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Preimage(msgspec.Struct):
    """What a commit's hash covers. Fields in canonical order, so that encoding needs no sort."""

    actor: str
    at: int
    attempt: int
    call: str
    cause: str
    content: dict[str, str]
    delta: list[list[Any]]
    effect: str
    epoch: int
    happened: int
    id: str
    inputs: Sequence[int | str]
    kind: str
    origin: Sequence[str]
    parent: str
    prev: str
    provenance: Sequence[str]
    run: str
    seq: int
    session: str
    status: str
    tool: str
    trace: str
    turn: int
    v: int


def commitment(salt: bytes, data: bytes) -> str:
    return sha256(salt + data).hexdigest()


def item_salt(salt: bytes, name: str) -> bytes:
    """One item's salt. Knowing some of a commit's item salts reveals nothing about the others."""
    return sha256(salt + name.encode()).digest()[:SALT_BYTES]


def commitments(
    content: Mapping[str, Item], salt: bytes, salts: Mapping[str, bytes]
) -> dict[str, str]:
    """The commitment to each item of a commit with that salt, or with the salts that an erasure left.

    An erased item left its own. One that is not loaded has none.
    """
    found: dict[str, str] = {}
    for name, item in content.items():
        if type(item) is bytes:
            # `commitment` of `item_salt`, written out: every append does this for every item.
            own = (
                sha256(salt + name.encode()).digest()[:SALT_BYTES] if salt else salts.get(name, b"")
            )
            found[name] = sha256(own + item).hexdigest()
        elif isinstance(item, Gone):
            found[name] = item.commitment.hex()
    return found


def hashed_ops(delta: Delta, hashes: dict[str, str]) -> list[list[Any]]:
    """The ops as the preimage holds them: each put with the commitment to its record, which leaves `hashes`."""
    ops: list[list[Any]] = []
    for n, op in enumerate(delta):
        if type(op) is Put:
            put = hashes.pop(put_item(n), None) or commitment(b"", b"")
            ops.append(["put", op.collection, op.id, op.was, put])
        else:
            ops.append(["drop", op.collection, op.id, op.was])
    return ops


def salts_of(commit: Commit) -> dict[str, bytes]:
    """The salt of every item that is still there."""
    if not commit.salt:
        return commit.salts
    return {name: item_salt(commit.salt, name) for name in commit.content}


def without(commit: Commit, names: set[str], by: int) -> Commit:
    """The commit with those content items erased: their commitments stay, bytes and salts go."""
    names = with_traces(names)
    salts = salts_of(commit)
    content: dict[str, Item] = {}
    for name, item in commit.content.items():
        content[name] = item
        if name in names and isinstance(item, bytes):
            content[name] = Gone(by, bytes.fromhex(commitment(salts[name], item)))
    # The commit's own salt goes, since the erased item's salt could be computed from it. The salts of the
    # other items are kept one by one instead.
    left = {name: salts[name] for name, item in content.items() if not isinstance(item, Gone)}
    return structs.replace(commit, content=content, salt=b"", salts=left)


def with_traces(names: set[str]) -> set[str]:
    """Items to be erased, and those that would reveal them: a hash, or a summary."""
    return names | {trace for name, trace in TRACES.items() if name in names}


def to_erase(commit: Commit, fields: Sequence[str] = ()) -> set[str]:
    """The content items an erasure of those fields takes; none named: all that may go.

    A session's own record always stays: without it the session could neither be found nor ended. Its
    redaction key stays unless it is named: without it, a turn whose key holds a secret would not be found again.
    """
    own = {put_item(n) for n, op in enumerate(commit.delta) if op.collection == "session"}
    spared = own | ({"key"} if commit.kind == "open" else set())
    unknown = set(fields) - set(CONTENT) - set(commit.content)
    if unknown:
        raise BadDelta(
            f"@{commit.seq} has no content called {', '.join(sorted(unknown))}",
            hint="it has: " + ", ".join(commit.content),
        )
    if own & set(fields):
        raise BadDelta(
            f"@{commit.seq} holds the session's own record, which cannot be erased",
            hint="to remove its name, purge the session",
        )
    return (set(fields) or set(commit.content) - spared) & set(commit.content)


def digest(preimage: Preimage) -> str:
    return sha256(TAG + _encode(preimage)).hexdigest()


class _PutItems(dict[int, str]):
    """The usual names, made once."""

    def __missing__(self, n: int) -> str:
        return f"put{n}"


put_item: Callable[[int], str] = _PutItems({n: f"put{n}" for n in range(64)}).__getitem__
"""The name under which the nth op's record is kept among a commit's content items."""


def rehash(commit: Commit) -> str:
    """The hash a commit must have, recomputed from everything that is stored of it."""
    hashes = commitments(commit.content, commit.salt, commit.salts)
    for name in commit.content.keys() - hashes.keys():
        raise BrokenChain(f"{name} of commit {commit.id} is not loaded, so it cannot be checked")
    delta = hashed_ops(commit.delta, hashes)
    source = commit.provenance
    # Positional, as in `seal`, in the order of `Preimage`. Logs of earlier releases, which were hashed by name, verify.
    return digest(
        Preimage(
            commit.actor,
            commit.at,
            commit.attempt,
            commit.call,
            commit.cause,
            hashes,
            delta,
            commit.effect,
            commit.epoch,
            commit.happened,
            commit.id,
            commit.inputs,
            commit.kind,
            commit.origin or (),
            commit.parent,
            commit.prev,
            (source.source, source.trust),
            commit.run,
            commit.seq,
            commit.session,
            commit.status,
            commit.tool,
            commit.trace,
            commit.turn,
            commit.v,
        )
    )


def check(commit: Commit, prev: str, seq: int) -> str | None:
    """What is wrong with a commit at this place of the chain, or None."""
    if commit.seq != seq:
        return f"expected @{seq}, found @{commit.seq}: a commit is missing, doubled or moved"
    if commit.prev != prev:
        return f"prev is {commit.prev[:12]}, but the commit before it is {prev[:12]}"
    if rehash(commit) != commit.hash:
        return "content or structure does not match its hash"
    # No hash covers the salt itself: with no content left to prove it, it could be any bytes.
    if commit.salt and all(isinstance(item, Gone) for item in commit.content.values()):
        return "a salt that no content needs"
    return None


def must_follow(commit: Commit, prev: str, seq: int) -> None:
    """`BrokenChain` unless the commit belongs at this place of the chain."""
    wrong = check(commit, prev, seq)
    if wrong is not None:
        raise BrokenChain(
            f"commit {commit.id} (@{commit.seq}): {wrong}",
            hint="nothing was written",
            commit=commit.id,
            session=commit.session,
        )


def must_match(mine: str, theirs: Commit) -> None:
    """`BrokenChain` unless the commit with that hash here and the one that came are the same."""
    if mine != theirs.hash:
        raise BrokenChain(
            f"@{theirs.seq} of session {theirs.session} is {mine[:12]} here and "
            f"{theirs.hash[:12]} there: the two have diverged",
            hint="nothing was written; import the other one as a fork",
            session=theirs.session,
        )


def erased_by(mine: Commit, theirs: Commit) -> dict[int, set[str]]:
    """What of a commit is here and was erased where it came from, by the seq of the erasure.

    Content that was only left out of a bundle was not erased.
    """
    found: dict[int, set[str]] = {}
    for name, item in theirs.content.items():
        if isinstance(item, Gone) and item.by and isinstance(mine.content.get(name), bytes):
            found.setdefault(item.by, set()).add(name)
    return found
