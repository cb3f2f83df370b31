"""Leases in the database: which epoch drives a session, and who says so. Whether a holder lives, `driver_lock` says."""

from __future__ import annotations

from datetime import UTC, datetime

import apsw
import msgspec

from stator.errors import Busy, StoreBusy
from stator.model.log.query import Holder, Lease, SessionRow
from stator.store.sqlite import connection
from stator.store.sqlite.append import Appender
from stator.store.sqlite.connection import one
from stator.store.sqlite.projection import SQL
from stator.store.sqlite.queries import keys, places

_pack = msgspec.msgpack.Encoder().encode


def _driven_by(holder: Holder) -> str:
    since = datetime.fromtimestamp(holder.since / 1e6, UTC)
    return (
        f"driven by {holder.program or 'a program'} on {holder.host}, pid {holder.pid},"
        f" since {since:%Y-%m-%d %H:%M:%S} UTC"
    )


class Leases:
    """The leases this process holds in one store."""

    def __init__(self, appender: Appender) -> None:
        self.held: dict[int, Lease] = {}
        self._appender = appender
        self._drivers = appender.drivers

    def acquire(self, session: str, holder: Holder, take: bool, over: int) -> Lease:
        locked: list[int] = []
        try:
            granted = self._appender.writer.transaction(
                lambda db: self._acquire(db, session, holder, take, over, locked),
                seconds=connection.OPEN_S,
            )
        except BaseException:
            for epoch in locked:  # it was never published, and is the next acquirer's
                self._drivers.let_go(epoch)
            raise
        self.held[granted.epoch] = granted
        return granted

    def _acquire(
        self,
        db: apsw.Connection,
        session: str,
        holder: Holder,
        take: bool,
        over: int,
        locked: list[int],
    ) -> Lease:
        place = places.load_place(db, session)
        current = self._drivers.holder(place.holder, place.epoch)
        if current is not None and current.live and not take and current.epoch != over:
            raise Busy(
                f"session {place.record.name!r} ({session}) is {_driven_by(current)}",
                holder=current,
                hint='open it with busy="read" to look, "fork" to branch, "take" to displace it',
                session=session,
            )
        keys.complete(db, place)
        epoch: int = one(db, SQL["next_epoch"])[0]
        # Locked before the epoch is published: nobody can find it unheld.
        self._drivers.hold(epoch)
        locked.append(epoch)
        db.execute(
            SQL["session_lease"],
            (epoch, _pack(msgspec.structs.replace(holder, epoch=epoch)), place.s),
        )
        self._appender.forget(session)
        return Lease(session, epoch, current if current and current.live else None)

    def named(self, error: StoreBusy, row: SessionRow) -> StoreBusy:
        """The error of an acquirer that could not even ask, with the driver that is asked for."""
        driver = row.holder
        if driver is None or not driver.live:
            return error
        return StoreBusy(
            f"{error.what}; session {row.record.name!r} ({row.id}) is {_driven_by(driver)}",
            hint=error.hint,
            **{
                **error.ids,
                "session": row.id,
                "pid": driver.pid,
                "host": driver.host,
                "since": driver.since,
            },
        )

    def release(self, held: Lease) -> None:
        try:
            self._appender.writer.transaction(
                lambda db: self._release(db, held), seconds=connection.OPEN_S
            )
        finally:
            # Also where nothing can be written: the session would stay busy for as long as this process
            # lives. Its row then names a holder that is not live, which is what a dead driver leaves.
            self.held.pop(held.epoch, None)
            self._drivers.let_go(held.epoch)

    def _release(self, db: apsw.Connection, held: Lease) -> None:
        live = self._appender.session_live(db, held.session)
        if len(live.place.tail):
            self._appender.flush(db, live)
        if live.place.epoch == held.epoch:
            db.execute(SQL["session_lease"], (held.epoch, None, live.place.s))
            live.place.holder = None
