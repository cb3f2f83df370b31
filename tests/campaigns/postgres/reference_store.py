"""A store on PostgreSQL in as few lines as the laws need: a memory store in front of a table of commits.

The campaign runs over it as over Stator's own, so that what fails is known to be the campaign or the store. Each of
its `faults` takes away one thing that a store on PostgreSQL must do; the campaign must find every one of them.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from campaigns.postgres.wire import NoAnswer, Wire
from stator.errors import StoreUnreachable
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Commit, Draft
from stator.model.log.query import Holder, Lease, SessionRow, StoreInfo
from stator.store.memory import MemoryStore
from stator.store.memory.answers import hashed_delta, opening_record

BEAT_S = 2.0
CONFLICTS_MAX = 50
SCHEMA = """
CREATE SEQUENCE IF NOT EXISTS ref_epoch;
CREATE TABLE IF NOT EXISTS ref_session (
    id text PRIMARY KEY, name text UNIQUE, head int, hash text, epoch bigint, holder bytea, beats bigint
);
CREATE TABLE IF NOT EXISTS ref_log (
    session text, seq int, id text, hash text, body bytea, PRIMARY KEY (session, seq)
);
"""
CREATE = """
WITH ok AS (
    INSERT INTO ref_session VALUES (%s, %s, %s, %s, 0, NULL, 0) ON CONFLICT DO NOTHING RETURNING id
) INSERT INTO ref_log SELECT ok.id, n.* FROM ok, unnest(%s::int[], %s::text[], %s::text[], %s::bytea[]) n
RETURNING seq
"""
APPEND = """
WITH ok AS (
    UPDATE ref_session SET head = %s, hash = %s WHERE id = %s AND hash = %s AND (epoch = %s OR %s) RETURNING id
) INSERT INTO ref_log SELECT ok.id, n.* FROM ok, unnest(%s::int[], %s::text[], %s::text[], %s::bytea[]) n
RETURNING seq
"""
ACQUIRE = """
UPDATE ref_session SET epoch = greatest(nextval('ref_epoch'), epoch + 1), holder = %s, beats = 1
WHERE id = %s AND epoch = %s AND holder IS NOT DISTINCT FROM %s RETURNING epoch
"""
FAULTS = ("believes a cancelled wait", "answers again at once", "does not fence")


class ReferenceStore(MemoryStore):
    """See `store.port`; without what no program of the campaign uses."""

    remote = True

    def __init__(self, url: str, *, fault: str = "") -> None:
        super().__init__()
        assert fault in ("", *FAULTS)
        self._fault = fault
        believes = fault == "believes a cancelled wait"
        self._wire = Wire(url, believes=believes)
        self._url = url
        self._at: dict[str, tuple[int, str]] = {}
        """Head and hash of each session as it was read last."""
        self._raw: dict[str, bytes | None] = {}
        self._held: set[tuple[str, int]] = set()
        self._raw_own = b""
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    @staticmethod
    def make(url: str) -> None:
        """Create the tables."""
        wire = Wire(url)
        wire.ask(SCHEMA)
        wire.drop()

    def info(self) -> StoreInfo:
        return StoreInfo(id="ref", url=self._url, kind="reference", schema=0, durability="full")

    def close(self) -> None:
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
        super().close()
        self._wire.drop()

    def _ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._wire.ask(query, *values)
        except NoAnswer as lost:
            self._sessions.clear()
            self._at.clear()
            raise StoreUnreachable(str(lost)) from lost

    # -- reading: everything that changed since the last look ----------------------------------------

    def _check(self) -> None:
        super()._check()
        if self._lock_depth:
            return
        rows = self._ask("SELECT id, head, hash, epoch, holder, beats FROM ref_session ORDER BY id")
        for session, head, hash_, epoch, holder, beats in rows:
            if self._at.get(session) != (head, hash_):
                self._load(session)
            kept = self._sessions[session]
            self._raw[session] = None if holder is None else bytes(holder)
            if self._fault == "does not fence":
                own = next((own for of, own in self._held if of == session), 0)
                epoch, holder = own or epoch, self._raw_own if own else holder
            kept.epoch = epoch
            kept.holder = None if holder is None else _holder(holder, epoch, beats)
        for gone in self._sessions.keys() - {row[0] for row in rows}:
            del self._sessions[gone]

    _lock_depth = 0
    """Above 0 while what was read must stay as it is."""

    def _load(self, session: str) -> None:
        self._sessions.pop(session, None)
        rows = self._ask("SELECT body FROM ref_log WHERE session = %s ORDER BY seq", session)
        commits: list[Commit] = [pickle.loads(body) for (body,) in rows]
        self._lock_depth += 1
        try:
            kept = self._begin_ingested(commits[0], None)
            for commit in commits:
                self._take(kept, msgspec.structs.replace(commit, delta=hashed_delta(commit)))
        finally:
            self._lock_depth -= 1
        self._at[session] = (commits[-1].seq, commits[-1].hash)

    # -- writing --------------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        with self._lock:
            row, made = super().create(drafts, bookmark=bookmark)
            commits = list(self._sessions[row.id].commits)
            name = opening_record(drafts).name
            if not made:
                self._confirm(row.id)
                return row, False
            new = self._ask(
                CREATE, row.id, name, commits[-1].seq, commits[-1].hash, *_columns(commits)
            )
            if not new:
                self._sessions.pop(row.id)
                return super().create(drafts, bookmark=bookmark)[0], False
            self._at[row.id] = (commits[-1].seq, commits[-1].hash)
            return row, True

    def append(self, session: str, drafts: Sequence[Draft], **options: Any) -> list[Commit]:
        with self._lock:
            for _ in range(CONFLICTS_MAX):
                kept = self._find(session)
                seen = kept.commits[-1].hash
                many = len(kept.commits)
                self._lock_depth += 1
                try:
                    answers = super().append(session, drafts, **options)
                finally:
                    self._lock_depth -= 1
                new = self._sessions[session].commits[many:]
                if not new:
                    self._confirm(session)
                    return answers
                fenced = self._fault != "does not fence"
                landed = self._ask(
                    APPEND, new[-1].seq, new[-1].hash, session, seen, kept.epoch, not fenced,
                    *_columns(new),
                )  # fmt: skip
                if landed:
                    self._at[session] = (new[-1].seq, new[-1].hash)
                    return answers
                self._at.pop(session, None)
            raise StoreUnreachable("too many conflicts")

    def _confirm(self, session: str) -> None:
        """What is here may be on this server only, since a wait was cancelled. A write that is acknowledged after it
        is on the standby after it."""
        if self._fault != "answers again at once":
            self._ask("UPDATE ref_session SET beats = beats + 1 WHERE id = %s", session)

    def acquire(self, session: str, holder: Holder, **options: Any) -> Lease:
        with self._lock:
            for _ in range(CONFLICTS_MAX):
                kept = self._find(session)
                seen, raw = kept.epoch, self._raw[session]
                self._lock_depth += 1
                try:
                    lease = super().acquire(session, holder, **options)
                finally:
                    self._lock_depth -= 1
                rows = self._ask(ACQUIRE, msgspec.msgpack.encode(holder), session, seen, raw)
                if rows:
                    epoch = rows[0][0]
                    kept.epoch = epoch
                    self._held.add((session, epoch))
                    self._raw_own = msgspec.msgpack.encode(holder)
                    self._begin_to_beat()
                    return msgspec.structs.replace(lease, epoch=epoch)
            raise StoreUnreachable("too many conflicts")

    def release(self, lease: Lease) -> None:
        with self._lock:
            self._held.discard((lease.session, lease.epoch))
            self._ask(
                "UPDATE ref_session SET holder = NULL WHERE id = %s AND epoch = %s",
                lease.session, lease.epoch,
            )  # fmt: skip

    # -- signs of life ---------------------------------------------------------------------------------

    def _begin_to_beat(self) -> None:
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, daemon=True)
            self._heart.start()

    def _beat(self) -> None:
        wire = Wire(self._url)
        while not self._ended.wait(BEAT_S):
            for session, epoch in list(self._held):
                try:
                    wire.ask(
                        "UPDATE ref_session SET beats = beats + 1 WHERE id = %s AND epoch = %s",
                        session, epoch,
                    )  # fmt: skip
                except NoAnswer:
                    break
        wire.drop()


def _columns(commits: Sequence[Commit]) -> tuple[list[Any], ...]:
    return (
        [commit.seq for commit in commits],
        [commit.id for commit in commits],
        [commit.hash for commit in commits],
        [pickle.dumps(commit) for commit in commits],
    )


def _holder(raw: bytes, epoch: int, beats: int) -> Holder:
    holder = msgspec.msgpack.decode(bytes(raw), type=Holder)
    return msgspec.structs.replace(holder, epoch=epoch, live=True, beats=beats)
