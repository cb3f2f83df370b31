"""Erasure: bytes and salt of a content item leave the file; its commitment and the seq of the
erasure stay.

Runs inside the transaction of the erasure commit. Freed space is zeroed by `secure_delete`; the
store truncates the WAL afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw
import msgspec

from stator.errors import BadDelta, InvalidInput, NotFound
from stator.model.log import chain, turn_keys
from stator.model.log.commit import (
    Commit,
    Draft,
    Erase,
    Gone,
    Item,
    Large,
    size_of,
)
from stator.model.log.delta import Put
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import ErasedRecord
from stator.store.rows import to_row
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import KEY_KIND, SQL, pack_ledger
from stator.store.sqlite.queries import commits, lineage, state
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.versions import CALLS, TOOLS, pack_id

Targets = dict[int, dict[int, set[str]]]
"""By the seq of an erasure: by the seq of a commit, which of its items go."""


def erase(
    db: apsw.Connection,
    place: SessionPlace,
    draft: Draft,
    by: int,
    digest: Callable[[bytes], bytes],
) -> None:
    """Carry out every `Erase` of an erasure draft."""
    for change in draft.changes:
        if isinstance(change, Erase):
            for seq, names in _targets(db, place, change).items():
                _erase_items(db, place, seq, names, by, digest)
    db.execute(SQL["session_counts"], (pack_ledger(place.ledger), place.s))


def carry_out(
    db: apsw.Connection, place: SessionPlace, targets: Targets, digest: Callable[[bytes], bytes]
) -> bool:
    """Erase what erasures that came with a log have taken away elsewhere; whether that was anything."""
    done = False
    for by, found in targets.items():
        if by <= place.low or commits.read_bare(db, place.segments[-1], by).kind != "erasure":
            continue
        for seq, names in found.items():
            _erase_items(db, place, seq, names, by, digest)
            done = True
    if done:
        db.execute(SQL["session_counts"], (pack_ledger(place.ledger), place.s))
    return done


def _targets(db: apsw.Connection, place: SessionPlace, change: Erase) -> dict[int, set[str]]:
    """Which items of which commits go: the fields named, or every put of a record."""
    if change.seq:
        return {change.seq: chain.to_erase(_own(db, place, change.seq), change.fields)}
    if change.collection not in COLLECTIONS or change.collection == "session":
        raise InvalidInput(
            f"nothing to erase: no seq, and no collection {change.collection!r:.40}",
            path="$.changes",
        )
    targets: dict[int, set[str]] = {}
    for seq, n in _puts(db, place, change):
        targets.setdefault(seq, set()).add(chain.put_item(n))
    if not targets:
        raise NotFound(f"no record {change.id} in {change.collection}", session=place.record.id)
    return targets


def _puts(db: apsw.Connection, place: SessionPlace, change: Erase) -> Iterator[tuple[int, int]]:
    """(seq, n) of every put of a record, from its rows, or from the log where the rows are incomplete."""
    number = COLLECTIONS[change.collection].number
    if number in (CALLS, TOOLS):
        for version in state.read_versions(
            db, place, after=0, upto=lineage.MAX_SEQ, collections=(change.collection,)
        ):
            if isinstance(version.op, Put) and version.op.id == change.id:
                yield version.seq, version.n
        return
    for segment in place.segments:
        for seq, n in many(db, SQL["rec_of"], (segment.s, number, pack_id(change.id))):
            if segment.after < seq <= segment.upto:
                yield seq, n


def _own(db: apsw.Connection, place: SessionPlace, seq: int) -> Commit:
    """A commit of the session's own log; inherited content is erased in the session that wrote it."""
    if 0 < seq <= place.low:
        owner = next(s.session for s in place.segments if s.after < seq <= s.upto)
        raise BadDelta(
            f"@{seq} was written in session {owner}",
            hint=f"erase it there; that also erases it here (session {owner})",
            session=owner,
        )
    return commits.read_one(db, place.segments[-1], seq)


def _erase_items(
    db: apsw.Connection,
    place: SessionPlace,
    seq: int,
    names: set[str],
    by: int,
    digest: Callable[[bytes], bytes],
) -> None:
    commit = _own(db, place, seq)
    salts = chain.salts_of(commit)
    key = lineage.key(place.s, seq)
    blobs = commits.read_one(db, place.segments[-1], seq, load=False).content
    content: dict[str, Item] = dict(commit.content)
    names = {name for name in chain.with_traces(names) if isinstance(content.get(name), bytes)}
    still = [item for name, item in blobs.items() if name not in names]
    for name in names:
        item = commit.content[name]
        assert isinstance(item, bytes)
        content[name] = Gone(by, bytes.fromhex(chain.commitment(salts[name], item)))
        place.ledger.content_bytes -= size_of(item)
        if blobs[name] not in still:
            _release_blob(db, blobs[name], key)
    left = {name: salts[name] for name, item in content.items() if not isinstance(item, Gone)}
    row = to_row(msgspec.structs.replace(commit, content=content, salt=b"", salts=left), digest)
    db.execute(SQL["log_rewrite"], (row.salts, row.body, key))
    if "key" in names:
        # Its erasure has indexed what it keeps of the key.
        for gone in turn_keys.names_of(commit):
            db.execute(SQL["key_delete"], (place.s, KEY_KIND, gone.group, gone.name, seq))
    for n, op in enumerate(commit.delta):
        if isinstance(op, Put) and chain.put_item(n) in names:
            _erase_version(db, place, op, seq, n, by)


def _erase_version(
    db: apsw.Connection, place: SessionPlace, op: Put, seq: int, n: int, by: int
) -> None:
    number = COLLECTIONS[op.collection].number
    body = msgspec.json.encode(ErasedRecord(erased=by))
    db.execute(SQL["rec_erase"], (body, place.s, number, seq, n))
    place.ledger.erased = sorted({*place.ledger.erased, number})
    for s in (place.s, *_heirs(db, place, seq)):
        db.execute(SQL["rec_drop_keys"], {"s": s, "c": number, "id": pack_id(op.id), "seq": seq})


def _heirs(db: apsw.Connection, place: SessionPlace, seq: int) -> list[int]:
    """The sessions whose lineage holds that commit."""
    return [
        s
        for s, record in many(db, "SELECT s, record FROM session WHERE parent IS NOT NULL")
        for part in lineage.decode_session(record).lineage
        if part.session == place.record.id and part.after < seq <= part.upto
    ]


def _release_blob(db: apsw.Connection, item: Item, key: int) -> None:
    if not isinstance(item, Large):
        return
    slot = int.from_bytes(item.digest[:8], "big") >> 1
    while (row := one(db, SQL["blob_get"], (slot,))) is not None:
        if row[0] == item.digest:
            db.execute(SQL["blob_use_delete"], (slot, key))
            if one(db, SQL["blob_used"], (slot,)) is None:
                db.execute(SQL["blob_delete"], (slot,))
            return
        slot += 1
