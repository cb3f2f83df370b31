"""Appending: what happens to drafts and commits between BEGIN and COMMIT.

The writer's memory of the sessions it has opened (`live_session`), how a draft becomes a row of the log, and
when the projections are updated. Every method that takes a connection runs inside a
transaction of the `Writer`; `forget` and `forget_all` undo what was believed when one is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain as chained
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import apsw
import msgspec

from stator.errors import Conflict, IdReused, InvalidInput
from stator.model.exchange import redaction_mark
from stator.model.exchange.bookmark import Bookmark
from stator.model.log import chain
from stator.model.log.commit import (
    Commit,
    Draft,
    Gone,
)
from stator.model.log.seal import Place as CommitPlace
from stator.model.log.seal import (
    admitted,
    same_origin,
    same_part,
    seal,
)
from stator.model.records.tables import REMOVALS
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import (
    driven,
    lent_upto,
)
from stator.model.sessions.ownership import OWN
from stator.model.values.digest import keyed
from stator.model.values.ids import check_id, from_bytes, to_bytes
from stator.store.drafts import (
    in_project,
    ingested_record,
    next_turn,
    opening_draft,
    redactor,
    scrub_names,
    with_recorded_origin,
)
from stator.store.port import Durability
from stator.store.rows import to_row
from stator.store.sqlite import (
    bookmarks,
    erasure,
    projection,
    purge,
    space,
)
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.driver_lock import DriverLocks
from stator.store.sqlite.live_session import (
    Live,
    PastState,
    located,
)
from stator.store.sqlite.projection import SEQ_BITS, SQL, Ledger
from stator.store.sqlite.queries import (
    commits,
    keys,
    lineage,
    places,
    session_list,
    tails,
)
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.queries.state import exact_ledger
from stator.store.sqlite.store_lock import WriteLock
from stator.store.sqlite.writer import AppendRequest, Writer

if TYPE_CHECKING:  # loaded by the first write: reading does without its patterns
    from stator.model.log.redact import Redactor

TAILS_MAX = 1000
"""Unflushed commits one process may leave over all its sessions."""

REDACTORS_MAX = 1000

LOG_INSERT = SQL["log_insert"]

_encode_record = msgspec.json.Encoder(order="sorted").encode


class Appender:
    """The sessions this process writes, and the one writer they go through."""

    def __init__(
        self,
        path: str,
        blob_key: bytes,
        durability: Durability,
        *,
        redact: bool,
        clock: Callable[[], int],
        salts: Callable[[int], bytes],
        drop_readers: Callable[[], None],
        locked: WriteLock,
    ) -> None:
        self.path = path
        self.ownership = OWN
        self.drivers = DriverLocks(path)
        self.drop_readers = drop_readers
        self.live: dict[str, Live] = {}
        self.unflushed = 0
        self.writer = Writer(self, durability, locked)
        self._blob_key = blob_key
        self._redact = redact
        self._clock = clock
        self._salts = salts
        self._recent: set[bytes] = set()
        """Ids of unflushed commits this process knows of, in any session."""
        self._redactors: dict[str, Redactor] = {}
        """By the oldest ancestor, whose key they have: forks of one session share theirs."""

    # -- what is believed -------------------------------------------------------------------------

    def session_live(self, db: apsw.Connection, session: str) -> Live:
        live = self.live.get(session)
        if live is None:
            live = self._open_live(db, session)
        elif live.generation != self.writer.generation and self._changed(db, live):
            self.forget(session)
            live = self._open_live(db, session)
        live.generation = self.writer.generation
        return live

    def _changed(self, db: apsw.Connection, live: Live) -> bool:
        """Whether someone else moved this session's head, lease or projections."""
        place = live.place
        row = one(db, SQL["session_by_id"], (to_bytes(place.record.id),))
        # A flush by another process counts too: its commits are in the tables now and still in our tail.
        if row is None or row[2] != place.epoch or row[5] != place.flushed:
            return True
        return commits.last_seq(db, place.segments[-1]) != live.seq

    def _open_live(self, db: apsw.Connection, session: str, first: Draft | None = None) -> Live:
        place = places.load_place(db, session)
        tails.load_tail(db, place)
        live = Live(
            db,
            place,
            self._redactor(db, place, first),
            self._digest(place),
            unborn=first is not None,
        )
        live.generation = self.writer.generation
        self.live[session] = live
        self.unflushed += len(place.tail)
        self._recent.update(place.tail.ids)
        return live

    def forget(self, session: str) -> None:
        live = self.live.pop(session, None)
        if live is not None:
            self.unflushed -= len(live.place.tail)
            self._recent.difference_update(live.place.tail.ids)

    def forget_all(self) -> None:
        self.live.clear()
        self._recent.clear()
        self._redactors.clear()
        self.unflushed = 0

    def _redactor(
        self, db: apsw.Connection, place: SessionPlace, first: Draft | None
    ) -> Redactor | None:
        """The session's redactor: its key is content of the first commit of its oldest ancestor."""
        if not self._redact:
            return None
        first_id = place.segments[0].session
        known = self._redactors.get(first_id)
        if known is not None:
            return known
        if len(self._redactors) >= REDACTORS_MAX:
            self._redactors.clear()
        key = ""
        if first is not None and first.kind == "open":
            key = first.key
        else:
            oldest = commits.read_one(db, place.segments[0], 1)
            if isinstance(oldest.content.get("key"), bytes):
                key = oldest.value("key")
        # Without a key of its own (or after it was erased), one that the store alone knows.
        made = redactor(key or keyed(self._blob_key, first_id.encode()).hex())
        self._redactors[first_id] = made
        return made

    def _digest(self, place: SessionPlace) -> Callable[[bytes], bytes]:
        """Blobs are addressed by a digest keyed per store and tenant: equality across tenants does not show."""
        secret = self._blob_key + place.record.tenant.encode()
        return lambda data: keyed(secret, data)

    # -- appending --------------------------------------------------------------------------------

    def append_request(self, db: apsw.Connection, request: AppendRequest) -> list[Commit]:
        live = self.session_live(db, request.session)
        if request.bookmark is not None:
            bookmarks.check(db, live, request.bookmark)
        if request.if_head is not None:
            first = request.drafts[0]
            landed = self._already(db, live, first) is not None  # and is only asked for again
            if not landed:
                request.check_head(live.hash, live.seq)
        commits = []
        for draft in request.drafts:
            commits.append(self._append_one(db, live, draft, request.fresh))
            if draft.kind in REMOVALS:  # it dropped what was believed
                live = self.session_live(db, request.session)
        if request.bookmark is not None:
            bookmarks.write(db, live, request.bookmark)
        if len(live.place.tail.commits) >= projection.TAIL_MAX:
            self.flush(db, live)
        # Many sessions with short tails are as slow to read as one with a long tail: every reader replays them.
        elif self.unflushed >= TAILS_MAX:
            self.flush_all(db)
        return commits

    def _append_one(
        self, db: apsw.Connection, live: Live, draft: Draft, fresh: bool = False
    ) -> Commit:
        """Seal one draft and write its row; the caller's transaction makes it durable."""
        place = live.place
        session = place.record.id
        if draft.session != session:
            raise InvalidInput(f"draft {draft.id} is for another session", session=draft.session)
        # A fresh id was made for this append and cannot be here. An origin can be, under another id.
        if not fresh or draft.origin is not None:
            there = self._already(db, live, draft)
            if there is not None:
                return there
        if draft.kind in ("open", "fork"):
            if not live.unborn:
                raise InvalidInput(f"session {session} has begun already", path="$.kind")
        else:
            draft = admitted(draft, place.record, place.epoch if place.holder else 0)
        spot = CommitPlace(live.seq + 1, next_turn(draft, live), self._clock(), live.hash)
        sealed = seal(draft, spot, live, live.redactor, self._salts)
        self._insert(db, live, sealed.commit, sealed.keys)
        if draft.kind in REMOVALS:
            self._remove(db, live, draft, sealed.commit.seq)
        return sealed.commit

    def _remove(self, db: apsw.Connection, live: Live, draft: Draft, by: int) -> None:
        """Take away what an erasure or a purge says is to go."""
        # Removals work on the tables; a tail that is flushed later would bring the content back.
        self.flush(db, live)
        if draft.kind == "erasure":
            # A note may hold a copy of what is erased: it was read, and not recorded yet.
            bookmarks.drop(db, live.place.s, keep=redaction_mark.NOTE)
            erasure.erase(db, live.place, draft, by, live.digest)
        else:
            purge.purge(db, self.drivers, live.place, draft)
        self._leave_unfinished(db)

    def _leave_unfinished(self, db: apsw.Connection) -> None:
        """Something was taken away: until the writer is finished with it, its bytes are in the WAL."""
        space.mark(db)
        self.writer.unfinished = self.writer.removed = True
        self.forget_all()

    def _insert(self, db: apsw.Connection, live: Live, commit: Commit, keys: Sequence[str]) -> None:
        place = live.place
        key = place.s << SEQ_BITS | commit.seq
        row = to_row(commit, live.digest)
        for digest, data, size in row.blobs:
            slot = put_blob(db, digest, data, size)
            db.execute(SQL["blob_use_insert"], (slot, key))
        db.execute(LOG_INSERT, (key, row.id, row.hash, row.salts, row.body))
        if not place.dirty:
            db.execute(SQL["session_dirty"], (place.s,))
            place.dirty = True
        before = place.record
        live.advance(commit, keys)
        self._recent.add(row.id)
        self.unflushed += 1
        if place.record is not before:
            record = place.record
            db.execute(
                SQL["session_record"],
                (
                    record.name,
                    record.agent,
                    record.status,
                    _encode_record(record),
                    commit.used,
                    place.s,
                ),
            )
            if record.aliases != before.aliases:
                _put_aliases(db, record, place.s)

    def _already(self, db: apsw.Connection, live: Live, draft: Draft) -> Commit | None:
        """The commit this draft already is, or `IdReused`; None if it is new."""
        identifier = to_bytes(check_id(draft.id, "commit"))
        known = draft if draft.origin is None else with_recorded_origin(draft, live.redactor)
        seq = live.place.tail.ids.get(identifier)
        # The index of ids holds flushed commits only; those in the tails of other sessions are known from here.
        if seq is None and identifier in self._recent:
            raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
        if seq is None:
            key = projection.find_commit(db, identifier)
            if key is not None:
                seq = located(db, live.place, draft.id)
                if not seq:
                    raise IdReused(f"commit {draft.id} is in another session", commit=draft.id)
        if seq is not None:
            commit = self._read_at(db, live.place, seq)
            before = PastState(db, live.place, seq - 1)
            if same_origin(known, commit) or same_part(draft, commit, before, live.redactor):
                return commit
            raise IdReused(
                f"commit {draft.id} exists already, at @{seq}, with another body",
                hint="use a new id for a new commit",
                commit=draft.id,
                session=draft.session,
            )
        return self._by_origin(db, live, known)

    def _by_origin(self, db: apsw.Connection, live: Live, draft: Draft) -> Commit | None:
        if draft.origin is None:
            return None
        slot = (draft.kind, *draft.origin, draft.attempt)
        seq = live.place.tail.origins.get(slot)
        if seq is None:
            for segment in live.place.segments:
                row = one(db, SQL["origin_find"], (segment.s, *slot))
                if row is not None and row[0] <= segment.upto:
                    seq = row[0]
        return None if seq is None else self._read_at(db, live.place, seq)

    def _read_at(self, db: apsw.Connection, place: SessionPlace, seq: int) -> Commit:
        return commits.read_commits(
            db, place, after=seq - 1, upto=seq, newest_first=False, limit=1, load=True
        )[0]

    # -- flushing ---------------------------------------------------------------------------------

    def flush(self, db: apsw.Connection, live: Live) -> None:
        place = live.place
        if not len(place.tail):
            return
        self.unflushed -= len(place.tail)
        keys.complete(db, place)
        ledger = exact_ledger(db, place)
        place.ledger = projection.flush(db, place.s, place.tail, ledger, place.low, place.lineage)
        place.flushed = live.seq
        place.dirty = False
        self._recent.difference_update(place.tail.ids)
        place.tail = projection.Tail()
        bookmarks.mark_redacted(db, live, self.ownership)

    def flush_session(self, db: apsw.Connection, session: str) -> None:
        self.flush(db, self.session_live(db, session))

    def flush_all(self, db: apsw.Connection) -> None:
        """Update every session this process has opened with what other processes appended since."""
        for session in list(self.live):
            self.flush_session(db, session)

    def flush_dirty(self, db: apsw.Connection) -> None:
        for identifier in session_list.dirty(db):
            self.flush_session(db, from_bytes(identifier, "session"))

    def rebuild(self, db: apsw.Connection) -> None:
        projection.wipe(db)
        sessions = many(db, SQL["session_ids"])
        for s, identifier in sessions:
            place = places.load_place(db, from_bytes(identifier, "session"))
            db.execute(SQL["session_reset"], (place.low, b"", s))
            place.flushed, place.ledger = place.low, Ledger(exact=True)
            for tail in places.tails(db, place):
                place.ledger = projection.flush(db, s, tail, place.ledger, place.low, place.lineage)
        self.unflushed = 0

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self,
        db: apsw.Connection,
        record: SessionRecord,
        drafts: Sequence[Draft],
        bookmark: Bookmark | None = None,
    ) -> tuple[str, bool]:
        if self._redact:
            record, drafts = scrub_names(record, drafts, self._blob_key)
        there = one(db, SQL["session_by_name"], (record.tenant, record.project, record.name))
        if there is not None:
            return from_bytes(there[1], "session"), False
        live = self._begin(db, record, drafts[0])
        for draft in drafts:
            self._append_one(db, live, draft)
        if bookmark is not None:
            bookmarks.write(db, live, bookmark)
        self.flush(db, live)
        return record.id, True

    def _begin(self, db: apsw.Connection, record: SessionRecord, first: Draft) -> Live:
        """A row for a session that has no commit yet; what its lineage lends it is flushed."""
        if one(db, SQL["session_by_id"], (to_bytes(record.id),)):
            raise Conflict(f"session {record.id} exists under another name", session=record.id)
        if one(db, SQL["session_by_name"], (record.tenant, record.project, record.name)):
            raise Conflict(
                f"there is another session {record.name!r:.80} in {record.project!r:.80}",
                hint="close and rename one of them, or use another project",
                session=record.id,
            )
        for segment in record.lineage:
            self.flush_session(db, segment.session)
        self._insert_session(db, record)
        return self._open_live(db, record.id, first=first)

    def _insert_session(self, db: apsw.Connection, record: SessionRecord) -> int:
        now = record.created
        low = lent_upto(record.lineage)
        row = (
            to_bytes(record.id),
            record.tenant,
            record.project,
            record.name,
            record.agent,
            record.mode,
            record.status,
            to_bytes(record.parent.session) if record.parent else None,
            _encode_record(record),
            now,
            now,
            low,
            b"",
        )
        s: int = one(db, SQL["session_insert"], row)[0]
        _put_aliases(db, record, s)
        return s

    def ingest(
        self, db: apsw.Connection, commits: Iterable[Commit], projects: Mapping[str, str]
    ) -> tuple[int, bool]:
        """How many were new, and whether something that was here had to be erased."""
        new, erased = 0, False
        self.flush_dirty(db)  # ids are looked up in what is flushed, also of what others appended
        for session, own in groupby(commits, key=attrgetter("session")):
            first = next(own)
            if one(db, SQL["session_by_id"], (to_bytes(session),)) is None:
                record = ingested_record(first)
                record = in_project(record, projects.get(session, record.project))
                live = self._begin(db, record, opening_draft(first))
            else:
                live = self.session_live(db, session)
            live.sealed_after = None
            targets: erasure.Targets = {}
            known: dict[tuple[str, str], str] = {}
            for commit in chained([first], own):
                new += self._ingest_one(db, live, commit, targets, known)
            self.flush(db, live)
            if erasure.carry_out(db, live.place, targets, live.digest):
                bookmarks.drop(db, live.place.s, keep=redaction_mark.NOTE)
                erased = True
            # `live` still holds what was erased from the tables a line above.
            self.forget(session)
        if erased:
            self._leave_unfinished(db)
        return new, erased

    def _ingest_one(
        self,
        db: apsw.Connection,
        live: Live,
        commit: Commit,
        targets: erasure.Targets,
        known: dict[tuple[str, str], str],
    ) -> bool:
        place = live.place
        if commit.seq <= live.seq:
            mine = one(db, SQL["log_hash"], (lineage.key(place.s, commit.seq),))
            chain.must_match(mine[0].hex() if mine else "", commit)
            # An erasure travels with a bundle: what was erased where it was made is erased here too.
            if any(isinstance(item, Gone) and item.by for item in commit.content.values()):
                mine = self._read_at(db, place, commit.seq)
                for by, names in chain.erased_by(mine, commit).items():
                    targets.setdefault(by, {})[commit.seq] = names
            return False
        chain.must_follow(commit, live.hash, live.seq + 1)
        identifier = to_bytes(commit.id)
        if identifier in self._recent or projection.find_commit(db, identifier) is not None:
            raise IdReused(f"commit {commit.id} is already in this store", commit=commit.id)
        if not live.is_ingested:
            self._check_free(place)
            live.is_ingested = (
                True  # in this transaction: a driver would need one of its own to begin
            )
        self._insert(db, live, commit, places.resolve_keys(db, place, commit, known))
        if len(place.tail) >= projection.TAIL_MAX:
            self.flush(db, live)
        return True

    def _check_free(self, place: SessionPlace) -> None:
        """Refuse to add to a log that a live driver is appending to."""
        # A live driver has the state in memory, and would continue from a head that is no longer the newest.
        holder = self.drivers.holder(place.holder, place.epoch)
        if holder is not None and holder.live:
            raise driven(place.record, holder)


def _put_aliases(db: apsw.Connection, record: SessionRecord, s: int) -> None:
    """The names that a session has elsewhere, as its record has them."""
    db.execute(SQL["alias_delete"], (s,))
    for source, foreign_id in record.aliases:
        db.execute(SQL["alias_insert"], (record.tenant, source, foreign_id, s))


def put_blob(db: apsw.Connection, digest: bytes, data: bytes, size: int) -> int:
    """Keep a blob once; the slot it is in."""
    # 63 bits, because SQLite's rowids are signed. A slot that is taken holds the same bytes or, very rarely,
    # others whose digest begins alike.
    slot = int.from_bytes(digest[:8], "big") >> 1
    while (row := one(db, SQL["blob_get"], (slot,))) is not None:
        if row[0] == digest:
            return slot
        slot += 1
    db.execute(SQL["blob_insert"], (slot, digest, size, data))
    return slot
