"""Follows all sessions of a store or of a project in one stream that can be continued from a cursor.

Within a session, commits come by seq, without a gap. Across sessions they come in rounds: a round asks once which
sessions have moved (`heads`), and delivers each of them up to the head it had then, in the order in which sessions
arrived in the store. So what a fork continues is delivered before the fork. A fork has only its own commits here:
each commit of the store comes once.

A session that was removed leaves the cursor, and so does one that is no longer in the project. Should it come back, or
come back otherwise than it was read, it is delivered from its beginning. That it is otherwise is seen by the hash of
the commit that was delivered last: for every session when a stream is resumed, later when the session moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Self

from stator.errors import BrokenChain, NotFound
from stator.model.log.commit import Commit
from stator.model.log.query import GONE, Head, read
from stator.model.outlets import stream_cursor
from stator.model.outlets.stream_cursor import UNKNOWN, StreamPlace, mark_of
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.base.watch import LAST_S, Watch, watcher_of
from stator.runtime.views.as_read import itself
from stator.store.port import StorePort

PAGE = 500


class StoreTailing:
    """A place in every log of a store, which moves on with them.

    `cursor` is the text of an earlier one, "" is before everything, and None means the heads at the first look.
    Without `follow` it ends at the heads it finds. `until` is asked before every round; once it says yes, what
    the store holds by then is still delivered, and that is the end.
    """

    def __init__(
        self,
        store: StorePort,
        cursor: str | None = None,
        *,
        project: str | None = None,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> None:
        self._store = itself(store)
        self._kept = None if cursor is None else stream_cursor.load(cursor)
        self._begun = False
        self._project = project
        self._follow = follow
        self._until = until
        self._load = load
        self._places: dict[str, StreamPlace] = {}
        self._keys: dict[str, bytes] = {}
        self._round: deque[tuple[str, int]] = deque()
        self._last = False
        self._watch: Watch | None = None
        self.ended = False
        self.waits = False
        """Whether everything was read, so that the next look should wait for news."""

    # -- the cursor -------------------------------------------------------------------------------

    @property
    def cursor(self) -> str:
        """How far the stream was delivered, as a text that continues it anywhere."""
        if not self._begun:
            self._begin()
        for session in self._places:
            if session not in self._keys:
                self._keys[session] = stream_cursor.key_of(session)
        return stream_cursor.dump(
            (self._keys[session], place) for session, place in self._places.items()
        )

    def delivered(self, commit: Commit) -> None:
        """The commit was given out: the cursor is after it."""
        self._places[commit.session] = StreamPlace(commit.seq, mark_of(commit.hash))

    # -- looking ----------------------------------------------------------------------------------

    def look(self) -> list[Commit]:
        """The next commits, all of one session; empty if nothing is new. Those before must be `delivered`."""
        if not self._begun:
            self._begin()
        if not self._round:
            self._last = not self._follow or (self._until is not None and self._until())
            self._begin_round()
        page: list[Commit] = []
        while self._round and not page:
            page = self._next_page(*self._round[0])
        self.ended = self._last and not self._round
        self.waits = not self._round and not page
        return page

    def _begin(self) -> None:
        heads = self._store.heads({}, project=self._project, others=True)
        if self._kept is None:
            self._places = {session: StreamPlace(seq) for session, seq in heads.items()}
        else:
            self._places = stream_cursor.resume(heads, self._kept)
            self._forget_replaced(heads)
        self._kept = None
        self._begun = True

    def _forget_replaced(self, heads: Mapping[str, int]) -> None:
        """Forget the place in a log that is as long as it was, and ends with another commit.

        Any other log is compared when it is read (`_after_place`).
        """
        still = [
            session
            for session, place in self._places.items()
            if place.seq == heads[session] and place.mark != UNKNOWN
        ]
        for start in range(0, len(still), PAGE):
            some = still[start : start + PAGE]
            found = self._store.together(*(read("head", session) for session in some))
            for session, head in zip(some, found, strict=True):
                place = self._places[session]
                # One that was removed or has moved since is seen by the round that follows.
                is_there = isinstance(head, Head) and head.seq == place.seq
                if is_there and not place.is_at(head.seq, head.hash):
                    self._forget(session)

    def _begin_round(self) -> None:
        known = {session: place.seq for session, place in self._places.items()}
        for session, head in self._store.heads(known, project=self._project, others=True).items():
            if head == GONE:
                self._forget(session)
            else:
                self._round.append((session, head))

    def _next_page(self, session: str, head: int) -> list[Commit]:
        try:
            page = self._after_place(session, head)
        except NotFound:  # removed since the round began
            self._forget(session)
            page = []
        if not page or page[-1].seq >= head:
            self._round.popleft()
        return page

    def _after_place(self, session: str, head: int) -> list[Commit]:
        place = self._places.get(session)
        if place is not None and place.seq <= head:
            # With the commit that was delivered last, to see that the log still is the one that was read.
            page = self._commits(session, place.seq - 1, head)
            if page and place.is_at(page[0].seq, page[0].hash):
                return page[1:]
        low = lent_upto(self._store.session(session).record.lineage)
        page = self._commits(session, low, head)
        if page and page[0].seq != low + 1:
            raise _hole(session, low, page[0].seq)
        return page

    def _commits(self, session: str, after: int, upto: int) -> list[Commit]:
        page = self._store.commits(
            session, after=max(after, 0), upto=upto, limit=PAGE + 1, load=self._load
        )
        for before, commit in pairwise(page):
            if commit.seq != before.seq + 1:
                raise _hole(session, before.seq, commit.seq)
        return page

    def _forget(self, session: str) -> None:
        self._places.pop(session, None)
        self._keys.pop(session, None)

    # -- waiting ----------------------------------------------------------------------------------

    @property
    def watch(self) -> Watch:
        """What signals that any session of the store has moved."""
        if self._watch is None:
            self._watch = watcher_of(self._store).watch(everything=True)
        return self._watch

    @property
    def wait_s(self) -> float | None:
        """The longest wait: without an end, unless `until` is to be asked in between."""
        return None if self._until is None else LAST_S

    def wait(self, seconds: float | None = None) -> None:
        """Wait until there may be something new; ended if the store was closed."""
        self.watch.wait(self.wait_s if seconds is None else seconds)
        self.see_closed()

    def see_closed(self) -> None:
        self.ended = self.ended or self.watch.ended

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()


class StoreTail(Iterator[Commit]):
    """The commits of all sessions, one by one; `cursor` is after the last one that was given out."""

    def __init__(self, tailing: StoreTailing) -> None:
        self.tailing = tailing
        self._page: Iterator[Commit] = iter(())

    @property
    def cursor(self) -> str:
        """Where to continue: after every commit that this has given out, the last one included."""
        return self.tailing.cursor

    def __next__(self) -> Commit:
        while True:
            for commit in self._page:
                self.tailing.delivered(commit)
                return commit
            if self.tailing.ended:
                self.close()
                raise StopIteration
            self._page = iter(self.tailing.look())
            if self.tailing.waits and not self.tailing.ended:
                self.tailing.wait()

    def close(self) -> None:
        """Stop following. The cursor can still be asked for."""
        self.tailing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _hole(session: str, before: int, after: int) -> BrokenChain:
    return BrokenChain(
        f"after commit @{before} of session {session} comes @{after}",
        hint="stator verify reports what is missing",
        session=session,
        seq=after,
    )
