"""Reads in which commits of its parent each turn of a child was asked; each turn once in a run of the parent."""

from __future__ import annotations

import threading

from stator.errors import NotFound
from stator.model.calls.known_children import ChildTurn
from stator.store.port import StorePort


class TurnsOfChildren:
    """The turns of the children of one driven session, as far as they were asked for."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: dict[str, list[ChildTurn]] = {}
        """A stretch of the turns of each child, up to the last there was."""

    def after(self, session: str, last: int) -> list[ChildTurn]:
        """The turns of a child after that number."""
        with self._lock:
            read = self._read.setdefault(session, [])
            low, high = (read[0].number - 1, read[-1].number) if read else (last, last)
            if last < low:
                read[:0] = self._turns(session, last, low)
            read += self._turns(session, max(high, last), None)
            return [turn for turn in read if turn.number > last]

    def _turns(self, session: str, after: int, upto: int | None) -> list[ChildTurn]:
        found: list[ChildTurn] = []
        try:
            while page := self._store.turns(session, after=after, upto=upto, prompts=True):
                for row in page:
                    if (began := row.began) is not None:
                        asked = frozenset(name for name in began.inputs if isinstance(name, str))
                        found.append(ChildTurn(row.turn, began.attempt or 1, began.run, asked))
                after = page[-1].turn
        except NotFound:  # it was announced and never begun
            return []
        return found
