"""Seals a draft: makes the commit that is written, from the draft, its place in the log and the state before it.

Every store calls this one function inside its append transaction, so that none can forget to
redact, to check or to chain: clean (redact and encode content) → reduce → commit to each content
item → hash.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from stator.errors import TooLarge
from stator.model.log.chain import (
    SALT_BYTES,
    Preimage,
    committed,
    digest,
    put_item,
)
from stator.model.log.check import check_draft, encode_checked, encode_record
from stator.model.log.clean_record import clean_record
from stator.model.log.commit import (
    CONTENT,
    Change,
    Commit,
    Draft,
    Item,
    Reset,
    Upsert,
)
from stator.model.log.delta import Delta, Put
from stator.model.log.edges import LogView, resolved, scrubbed_names
from stator.model.log.reduce import reduce
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import (
    cause_after_close,
    check_transition,
    is_after_close,
    is_witnessed,
)
from stator.model.values import canon
from stator.model.values.ids import check_id, run_id

CONTENT_MAX = 64 * 1024 * 1024
"""Bytes of content one commit may hold."""
SUMMARY_CHARS = 120
"""How much of a text output its summary shows."""
SUMMARISED = 200
"""Outputs shorter than this many bytes are their own summary."""
SHORT = 12
"""Structural text below this length cannot hold a secret worth a scan."""
_CHECKED = frozenset(("id", "session", "kind", "actor", "call", "parent", "run"))
"""Texts of a draft that are refused unless they are ids or one of a few words."""
_STRUCTURE = tuple(
    field.name
    for field in msgspec.structs.fields(Draft)
    if field.type is str and field.name not in _CHECKED and field.name not in CONTENT
)
"""All other texts of a draft that are not content. A new field is one of them by itself."""
_structure: Callable[[Draft], tuple[str, ...]] = attrgetter(*_STRUCTURE)

if TYPE_CHECKING:  # its patterns take a while to compile, and only writing needs them
    from stator.model.log.redact import Redactor

Salts = Callable[[int], bytes]
"""Gives that many random bytes. Passed in, so that tests are repeatable."""


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


def admitted(draft: Draft, record: SessionRecord) -> Draft:
    """The draft as a session in that state accepts it, else `WrongState`. What a witness brings after close gets
    a cause that says so: here, because only the append itself knows which of the two came first."""
    seen = is_witnessed(record.mode, draft.origin, draft.epoch)
    check_transition(draft.kind, record.status, record.id, witnessed=seen)
    if not seen or not is_after_close(draft.kind, record.status):
        return draft
    return msgspec.structs.replace(draft, cause=cause_after_close(draft.cause))


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


def same_origin(draft: Draft, commit: Commit) -> bool:
    """Whether both record the same outside thing. Their contents may differ: a hook knows less than a
    transcript, and the first one is kept."""
    return draft.origin is not None and (
        (draft.kind, draft.origin, draft.attempt) == (commit.kind, commit.origin, commit.attempt)
    )


def same_part(draft: Draft, commit: Commit, view: LogView, redactor: Redactor | None) -> bool:
    """Whether appending the draft again would give the existing commit, given the state before it."""
    draft = scrub(draft, redactor)
    shape = ("kind", "actor", "tool", "call", "parent", "attempt", "effect", "status", "cause")
    if draft.provenance != commit.provenance or (draft.happened or commit.at) != commit.happened:
        return False
    if any(getattr(draft, name) != getattr(commit, name) for name in (*shape, "run", "trace")):
        return False
    if draft.origin != commit.origin:
        return False
    # Releases before 0.8 kept every id as text.
    if commit.inputs not in (resolved(draft, view, commit.seq), list(draft.inputs)):
        return False
    content = encode_content(draft, redactor)
    delta, _ = reduce(draft, view)
    for n, op in enumerate(delta):
        if isinstance(op, Put):
            content[put_item(n)] = encode_record(op.record)
    return _same_content(content, commit) and _shape(delta) == _shape(commit.delta)


def _same_content(content: dict[str, bytes], commit: Commit) -> bool:
    if content.keys() != commit.content.keys():
        return False
    # An item that was erased since cannot be compared: its commitment needs a salt that is gone with it.
    return all(
        not isinstance(item, bytes) or item == content[name]
        for name, item in commit.content.items()
    )


def _shape(delta: Delta) -> list[tuple[type, str, str]]:
    return [(type(op), op.collection, op.id) for op in delta]
