"""Leases: which epoch drives a session, and the sign of life of this process.

A server cannot ask the kernel of another machine whether a driver lives. Each process that holds a lease moves
a counter of its own; who looks judges by what it sees, on its own clock (`model.sessions.silence`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Sequence

import msgspec

from stator.errors import Busy, StatorError
from stator.model.log.query import Holder, Lease
from stator.store.postgres.connection import Connections, Rows, Statement, Transaction
from stator.store.postgres.queries.commit_rows import commit_of, ranged
from stator.store.postgres.session_row import (
    MAX_SEQ,
    FoundSession,
    by_id,
    encode_holder,
    holder_of,
    key_of,
    must_find,
)

BEAT_S = 2.0
"""How often a process that holds a lease moves its counter."""


class PostgresLeases:
    """The leases that one store object holds."""

    def __init__(self, connections: Connections) -> None:
        self.held: dict[int, Lease] = {}
        self._connections = connections
        self._process = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._heart: _Heart | None = None
        self._begun = False

    def acquire(
        self,
        session: str,
        holder: Holder,
        *,
        take: bool,
        over: int,
        newest: int,
        opening: Sequence[Statement],
    ) -> tuple[Lease, list[Rows]]:
        """The lease, and the rows of the statements of `opening`, as they are once it is held."""
        values = {
            "session": key_of(session),
            "holder": encode_holder(msgspec.structs.replace(holder, epoch=0)),
            "process": self._process,
            "take": take,
            "over": over,
        }
        asked = [
            Statement("process_insert", {"process": self._process}),
            by_id(session, lock=True),
            Statement("acquire", values),
        ]
        if newest:
            asked.append(ranged(session, 0, MAX_SEQ, True, newest, False))
        opened: list[Rows] = []

        def work(db: Transaction) -> Lease:
            _, there, got, *rows = db.ask(*asked, *opening, commit=True)
            opened[:] = rows[-len(opening) :]
            known = must_find(there, session)
            if not got:
                raise _busy(known)
            epoch, old_epoch, old, beats = got[0]
            displaced = holder_of(old, old_epoch, beats)
            newer = rows[0][::-1] if newest else []
            last = tuple(commit_of(row, load=False) for row in newer)
            live = displaced if displaced is not None and displaced.live else None
            return Lease(session, epoch, live, last)

        self._begin()
        lease = self._connections.write(work)
        self.held[lease.epoch] = lease
        return lease, opened

    def release(self, lease: Lease) -> None:
        values = {"session": key_of(lease.session), "epoch": lease.epoch}

        def work(db: Transaction) -> None:
            there, _ = db.ask(by_id(lease.session), Statement("release", values), commit=True)
            must_find(there, lease.session)

        try:
            self._connections.write(work)
        finally:
            # Also where nothing can be written: as soon as this process holds nothing it gives no sign.
            self.held.pop(lease.epoch, None)
            if not self.held:
                self._end()

    def close(self) -> None:
        """Release everything, as far as the server answers."""
        for lease in list(self.held.values()):
            with contextlib.suppress(StatorError):
                self.release(lease)
        self._end()
        if self._begun:
            gone = Statement("process_delete", {"process": self._process})
            with contextlib.suppress(StatorError):
                self._connections.write(lambda db: db.ask(gone, commit=True))

    def _begin(self) -> None:
        with self._lock:
            self._begun = True
            if self._heart is None:
                self._heart = _Heart(self._connections, self._process)

    def _end(self) -> None:
        with self._lock:
            heart, self._heart = self._heart, None
        if heart is not None:
            heart.stop()


def _busy(known: FoundSession) -> Busy:
    program = known.holder.program if known.holder is not None else ""
    return Busy(
        f"session {known.record.name!r:.80} ({known.id}) is driven by {program or 'a program'}",
        holder=known.holder,
        hint='open it with busy="read" to look, "fork" to branch, "take" to displace it',
        session=known.id,
    )


class _Heart:
    """A thread that moves the counter of this process until it is stopped."""

    def __init__(self, connections: Connections, process: bytes) -> None:
        self._stopped = threading.Event()
        self._pid = os.getpid()
        self._connections = weakref.ref(connections)
        self._process = process
        self._thread = threading.Thread(target=self._run, name="stator-heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        beat = Statement("process_beat", {"process": self._process})

        def work(db: Transaction) -> None:
            db.durable = False  # a counter that a crash sets back has moved, too
            db.ask(beat, commit=True)

        while not self._stopped.wait(BEAT_S):
            connections = self._connections()
            if connections is None:
                return
            with contextlib.suppress(StatorError):  # it may be reached again at the next beat
                connections.write(work)
            del connections

    def stop(self) -> None:
        self._stopped.set()
        if self._pid == os.getpid() and threading.current_thread() is not self._thread:
            self._thread.join(BEAT_S)
