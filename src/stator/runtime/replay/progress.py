"""How far a replay has come: the copy of the record that grows with it, and what was found so far."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NoReturn, cast

import msgspec

from stator.model.calls.expectations import Divergence
from stator.runtime.base.context import Context
from stator.runtime.replay.report import Replayed
from stator.runtime.replay.sources import Source
from stator.store.port import StorePort


# Not an `Exception`: an agent that catches those would continue without its record.
class Halted(BaseException):
    """Ends a replay, even if the agent catches exceptions."""


class Replay:
    """One replay: the copy that grows, what matched so far, and where the program diverged.

    The copy holds only what was recorded up to the place that the program has reached, so that what
    it reads of state or transcript is what was there at that place.
    """

    def __init__(self, source: Source, copy: StorePort, context: Context, *, strict: bool) -> None:
        self.source, self.context = source, context
        self._store = copy
        self.copy = cast("StorePort", _Growing(copy, self.grow))
        self._strict = strict
        self._reached: dict[str, int] = {}
        self._copied: dict[str, int] = defaultdict(int)
        self._grown = True
        self.lock = threading.RLock()
        self.halted = False
        self.report = Replayed(session=source.main, name=source.record(source.main).name)

    # -- the copy ---------------------------------------------------------------------------------

    def reach(self, session: str, seq: int) -> None:
        """The program has reached this place of a session: the log up to there may be read."""
        with self.lock:
            self._reached[session] = max(seq, self._reached.get(session, 0))
            self._grown = False

    def grow(self) -> None:
        """Let the copy grow to where the program is."""
        with self.lock:
            if not self._grown:
                self._grown = True
                for session, seq in list(self._reached.items()):
                    self._copy_upto(session, seq)

    def _copy_upto(self, session: str, seq: int) -> None:
        """Commits up to a place, and before the first of them those of what it was forked from."""
        log = self.source.logs[session]
        done = place = self._copied[session]
        if not done:
            for part in self.source.record(session).lineage:
                if part.session in self.source.logs:
                    self._copy_upto(part.session, part.upto)
        while place < len(log) and log[place].seq <= seq:
            place += 1
        if place > done:
            self._store.ingest(log[done:place])
            self._copied[session] = place

    # -- findings ---------------------------------------------------------------------------------

    def check(self) -> None:
        """A replay that ended stays ended, even if the program caught the exception."""
        if self.halted:
            raise Halted

    def diverge(self, found: Divergence, session: str) -> NoReturn:
        with self.lock:
            if not self.halted:
                self.report.divergence = msgspec.structs.replace(found, session=session)
            self.halted = True
        raise Halted

    def end(self, why: str) -> NoReturn:
        with self.lock:
            if not self.halted:
                self.report.ended = why
            self.halted = True
        raise Halted

    def differ(self, found: Divergence, session: str) -> None:
        """Something that need not stop a replay."""
        if self._strict:
            self.diverge(found, session)
        with self.lock:
            self.report.differences.append(msgspec.structs.replace(found, session=session))


class _Growing:
    """The copy, as the program reads it: it grows on the first read. Most programs read little of it."""

    def __init__(self, store: StorePort, grow: Callable[[], None]) -> None:
        self._store, self._grow = store, grow

    def __getattr__(self, name: str) -> Any:
        self._grow()
        return getattr(self._store, name)
