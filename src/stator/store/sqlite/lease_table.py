"""Leases in the database: which epoch drives a session, and who says so. Whether a holder lives is `lease`'s."""

from __future__ import annotations

import apsw
import msgspec

from stator.errors import Busy
from stator.model.log.query import Holder, Lease
from stator.store.sqlite import driver_lock
from stator.store.sqlite.append import Appender
from stator.store.sqlite.connection import one
from stator.store.sqlite.projection import SQL
from stator.store.sqlite.queries import keys, places

_pack = msgspec.msgpack.Encoder().encode


class Leases:
    """The leases this process holds in one store."""

    def __init__(self, appender: Appender) -> None:
        self.path = appender.path + "-lease"
        driver_lock.use(self.path)
        self.held: dict[int, Lease] = {}
        self._appender = appender

    def close(self) -> None:
        """The store is not used any more."""
        driver_lock.leave(self.path)

    def acquire(self, session: str, holder: Holder, take: bool) -> Lease:
        locked: list[int] = []
        try:
            granted = self._appender.writer.transaction(
                lambda db: self._acquire(db, session, holder, take, locked)
            )
        except BaseException:
            for epoch in locked:  # it was never published, and is the next acquirer's
                driver_lock.let_go(self.path, epoch)
            raise
        self.held[granted.epoch] = granted
        return granted

    def _acquire(
        self, db: apsw.Connection, session: str, holder: Holder, take: bool, locked: list[int]
    ) -> Lease:
        place = places.load_place(db, session, with_tail=False)
        current = driver_lock.holder(self.path, place.holder, place.epoch)
        if current is not None and current.live and not take:
            raise Busy(
                f"session {place.record.name!r} ({session}) is driven by {current.program or 'a program'}"
                f" on {current.host}, pid {current.pid}, since {current.since}",
                holder=current,
                hint='open it with busy="read" to look, "fork" to branch, "take" to displace it',
                session=session,
            )
        keys.complete(db, place)
        epoch: int = one(db, SQL["next_epoch"])[0]
        # Locked before the epoch is published: nobody can find it unheld.
        driver_lock.hold(self.path, epoch)
        locked.append(epoch)
        db.execute(
            SQL["session_lease"],
            (epoch, _pack(msgspec.structs.replace(holder, epoch=epoch)), place.s),
        )
        self._appender.forget(session)
        return Lease(session, epoch, current if current and current.live else None)

    def release(self, held: Lease) -> None:
        self._appender.writer.transaction(lambda db: self._release(db, held))
        self.held.pop(held.epoch, None)
        driver_lock.let_go(self.path, held.epoch)

    def _release(self, db: apsw.Connection, held: Lease) -> None:
        live = self._appender.session_live(db, held.session)
        if len(live.place.tail):
            self._appender.flush(db, live)
        if live.place.epoch == held.epoch:
            db.execute(SQL["session_lease"], (held.epoch, None, live.place.s))
            live.place.holder = None
