"""Bundles: sessions as one file that says itself whether it is whole.

    MAGIC ‖ format (2 bytes) ‖ length (4) ‖ header       JSON: what a reader must be able to do, how it is locked
    frame …                                             kind ‖ codec ‖ length ‖ length unpacked (10 bytes) ‖ data
    SHA-256 over all of that                            and nothing after it

Frames are one manifest (which sessions, with their heads), batches of commits (of one session each,
ancestors first) and an end. Nothing in a bundle has a name that could be a path, and nothing is
unpacked that was not announced within the limits here. This module is the shapes and the rules;
`runtime.bundles.file` reads and writes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from stator.errors import BadBundle, NewerBundle, StatorError
from stator.model.exchange.packed import Packed
from stator.model.exchange.redaction_mark import RedactionMark
from stator.model.log import chain
from stator.model.log.check import INT_MAX
from stator.model.log.commit import CONTENT, DATA, Commit, Gone, Item, Provenance, is_data_name
from stator.model.log.delta import (
    Delta,
    Drop,
    Op,
    Put,
    decode_record,
)
from stator.model.log.seal import CONTENT_MAX
from stator.model.records.tables import KINDS, NUMBERED
from stator.model.records.types import ErasedRecord, Segment, SessionRecord
from stator.model.sessions.lifecycle import check_name, lent_upto
from stator.model.values import canon
from stator.model.values.ids import from_bytes, is_id

T = TypeVar("T")

MAGIC: Final = b"\x89STATOR\n"
"""A byte no text begins with, and a line end that a careless copy would change."""
FORMAT: Final = 1
SUFFIX: Final = ".stator"
PREFIX = struct.Struct(">HI")
"""The format's version and the length of the header."""
FRAME = struct.Struct(">ccII")
"""Kind, codec, length as stored, length unpacked."""
MANIFEST, BATCH, END = b"m", b"c", b"e"
ZSTD, RAW = b"z", b"r"
FIXTURE: Final = "fixture"
"""An optional feature: the bundle is meant to be replayed by tests."""
LOCKED: Final = "locked"
"""A required feature: what is in the frames is encrypted."""
KNOWN: Final = frozenset({LOCKED})
"""Features this release has, of those a bundle can require."""
DIGEST_BYTES: Final = 32
NESTING_MAX: Final = 3 * canon.DEPTH_MAX
TEXT_MAX: Final = 64 * 1024
"""Characters of a structural field."""
PROJECT_MAX: Final = 8192
"""Characters of a project and a tenant: no path is longer."""
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)


class BundleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits a reader enforces, regardless of what a bundle claims."""

    header: int = 64 * 1024
    frame: int = CONTENT_MAX + CONTENT_MAX // 4
    """Bytes of one frame, stored or unpacked: a commit of the largest size, and its structure."""
    ratio: int = 200
    """How much longer than it is stored a frame may be, beyond `slack`; a writer keeps within it."""
    slack: int = 4096
    sessions: int = 100_000
    commits: int = 100_000_000
    total: int = 256 * 2**30
    """Bytes unpacked."""


LIMITS: Final = BundleLimits()


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """How a bundle is encrypted; the key comes from a passphrase."""

    cipher: str
    kdf: str
    salt: bytes
    n: int
    r: int
    p: int


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be read of any bundle without its passphrase."""

    requires: list[str] = []
    optional: list[str] = []
    lock: Lock | None = None


class Bundled(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a bundle: its own commits `after < seq <= seq`."""

    id: str
    name: str
    project: str
    seq: int
    hash: str
    lineage: list[Segment] = []
    tenant: str = ""
    whole: bool = True
    """False of one that is only there because others were forked from it, and is cut where they were."""

    @property
    def after(self) -> int:
        return lent_upto(self.lineage)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle holds."""

    sessions: list[Bundled]
    exporter: str = ""
    made: int = 0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, as the last frame repeats it."""

    commits: int
    withheld: int = 0
    secrets: int = 0
    redacted: list[RedactionMark | None] = []
    """For each session of the manifest the exporter's word that its log holds no secrets. Releases before 0.11
    do not read it."""


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """Some commits of the nth session of the manifest."""

    session: int
    commits: list[Packed]


pack_json = msgspec.json.Encoder().encode
encode = msgspec.msgpack.Encoder().encode
_batch = msgspec.msgpack.Decoder(Batch).decode
_manifest = msgspec.msgpack.Decoder(Manifest).decode
_end = msgspec.msgpack.Decoder(End).decode
_header = msgspec.json.Decoder(Header).decode


def refuse(what: str, *, hint: str = "nothing was imported", **ids: str | int) -> BadBundle:
    return BadBundle(f"not a whole bundle: {what}", hint=hint, **ids)


# -- the outside ----------------------------------------------------------------------------------


def preface(header: Header) -> bytes:
    """How a bundle begins."""
    data = pack_json(header)
    return MAGIC + PREFIX.pack(FORMAT, len(data)) + data


def header_size(start: bytes, limits: BundleLimits = LIMITS) -> int:
    """The length of the header, from the fixed part before it."""
    if len(start) < len(MAGIC) + PREFIX.size or not start.startswith(MAGIC):
        raise BadBundle("not a bundle", hint="stator export makes one")
    version, size = PREFIX.unpack_from(start, len(MAGIC))
    if version > FORMAT:
        raise NewerBundle(
            f"a bundle of format {version}; this release reads up to {FORMAT}",
            hint="import it with a newer release",
        )
    if version < 1 or size > limits.header:
        raise refuse(f"its header would have {size:,} bytes; at most {limits.header:,} are read")
    return int(size)


def read_header(data: bytes) -> Header:
    """The header, if this release can do what it requires."""
    try:
        header = _header(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refuse(f"its header cannot be read: {error}") from None
    unknown = sorted(set(header.requires) - KNOWN)
    if unknown:
        raise NewerBundle(
            f"the bundle requires {unknown[0]!r:.60}, which this release does not know",
            hint="import it with a newer release",
        )
    if (LOCKED in header.requires) != (header.lock is not None):
        raise refuse("its header does not say how it is locked")
    return header


def codec_for(stored: int, unpacked: int, limits: BundleLimits = LIMITS) -> bytes:
    """How to store a frame that compresses to that length: so that every reader takes it."""
    fits = stored < unpacked <= limits.ratio * stored + limits.slack
    return ZSTD if fits else RAW


def check_frame(
    kind: bytes, codec: bytes, stored: int, unpacked: int, limits: BundleLimits
) -> None:
    """`BadBundle` if a frame is of no known sort, or longer than any may be."""
    if kind not in (MANIFEST, BATCH, END) or codec not in (ZSTD, RAW):
        raise refuse(f"a frame of unknown kind {(kind + codec)!r}")
    if max(stored, unpacked) > limits.frame:
        raise refuse(
            f"a frame of {max(stored, unpacked):,} bytes; at most {limits.frame:,} are allowed"
        )
    if codec == ZSTD and unpacked > limits.ratio * stored + limits.slack:
        raise refuse(
            f"a frame that unpacks to {unpacked / max(stored, 1):,.0f} times its length; "
            f"at most {limits.ratio} times is allowed"
        )


def read_manifest(data: bytes, limits: BundleLimits = LIMITS) -> Manifest:
    """The manifest, if what it says can be."""
    manifest = _decoded(_manifest, data, "its manifest")
    if len(manifest.sessions) > limits.sessions:
        raise refuse(
            f"{len(manifest.sessions):,} sessions; at most {limits.sessions:,} are allowed"
        )
    seen: set[str] = set()
    for one in manifest.sessions:
        if not is_id(one.id, "session") or one.id in seen or not 0 <= one.after < one.seq:
            raise refuse(f"its manifest has an invalid entry for session {one.id!r:.60}")
        check_name(one.name)
        if len(one.project) + len(one.tenant) > PROJECT_MAX:
            raise refuse(f"a project of more than {PROJECT_MAX:,} characters", session=one.id)
        _check_lineage(one, manifest.sessions[: len(seen)])
        seen.add(one.id)
    if sum(one.seq - one.after for one in manifest.sessions) > limits.commits:
        raise refuse(f"more than {limits.commits:,} commits")
    return manifest


def _check_lineage(one: Bundled, before: list[Bundled]) -> None:
    """What a session inherits is what the session it was forked from has, up to there. Else its log would
    contain commits of sessions that it has nothing to do with, also of those that are in the store."""
    if not one.lineage:
        return
    last = one.lineage[-1]
    above = next((other for other in before if other.id == last.session), None)
    if above is None or one.lineage != [
        *above.lineage,
        Segment(session=above.id, after=above.after, upto=last.upto),
    ]:
        raise refuse(
            f"session {one.id} does not continue the session it was forked from", session=one.id
        )


def read_batch(data: bytes) -> Batch:
    batch = _decoded(_batch, data, "a batch of commits")
    if not batch.commits:
        raise refuse("a batch without commits")
    return batch


def read_end(data: bytes) -> End:
    return _decoded(_end, data, "its end")


def _decoded(decode: Callable[[bytes], T], data: bytes, what: str) -> T:
    try:
        return decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refuse(f"{what} cannot be read: {error}") from None


# -- commits --------------------------------------------------------------------------------------


def unpack(packed: Packed, session: str, prev: str) -> Commit:
    """The commit that was packed; `BadBundle` if it could never have been appended. The hash chain decides
    whether it belongs at its position.
    """
    _check_shape(packed, session)
    content: dict[str, Item] = {}
    for name, item in packed.content.items():
        if isinstance(item, bytes):
            if name[:3] != "put" and name[:5] != DATA:
                _check_item(name, item, packed, session)
            content[name] = item
        else:
            content[name] = Gone(item[0], item[1])
    return Commit(
        id=from_bytes(packed.id, "commit"),
        session=session,
        seq=packed.seq,
        kind=packed.kind,
        turn=packed.turn,
        at=packed.at,
        hash=packed.hash.hex(),
        prev=prev,
        v=packed.v,
        actor=packed.actor,
        attempt=packed.attempt,
        call=from_bytes(packed.call, "call") if packed.call else "",
        cause=packed.cause,
        content=content,
        delta=_delta(packed, content, session),
        effect=packed.effect,
        epoch=packed.epoch,
        happened=packed.happened,
        inputs=packed.inputs,
        origin=packed.origin,
        parent=packed.parent,
        provenance=Provenance(packed.source, packed.trust),
        run=from_bytes(packed.run, "run") if packed.run else "",
        salt=packed.salt,
        salts=packed.salts,
        status=packed.status,
        tool=packed.tool,
        trace=packed.trace,
    )


def _check_shape(packed: Packed, session: str) -> None:
    turn, at, epoch, attempt = packed.turn, packed.at, packed.epoch, packed.attempt
    texts = packed.actor + packed.tool + packed.status + packed.effect + packed.cause + packed.trace
    sound = (
        len(packed.id) == 16
        and len(packed.hash) == DIGEST_BYTES
        and len(packed.run) in (0, 16)
        and len(packed.call) in (0, 16)
        and len(packed.salt) in (0, chain.SALT_BYTES)
        and packed.kind in KINDS
        and packed.v == 1
        and 0 < packed.seq <= INT_MAX
        and 0 <= turn <= INT_MAX
        and 0 <= at <= INT_MAX
        and 0 <= epoch <= INT_MAX
        and 0 <= packed.happened <= INT_MAX
        and 0 <= attempt <= INT_MAX
        and len(texts) <= TEXT_MAX
        and (not packed.parent or is_id(packed.parent, "call"))
        and (packed.origin is None or sum(map(len, packed.origin)) <= TEXT_MAX)
        and not (packed.salt and packed.salts)
    )
    if not sound:
        raise _bad(packed, session, "not the shape of a commit")


def _check_item(name: str, data: bytes, packed: Packed, session: str) -> None:
    """Content is JSON, nested no deeper than any that is recorded; records are checked as such, by `_put`."""
    if name not in CONTENT:
        raise _bad(packed, session, f"unknown content {name!r:.40}")
    try:
        plain = canon.decode(data)
    except StatorError as error:
        raise _bad(packed, session, f"its {name} is {error.what}") from None
    if type(plain) is str:
        return
    if name not in ("input", "output", "usage") or not _shallow(data):
        raise _bad(packed, session, f"its {name} is not a value that can be recorded")


def _shallow(data: bytes) -> bool:
    """Whether JSON nests no deeper than what is recorded can. It must be JSON: its strings must end."""
    if data.count(b"[") + data.count(b"{") <= NESTING_MAX:
        return True
    depth = 0
    for sign in _STRINGS.sub(b"", data):
        depth += (sign in b"[{") - (sign in b"]}")
        if depth > NESTING_MAX:
            return False
    return True


def _delta(packed: Packed, content: dict[str, Item], session: str) -> Delta:
    for name in content:
        if name[:5] == DATA and not is_data_name(name[5:]):
            raise _bad(packed, session, f"unknown content {name!r:.40}")
    delta: Delta = []
    for n, (number, identifier, was) in enumerate(packed.ops):
        known = NUMBERED.get(abs(number))
        if known is None or not 0 <= was < packed.seq or not 0 < len(identifier) <= 200:
            raise _bad(packed, session, f"op {n} of its delta is not valid")
        if number < 0:
            delta.append(Drop(known.name, identifier, was))
        else:
            delta.append(_put(packed, known.name, identifier, was, content, n, session))
    # Each put has its item, so that there are as many as puts, or one too many.
    puts = sum([type(op) is Put for op in delta])
    if sum([name[:3] == "put" for name in content]) != puts:
        own = {chain.put_item(n) for n, op in enumerate(delta) if isinstance(op, Put)}
        extra = next(name for name in content if name[:3] == "put" and name not in own)
        raise _bad(packed, session, f"{extra!r:.40} belongs to no op of its delta")
    return delta


def _put(
    packed: Packed,
    collection: str,
    identifier: str,
    was: int,
    content: dict[str, Item],
    n: int,
    session: str,
) -> Op:
    item = content.get(chain.put_item(n))
    if isinstance(item, Gone):
        return Put(collection, identifier, ErasedRecord(erased=item.by), was)
    if not isinstance(item, bytes):
        raise _bad(packed, session, f"the record of op {n} is missing")
    try:
        record = decode_record(collection, item)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _bad(packed, session, f"not a {collection} record: {error}") from None
    if not _shallow(item):
        raise _bad(packed, session, f"the record of op {n} is nested too deeply")
    return Put(collection, identifier, record, was)


def _bad(packed: Packed, session: str, what: str) -> BadBundle:
    return refuse(f"@{packed.seq} of session {session}: {what}", session=session, seq=packed.seq)


# -- sessions -------------------------------------------------------------------------------------


def own_commits(one: Bundled, commits: Iterable[Packed]) -> Iterator[Commit]:
    """A session's commits as they are unpacked: without a hole, of that session, up to its head."""
    prev, seq = chain.GENESIS, one.after
    opened: SessionRecord | None = None
    names: set[str] = set()
    """A session may have been named only after it began; the manifest has its first name or its last."""
    erasures: set[int] = set()
    takers: dict[int, int] = {}
    """The erasures that removed content names, each with the commit that recorded it."""
    for packed in commits:
        seq += 1
        if packed.seq != seq or seq > one.seq:
            raise refuse(f"session {one.id} has @{packed.seq} where @{seq} is expected")
        commit = unpack(packed, one.id, prev)
        known, opened = opened, _check_session(one, commit, opened)
        if known is None and opened.lineage and opened.parent is not None:
            commit = msgspec.structs.replace(commit, prev=opened.parent.hash)
        if known is None:
            names.add(opened.name)
        if commit.kind == "erasure":
            erasures.add(seq)
        for item in commit.content.values():
            if type(item) is Gone and item.by:
                takers[item.by] = seq
        yield commit
        prev = commit.hash
    for by, said in takers.items():
        if by not in erasures:
            raise refuse(
                f"content of @{said} is missing, but @{by} is not an erasure", session=one.id
            )
    if opened is not None and one.name not in names | {opened.name}:
        raise refuse(f"session {one.id} does not match the manifest", session=one.id)
    if (seq, prev) != (one.seq, one.hash):
        raise refuse(f"session {one.id} ends at @{seq} {prev[:12]}, not at its head @{one.seq}")


def _check_session(one: Bundled, commit: Commit, opened: SessionRecord | None) -> SessionRecord:
    """What a session is does not change on the way; a project's own session cannot be exported."""
    for op in commit.delta:
        if op.collection != "session":
            continue
        record = op.record if isinstance(op, Put) else None
        if isinstance(record, ErasedRecord) and opened is not None:
            continue
        if not isinstance(record, SessionRecord) or record.id != one.id:
            raise refuse(
                f"@{commit.seq} of session {one.id} replaces its record with another session's",
                session=one.id,
            )
        if opened is None:
            _check_opening(one, record)
        elif _fixed(record) != _fixed(opened):
            raise refuse(
                f"@{commit.seq} of session {one.id} replaces its record with another session's",
                session=one.id,
            )
        check_name(record.name)
        opened = record
    if opened is None:
        raise refuse(f"session {one.id} does not begin with its own record", session=one.id)
    return opened


def _check_opening(one: Bundled, record: SessionRecord) -> None:
    if record.mode == "project":
        raise refuse("a project's own session cannot be imported", session=one.id)
    told = (one.project, one.tenant, one.lineage)
    if (record.project, record.tenant, record.lineage) != told:
        raise refuse(f"session {one.id} does not match the manifest", session=one.id)
    # A child begins a log of its own; every other way to come of a session continues that session's log.
    forked = record.parent is not None and record.parent.kind != "child"
    if forked != bool(record.lineage):
        raise refuse(f"session {one.id} does not say where it was forked from", session=one.id)


def _fixed(record: SessionRecord) -> tuple[object, ...]:
    # Only a session that is fed from outside gets its name later: from the first thing it was asked.
    return (
        record.name if record.mode != "recorded" else "",
        record.tenant,
        record.project,
        record.mode,
        record.lineage,
        record.parent,
    )
