"""Follows a session: every commit after a cursor, in order, exactly once, as it comes.

A cursor is the seq of the last commit that was delivered. A program that keeps it can stop, crash or
be another process tomorrow, and continue from it with no gap and no duplicate: the log numbers its
commits without holes, and a read sees them as one transaction left them.

Looking is one synchronous operation (`Tailing.look`); waiting between looks is the caller's, so that
threads sleep and event loops await. Both wait on the one watcher of the store (`runtime.base.watch`), unless the
caller has a rhythm of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stator.errors import BadPosition, BrokenChain, NotFound
from stator.model.log.commit import Commit
from stator.runtime.base.watch import FIRST_S, LAST_S, Watch, longer, watcher_of
from stator.runtime.views.as_read import itself
from stator.store.port import StorePort

PAGE = 500


class Tailing:
    """A place in a log that moves on with it.

    `after` is a cursor; None means the head at the first look. Without `follow` it ends at
    the head it finds. `until` is asked before every look; once it says yes, what is in the log by
    then is still delivered, and that is the end.
    """

    def __init__(
        self,
        store: StorePort,
        session: str,
        after: int | None = None,
        *,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> None:
        if after is not None and (type(after) is not int or after < 0):
            raise BadPosition(
                f"a cursor is the seq of a commit, got {after!r:.40}",
                hint="0 is before the first commit",
            )
        self._store = store
        self._session = session
        self._cursor = after
        self._started = False
        self._follow = follow
        self._until = until
        self._load = load
        self._watch: Watch | None = None
        self.ended = False
        self.wait_s = 0.0
        """How long to wait before the next look; 0 where there may be more at once."""

    def look(self) -> list[Commit]:
        """The next commits; empty if nothing is new."""
        cursor = self._begin()
        last = not self._follow or (self._until is not None and self._until())
        page = self._store.commits(self._session, after=cursor, limit=PAGE, load=self._load)
        if page and page[0].seq != cursor + 1:
            raise BrokenChain(
                f"after commit @{cursor} of session {self._session} comes @{page[0].seq}",
                hint="stator verify reports what is missing",
                session=self._session,
                seq=page[0].seq,
            )
        if page:
            self._cursor = page[-1].seq
        whole = len(page) == PAGE
        self.ended = last and not whole
        self.wait_s = 0.0 if whole else FIRST_S if page else longer(self.wait_s)
        return page

    def _begin(self) -> int:
        if self._started and self._cursor is not None:
            return self._cursor
        head = self._store.head(self._session).seq
        if self._cursor is None:
            self._cursor = head
        elif self._cursor > head:
            # Another store, or one that was put back to an earlier time: what would follow this
            # cursor is not what its holder expects.
            raise NotFound(
                f"no commit @{self._cursor} in session {self._session}: its head is @{head}",
                hint="the cursor is of another store, or the store is an older copy",
                session=self._session,
            )
        self._started = True
        return self._cursor

    # -- waiting ----------------------------------------------------------------------------------

    @property
    def watch(self) -> Watch:
        """What signals that the session has moved, from the last look on."""
        if self._watch is None:
            self._watch = watcher_of(itself(self._store)).watch()
            self._watch.follow(self._session, self._begin())
        return self._watch

    @property
    def longest_s(self) -> float | None:
        """The longest wait: without an end, unless `until` is to be asked in between."""
        return None if self._until is None else LAST_S

    def wait(self, seconds: float | None = None) -> None:
        """Wait until there may be something new; ended if the store was closed."""
        woken = self.watch.wait(self.longest_s if seconds is None else seconds)
        self.woken(woken)

    def woken(self, news: bool) -> None:
        """The wait is over, with news or without."""
        self.ended = self.ended or self.watch.ended
        self._started = (
            self._started and not news
        )  # the log may have been put back to an earlier time

    def close(self) -> None:
        """Stop following."""
        if self._watch is not None:
            self._watch.close()


def tail(tailing: Tailing, sleep: Callable[[float], None] | None = None) -> Iterator[Commit]:
    """Every commit, one by one, waiting while nothing is new: for the watcher of the store, or as `sleep` does."""
    try:
        while not tailing.ended:
            yield from tailing.look()
            if not tailing.wait_s or tailing.ended:
                continue
            if sleep is None:
                tailing.wait()
            else:
                sleep(tailing.wait_s)
    finally:
        tailing.close()
