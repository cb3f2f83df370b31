"""Knows which commits the model is shown, as ranges: what its next answer, and what is recorded next, is made from.

The ranges begin where the view begins: after a compaction's last boundary, and without what was rewound. They are
read from the log once, when they are first needed, and then kept up with what is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stator.model.log.commit import Commit
from stator.model.log.edges import Edge, is_shown
from stator.model.log.rewinds import stands, visible
from stator.model.window.compaction import WHOLE, WINDOW, view_of
from stator.runtime.views import reflog
from stator.runtime.window.transcript import latest
from stator.store.port import StorePort

RECENT = 200
"""Commits before the head among which the last answer is looked for. Without one, all that is shown counts."""


class ShownRanges:
    """What of a session's log its model is shown. Not safe for threads: its driver locks."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._session = session
        self._loaded = False
        self._closed: list[Edge] = []
        """Ranges that do not grow any more."""
        self._from = 1
        """Where the range begins that grows."""
        self._last = 0
        """The last commit that is shown."""
        self._answer = 0
        """The last answer of the model."""

    def forget(self) -> None:
        """After a rewind or a compaction: what is shown is read again."""
        self._loaded = False

    def landed(self, commits: Iterable[Commit]) -> None:
        """These commits were appended."""
        for commit in commits:
            if commit.kind in ("compaction", "rewind"):
                self._loaded = self._loaded and commit.status == WINDOW
            elif self._loaded and is_shown(commit):
                self._last = commit.seq
                if is_answer(commit):
                    self._answer = commit.seq

    def whole(self, upto: int | None = None, *, since: int = 0) -> tuple[Edge, ...]:
        """Everything that is shown: what an answer is made from. `upto`: as it was when that was the head;
        `since`: without what was left out before it."""
        self._load()
        last = self._last if upto is None else max(upto, self._last)
        return tuple(_clipped(self._ranges(last), since))

    def recent(self) -> tuple[Edge, ...]:
        """The last answer and what was shown since: what a decision is made from."""
        self._load()
        return tuple(_clipped(self._ranges(self._last), self._answer))

    def _ranges(self, last: int) -> list[Edge]:
        grows = [Edge(self._from, last)] if last >= self._from else []
        return [*self._closed, *grows]

    def _load(self) -> None:
        if self._loaded:
            return
        store, session = self._store, self._session
        head = store.head(session).seq
        stretches = visible(reflog.rewinds(store, session), head)
        compaction = latest(store, session)
        boundary = (WHOLE if compaction is None else view_of(compaction)).summarise
        # The request that a boundary falls into is still shown.
        row = reflog.standing_turn(store, session, boundary, stretches) if boundary else None
        kept = [Edge(row.first, row.first)] if row is not None else []
        ranges = [
            Edge(max(after, boundary) + 1, upto) for after, upto in stretches if upto > boundary
        ]
        recent = store.commits(session, newest_first=True, limit=RECENT, load=False)
        shown = [c for c in recent if is_shown(c) and stands(stretches, c.seq)]
        self._answer = next((c.seq for c in shown if is_answer(c)), 0)
        self._last = shown[0].seq if shown else head
        grows = ranges.pop() if ranges else Edge(head + 1, head + 1)
        if grows.last < head:  # a rewind is the newest commit: the next one begins a range
            ranges.append(grows)
            grows = Edge(head + 1, head + 1)
        self._closed, self._from = [*kept, *ranges], grows.first
        self._loaded = True


def is_answer(commit: Commit) -> bool:
    """Whether a commit is an answer of the model that it is shown again."""
    return commit.kind == "entry" and commit.actor == "model" and is_shown(commit)


def _clipped(ranges: Iterable[Edge], since: int) -> Iterator[Edge]:
    for edge in ranges:
        if edge.last >= since:
            yield Edge(max(edge.first, since), edge.last)
