"""Seals a draft: makes the commit that is written, from the draft, its place in the log and the state before it.

Every store calls this one function inside its append transaction, so that none can forget to
redact, to check or to chain: clean (redact and encode content) → reduce → commit to each content
item → hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from stator.errors import InvalidInput, TooLarge
from stator.model.log.chain import (
    SALT_BYTES,
    Preimage,
    commitments,
    digest,
    hashed_ops,
    put_item,
)
from stator.model.log.check import (
    check_frame,
    check_rest,
    encode_checked,
    encode_record,
)
from stator.model.log.clean_record import Passes, clean_record, texts_of
from stator.model.log.commit import (
    CONTENT,
    DATA,
    FORMAT,
    Change,
    Commit,
    Draft,
    Reset,
    Upsert,
)
from stator.model.log.delta import Delta, Put
from stator.model.log.edges import LogView, resolved, scrubbed_names
from stator.model.log.reduce import reduce
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import (
    ENDED,
    TRANSITIONS,
    cause_after_close,
    check_lease,
    check_transition,
    is_after_close,
    is_witnessed,
)
from stator.model.values import canon
from stator.model.values.digest import sha256
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
_frame: Callable[[Draft], tuple[Any, ...]] = attrgetter("kind", "actor", "provenance", *_STRUCTURE)
"""What a draft has in common with many others: all of it that `check_frame` and `_scrub_structure` look at."""
_clean_frames: set[tuple[Any, ...]] = set()
"""Frames that were checked and hold no secret. A program says the same few words with all it records."""
_CLEAN_FRAMES_MAX = 1024
_FRAME_TEXT_MAX = 64
"""Longer texts are rarely the same again."""
_UNITS = frozenset(
    (
        "tokens",
        *(
            f"tokens:{what}"
            for what in ("in", "out", "cache_read", "cache_write", "cache_write_1h")
        ),
    )
)
"""What nearly every answer is counted in. They look like names beside a secret, and are words of ours."""

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


def admitted(draft: Draft, record: SessionRecord, epoch: int) -> Draft:
    """The draft as a session in that state, held under that epoch (0: by nobody), accepts it, else `LeaseLost` or
    `WrongState`. What a witness brings after close gets a cause that says so: here, because only the append itself
    knows which of the two came first."""
    if draft.epoch == 0 or draft.epoch != epoch:
        check_lease(
            mode=record.mode,
            kind=draft.kind,
            epoch=draft.epoch,
            current=epoch,
            session=record.id,
        )
    if record.status not in ENDED and draft.kind not in TRANSITIONS:
        return draft
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
    for n, op in enumerate(delta):
        if type(op) is Put:
            content[put_item(n)] = encoded.get(id(op.record)) or encode_record(op.record)
    salt = salts(SALT_BYTES)
    hashes = commitments(content, salt, {})
    ops = hashed_ops(delta, hashes)
    if not content:
        salt = b""  # no hash would cover it, so it could be changed unseen
    elif sum(map(len, content.values())) > CONTENT_MAX:
        raise _too_large(content, draft)
    happened = draft.happened or place.at
    # Positional, in the order of `Preimage` and `Commit`: so many keywords take as long as encoding and hashing do. A
    # slip cannot go unseen: logs of releases before 0.11, hashed by name, would not verify.
    preimage = Preimage(
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
        FORMAT,
    )
    commit = Commit(
        draft.id,
        draft.session,
        place.seq,
        draft.kind,
        place.turn,
        place.at,
        digest(preimage),
        place.prev,
        FORMAT,
        draft.actor,
        draft.attempt,
        draft.call,
        draft.cause,
        content,  # type: ignore[arg-type]
        delta,
        draft.effect,
        draft.epoch,
        happened,
        inputs,
        draft.origin,
        draft.parent,
        draft.provenance,
        draft.run,
        salt,
        {},
        draft.status,
        draft.tool,
        draft.trace,
    )
    return Sealed(commit, keys)


def _too_large(content: Mapping[str, bytes], draft: Draft) -> TooLarge:
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
        given, scrub_given = draft.input, scrubbed
        # A copy, because another thread may be filling it: what was looked at is what is recorded.
        if type(given) is dict and redactor and redactor.passes_flat(copied := given.copy()):
            given, scrub_given = copied, None
        data = content["input"] = canon.dumps(given, path="$.input", scrub=scrub_given)
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
    for name in sorted(draft.data):
        data = draft.data[name]
        if redactor is not None:
            if redactor.scrub(name) != name:
                raise InvalidInput("the name of some bytes looks like a secret", path="$.data")
            data = redactor.scrub_data(data)
        content[DATA + name] = data
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
    frame = _frame(draft)
    is_clean = _is_clean_frame(frame)
    if not is_clean:
        check_frame(draft)
    check_rest(draft)
    if draft.call:
        check_id(draft.call, "call")
    if draft.parent:
        check_id(draft.parent, "call")
    if draft.run and draft.run != run_id(draft.session, draft.epoch):
        check_id(draft.run, "run")
    found: dict[str, Any] = {}
    if redactor is not None:
        if not is_clean:
            found = _scrub_structure(draft, redactor)
            if not found:
                _keep_clean(frame)
        _scrub_rest(draft, redactor, found)
    if draft.changes:
        changes = _scrub_changes(draft.changes, redactor, encoded)
        if not all(map(is_, changes, draft.changes)):
            found["changes"] = tuple(changes)
    return msgspec.structs.replace(draft, **found) if found else draft


def _is_clean_frame(frame: tuple[Any, ...]) -> bool:
    try:
        return frame in _clean_frames
    except TypeError:  # something in it is of a type that no frame holds: it is refused for that
        return False


def _keep_clean(frame: tuple[Any, ...]) -> None:
    if all(len(text) <= _FRAME_TEXT_MAX for text in frame if type(text) is str):
        if len(_clean_frames) >= _CLEAN_FRAMES_MAX:
            _clean_frames.clear()
        _clean_frames.add(frame)


def _scrub_structure(draft: Draft, redactor: Redactor) -> dict[str, Any]:
    """The texts of a frame that held a secret, as they are without it."""
    found: dict[str, Any] = {}
    texts = _structure(draft)
    if max(map(len, texts)) >= SHORT:
        for name, text in zip(_STRUCTURE, texts, strict=True):
            if len(text) >= SHORT and (clean := redactor.scrub(text)) is not text:
                found[name] = clean
    return found


def _scrub_rest(draft: Draft, redactor: Redactor, found: dict[str, Any]) -> None:
    """The other structural fields that may have held a secret, added to those found."""
    if draft.origin:
        found["origin"] = (redactor.scrub(draft.origin[0]), redactor.scrub(draft.origin[1]))
    if draft.inputs and set(map(type, draft.inputs)) != {int}:
        inputs = scrubbed_names(draft.inputs, redactor.scrub)
        if inputs != draft.inputs:
            found["inputs"] = inputs
    if draft.usage and not draft.usage.keys() <= _UNITS:
        found["usage"] = {redactor.scrub(unit): n for unit, n in draft.usage.items()}


def _scrub_changes(
    changes: tuple[Change, ...], redactor: Redactor | None, encoded: dict[int, bytes] | None
) -> list[Change]:
    scrub = None if redactor is None else redactor.scrub
    passes: Passes | None = None if redactor is None else redactor.passes
    if passes and len(changes) > 1:
        # One look at the texts of all records of a draft is faster than one for each.
        texts = [t for change in changes if type(change) is Upsert for t in texts_of(change.record)]
        if passes(texts):
            passes = _known_to_pass
    found: list[Change] = []
    for change in changes:
        if isinstance(change, Upsert):
            record = clean_record(change.record, scrub, passes)
            data = encode_checked(change.collection, record)
            if encoded is not None:
                encoded[id(record)] = data
            if record is not change.record:
                change = Upsert(change.collection, record)
        elif isinstance(change, Reset) and change.record is not None:
            encode_checked(change.collection, change.record)  # it was scrubbed when it was recorded
        found.append(change)
    return found


def _known_to_pass(texts: list[str]) -> bool:
    return True


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
