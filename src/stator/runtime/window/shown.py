"""Knows which commits the model is shown, as ranges: what its next answer, and what is recorded next, is made from.

The ranges begin where the view begins: after a compaction's last boundary, and without what was rewound. They are
read from the log once, when they are first needed, and then kept up with what is appended.
"""

from __future__ import annotations

from stator.model.log.commit import Commit, Named
from stator.model.log.edges import Edge, as_inputs, is_shown
from stator.model.log.rewinds import stands, visible
from stator.model.records.tables import SHOWN
from stator.model.window.compaction import WHOLE, WINDOW, view_of
from stator.runtime.views import reflog
from stator.runtime.window.transcript import latest
from stator.store.port import StorePort

RECENT = 200
"""Commits before the head among which the last answer is looked for. Without one, all that is shown counts."""

AGAIN = frozenset({"compaction", "rewind"})
"""Kinds of commits after which what is shown is read again."""
SHOWS = SHOWN | AGAIN
"""Kinds of commits that change what is shown."""


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
        self._recent: tuple[Named, ...] | None = None
        """What is made from it and from what was shown since; None if more was shown."""

    def forget(self) -> None:
        """After a rewind or a compaction: what is shown is read again."""
        self._loaded = False

    def landed(self, commit: Commit) -> bool:
        """A commit of one of the kinds in `SHOWS` was appended. Whether it is an answer of the model."""
        if commit.kind in AGAIN:
            self._loaded = self._loaded and commit.status == WINDOW
            return False
        if not is_shown(commit):
            return False
        is_answer = commit.kind == "entry" and commit.actor == "model"
        if self._loaded:
            self._recent = None
            self._last = commit.seq
            if is_answer:
                self._answer = commit.seq
        return is_answer

    def whole(self, upto: int | None = None, *, since: int = 0) -> tuple[Named, ...]:
        """Everything that is shown: what an answer is made from. `upto`: as it was when that was the head;
        `since`: without what was left out before it."""
        if not self._loaded:
            self._load()
        last = self._last if upto is None else max(upto, self._last)
        return self._inputs(last, since)

    def recent(self) -> tuple[Named, ...]:
        """The last answer and what was shown since: what a decision is made from."""
        if not self._loaded:
            self._load()
        if self._recent is None:
            self._recent = self._inputs(self._last, self._answer)
        return self._recent

    def _inputs(self, last: int, since: int) -> tuple[Named, ...]:
        """What is shown from one commit to another, as a draft names it."""
        grows = (Edge(self._from, last),) if last >= self._from else ()
        return as_inputs(
            [
                Edge(max(edge.first, since), edge.last)
                for edge in (*self._closed, *grows)
                if edge.last >= since
            ]
        )

    def _load(self) -> None:
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
        answers = (c.seq for c in shown if c.kind == "entry" and c.actor == "model")
        self._answer = next(answers, 0)
        self._last = shown[0].seq if shown else head
        grows = ranges.pop() if ranges else Edge(head + 1, head + 1)
        if grows.last < head:  # a rewind is the newest commit: the next one begins a range
            ranges.append(grows)
            grows = Edge(head + 1, head + 1)
        self._closed, self._from = [*kept, *ranges], grows.first
        self._recent = None
        self._loaded = True
