"""Watches the drivers that a store at a distance reports: which of them are silent by their counters, and which of
this machine are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from stator.model.log.query import Holder, SessionRow
from stator.model.sessions.silence import HOLDERS_MAX, SeenCounter, is_silent, look


class SilentHolders:
    """What one process saw of the holders of leases, by their epochs."""

    def __init__(self, monotonic: Callable[[], float], is_gone: Callable[[str], bool]) -> None:
        self._monotonic = monotonic
        self._is_gone = is_gone
        self._seen: dict[int, SeenCounter] = {}
        self._lock = threading.Lock()

    def holder(self, holder: Holder) -> Holder:
        """A holder as the store reports it, judged by the kernel if it is of this machine, else by what was seen of it
        before. Where the store knows by itself whether it lives, that counts."""
        if not holder.beats:
            return holder
        if holder.live and holder.process and self._is_gone(holder.process):
            return msgspec.structs.replace(holder, live=False)
        now = self._monotonic()
        with self._lock:
            seen = self._seen.pop(holder.epoch, None)
            self._seen[holder.epoch] = seen = look(seen, holder.beats, now)
            if len(self._seen) > HOLDERS_MAX:
                self._seen.pop(next(iter(self._seen)))
        if holder.live is not True or not is_silent(seen, now):
            return holder
        return msgspec.structs.replace(holder, live="silent")

    def row(self, row: SessionRow) -> SessionRow:
        if row.holder is None or not row.holder.beats:
            return row
        return msgspec.structs.replace(row, holder=self.holder(row.holder))
