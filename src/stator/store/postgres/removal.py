"""Erasure and purge: content, or a whole session, is gone for every reader when the transaction commits.

Its bytes leave the pages when they are vacuumed, and write-ahead logs, standbys and backups as those rotate.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stator.errors import BadDelta, Busy, InvalidInput, NotFound
from stator.model.log import chain, turn_keys
from stator.model.log.commit import Commit, Draft, Erase, Gone, Item, Large, Purge, size_of
from stator.model.log.delta import Put
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import KEYLESS
from stator.model.sessions.lifecycle import check_purge
from stator.model.values.ids import from_bytes
from stator.store.postgres.connection import Statement, Transaction
from stator.store.postgres.live_session import RemoteLive
from stator.store.postgres.queries.commit_rows import commit_of, named
from stator.store.postgres.session_row import MAX_SEQ, by_id, key_of, must_find
from stator.store.postgres.text import digest, packed
from stator.store.postgres.written import uses_of
from stator.store.rows import to_row

Targets = dict[int, dict[int, set[str]]]
"""By the seq of an erasure: by the seq of a commit, which of its items go."""
PURGED = "purge_blob_use purge_log purge_rec purge_turn_key bookmark_drop alias_delete purge_session".split()


def erase(db: Transaction, live: RemoteLive, draft: Draft, by: int) -> None:
    """Carry out every `Erase` of an erasure draft, after its commit was written."""
    # A note may hold a copy of what is erased: it was read, and not recorded yet.
    db.ask(Statement("bookmark_drop", {"s": live.known.s}))
    for change in draft.changes:
        if isinstance(change, Erase):
            for seq, names in _targets(db, live, change).items():
                _erase_items(db, live, seq, names, by)


def carry_out(db: Transaction, live: RemoteLive, targets: Targets) -> bool:
    """Erase what erasures that came with a log have taken away elsewhere; whether that was anything."""
    done = False
    for by, found in targets.items():
        (kind,) = [c.kind for c in _read(db, live, [by])] or [""]
        if by <= live.known.low or kind != "erasure":
            continue
        for seq, names in found.items():
            _erase_items(db, live, seq, names, by)
            done = True
    if done:
        db.ask(Statement("bookmark_drop", {"s": live.known.s}))
    return done


def _read(
    db: Transaction, live: RemoteLive, seqs: Iterable[int], *, load: bool = True
) -> list[Commit]:
    (rows,) = db.ask(named(live.known.id, list(seqs), [], MAX_SEQ, load))
    return [commit_of(row, load) for row in rows]


def _targets(db: Transaction, live: RemoteLive, change: Erase) -> dict[int, set[str]]:
    """Which items of which commits go: the fields named, or every put of a record."""
    session = live.known.id
    if change.seq:
        found = _read(db, live, [change.seq])
        if not found:
            raise NotFound(f"no commit @{change.seq}", session=session)
        _check_own(live, change.seq)
        return {change.seq: chain.to_erase(found[0], change.fields)}
    if change.collection not in COLLECTIONS or change.collection == "session":
        raise InvalidInput(
            f"nothing to erase: no seq, and no collection {change.collection!r:.40}",
            path="$.changes",
        )
    rows = db.many(
        "puts_of", session=key_of(session), collection=change.collection, id=packed(change.id)
    )
    targets: dict[int, set[str]] = {}
    for seq, n in rows:
        _check_own(live, seq)
        targets.setdefault(seq, set()).add(chain.put_item(n))
    if not targets:
        raise NotFound(f"no record {change.id} in {change.collection}", session=session)
    return targets


def _check_own(live: RemoteLive, seq: int) -> None:
    """Inherited content is erased in the session that wrote it."""
    if 0 < seq <= live.known.low:
        parts = live.known.record.lineage
        owner = next(part.session for part in parts if part.after < seq <= part.upto)
        raise BadDelta(
            f"@{seq} was written in session {owner}",
            hint=f"erase it there; that also erases it here (session {owner})",
            session=owner,
        )


def _erase_items(db: Transaction, live: RemoteLive, seq: int, names: set[str], by: int) -> None:
    _check_own(live, seq)
    (commit,), (bare,) = _read(db, live, [seq]), _read(db, live, [seq], load=False)
    salts, s = chain.salts_of(commit), live.known.s
    content: dict[str, Item] = dict(commit.content)
    names = {name for name in chain.with_traces(names) if isinstance(content.get(name), bytes)}
    size = 0
    for name in names:
        item = commit.content[name]
        assert isinstance(item, bytes)
        content[name] = Gone(by, bytes.fromhex(chain.commitment(salts[name], item)))
        size += size_of(item) - size_of(content[name])
    left = {name: salts[name] for name, item in content.items() if not isinstance(item, Gone)}
    row = to_row(
        msgspec.structs.replace(commit, content=content, salt=b"", salts=left), live.digest
    )
    here = {"s": s, "seq": seq}
    asked = [
        Statement("log_rewrite", {**here, "salts": row.salts, "body": row.body}),
        Statement("session_shrunk", {"s": s, "size": size}),
    ]
    if "key" in names:
        # Its erasure has indexed what it keeps of the key.
        for gone in turn_keys.names_of(commit):
            which = {"batch": packed(gone.group), "name": packed(gone.name)}
            asked.append(Statement("turn_key_delete", {**here, **which}))
    asked += _versions_erased(db, live, commit, names)
    db.ask(*asked)
    needed = {address for _, address, _ in uses_of(row.body, seq)}
    held = {item.digest for item in bare.content.values() if isinstance(item, Large)}
    if held - needed:
        digests = sorted(held - needed)
        db.ask(Statement("blob_unuse", {**here, "digests": digests}))
        give_up(db, digests)


def _versions_erased(
    db: Transaction, live: RemoteLive, commit: Commit, names: set[str]
) -> list[Statement]:
    puts = [
        (n, op)
        for n, op in enumerate(commit.delta)
        if isinstance(op, Put) and chain.put_item(n) in names
    ]
    if not puts:
        return []
    heirs = [s for _, s in db.many("heirs", s=live.known.s)]
    found = []
    for n, op in puts:
        key = KEYLESS + op.id
        found.append(
            Statement(
                "rec_erase",
                {
                    "collection": op.collection,
                    "id": packed(op.id),
                    "key": packed(key),
                    "mark": digest(key),
                    "s": live.known.s,
                    "ss": [live.known.s, *heirs],
                    "seq": commit.seq,
                    "n": n,
                },
            )
        )
    return found


def give_up(db: Transaction, digests: list[bytes]) -> None:
    """Delete those blobs that no commit needs any more."""
    # In two statements: the second sees what was committed while the first waited for a lock.
    db.ask(Statement("blob_lock", {"digests": digests}))
    db.ask(Statement("blob_delete", {"digests": digests}))


def purge(db: Transaction, project: RemoteLive, draft: Draft) -> None:
    """Carry out every `Purge` of a purge draft: every row of a session goes, and nothing else does."""
    for change in draft.changes:
        if isinstance(change, Purge):
            _purge(db, project, change)


def _purge(db: Transaction, project: RemoteLive, change: Purge) -> None:
    session = change.session
    (rows,) = db.ask(by_id(session, lock=True))
    known = must_find(rows, session)
    here = {"s": known.s}
    heirs, blobs = db.ask(Statement("heirs", here), Statement("blobs_of", here))
    moved = change.head not in (0, known.head)
    names = [from_bytes(identifier, "session") for identifier, _ in heirs]
    check_purge(known.record, project.record, names, moved)
    if known.holder is not None and known.holder.live:
        raise Busy(f"session {session} is driven", holder=known.holder, session=session)
    db.ask(*(Statement(name, here) for name in PURGED))
    if blobs:
        give_up(db, sorted(address for (address,) in blobs))
