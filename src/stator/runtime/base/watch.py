"""Watches a store for everyone in this process who follows it: one thread, one look at a time.

A look asks the store which sessions have moved since the last one (`heads`), in one call for all that is
followed. A follower is only signalled that there may be something new; it reads the log itself, from its own cursor.
So a follower that is slow keeps nothing here but its place in a table, and a signal that comes twice, or for
nothing, costs it one look.

The thread runs while there are followers. It looks soon again after news, later while it is quiet, and at once after a
write of this process. What the store raises reaches every follower, and ends the thread; closing the store ends the
followers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol, Self

from stator.model.log.query import GONE
from stator.store.port import StorePort

FIRST_S, LAST_S = 0.02, 0.5
"""How long to wait after news, and at most when there has been none for a while."""
SLOWER = 1.6


def longer(waited: float) -> float:
    """How long to wait after a look that found nothing."""
    return min(LAST_S, max(FIRST_S, waited * SLOWER))


class LookPause(Protocol):
    """Waits until an event is set, or that many seconds."""

    def __call__(self, woken: threading.Event, seconds: float) -> object: ...


def _pause(woken: threading.Event, seconds: float) -> object:
    return woken.wait(seconds)


class Watch:
    """What one follower waits on. `close` it when it is no longer needed."""

    def __init__(self, watcher: Watcher, *, everything: bool) -> None:
        self._watcher = watcher
        self._everything = everything
        self._woken = threading.Event()
        self._news: set[str] = set()
        self._error: BaseException | None = None
        self._call: Callable[[], object] | None = None
        self.sessions: set[str] = set()
        self.ended = False
        """Whether the store was closed: nothing comes any more."""

    @property
    def everything(self) -> bool:
        """Whether every session of the store counts, those that are not there yet too."""
        return self._everything

    def follow(self, session: str, seq: int) -> None:
        """Add a session: its head was at that seq when it was last looked at."""
        self._watcher.follow(self, session, seq)

    def leave(self, session: str) -> None:
        self._watcher.leave(self, session)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for news, at most that long. Whether there may be some. Raises what the store raised."""
        woken = self._woken.wait(seconds)
        self._woken.clear()
        if self._error is not None:
            raise self._error
        return woken

    def take(self) -> set[str]:
        """The sessions that moved since this was last asked."""
        with self._watcher.lock:
            found, self._news = self._news, set()
        return found

    def on_news(self, call: Callable[[], object] | None) -> None:
        """Call this, in the thread of the watcher, whenever `wait` would return."""
        self._call = call
        if call is not None and self._woken.is_set():
            call()

    def close(self) -> None:
        self._watcher.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def signal(self, sessions: Iterable[str] = (), error: BaseException | None = None) -> None:
        """Wake the follower. For the watcher, which holds its lock."""
        self._news.update(sessions)
        if error is not None and self._error is None:
            self._error = error
        self._woken.set()
        if self._call is not None:
            self._call()


class Watcher:
    """The watches on one store of this process, and the thread that looks for them."""

    def __init__(self, store: StorePort, pause: LookPause = _pause) -> None:
        # Not kept alive by who watches it: a store that nobody holds any more is closed.
        self._store = weakref.ref(store)
        self._pause = pause
        self.lock = threading.RLock()
        self._looking = threading.RLock()
        self._wrote = threading.Event()
        self._thread: threading.Thread | None = None
        self._watches: set[Watch] = set()
        self._known: dict[str, int] = {}
        self._followers: dict[str, set[Watch]] = {}
        self._over = threading.Event()
        store.wrote = self._wrote.set

    def watch(self, *, everything: bool = False) -> Watch:
        """A watch on nothing yet, or on everything."""
        with self.lock:
            made = Watch(self, everything=everything)
            if self._over.is_set():
                made.ended = True
                made.signal()
                return made
            self._watches.add(made)
            if everything:
                made.signal()  # what moved before the first look of the watcher is for the follower to find
                self._run()
            return made

    def follow(self, watch: Watch, session: str, seq: int) -> None:
        with self.lock:
            if watch not in self._watches:
                return
            watch.sessions.add(session)
            self._followers.setdefault(session, set()).add(watch)
            # The head as somebody saw it. It is compared at the next look, so one that is old by now is noticed.
            if self._known.setdefault(session, seq) != seq:
                watch.signal((session,))  # others follow it, and it moved since
            self._run()

    def leave(self, watch: Watch, session: str) -> None:
        with self.lock:
            watch.sessions.discard(session)
            left = self._followers.get(session, set())
            left.discard(watch)
            if not left:
                self._followers.pop(session, None)
                if not self._all:
                    self._known.pop(session, None)

    def remove(self, watch: Watch) -> None:
        with self.lock:
            for session in list(watch.sessions):
                self.leave(watch, session)
            self._watches.discard(watch)
            if not self._all:
                self._known = {one: self._known[one] for one in self._followers}
            self._wrote.set()  # the thread ends if this was the last

    def close(self) -> None:
        """The store is closed: every follower is woken and ends."""
        with self.lock:
            self._over.set()
            for watch in list(self._watches):
                watch.ended = True
                watch.signal()
            self._watches.clear()
            self._followers.clear()
            self._known.clear()
            thread = self._thread
            self._wrote.set()
        with self._looking:  # a look that is under way may be reading
            pass
        # One whose start was interrupted is not alive yet; it ends before it looks.
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    @property
    def _all(self) -> bool:
        return any(watch.everything for watch in self._watches)

    @property
    def _is_needed(self) -> bool:
        return bool(self._followers) or self._all

    def is_running(self) -> bool:
        """Whether a thread looks: only while there are followers."""
        return self._thread is not None and self._thread.is_alive()

    # -- looking ----------------------------------------------------------------------------------

    def look(self) -> bool:
        """Ask the store once which sessions moved, and signal who follows them. Whether any did."""
        with self._looking:
            with self.lock:
                known, everything = dict(self._known), self._all
            store = self._store()
            if store is None or self._over.is_set():
                return False
            moved = store.heads(known, others=everything)
        with self.lock:
            for session, seq in moved.items():
                # GONE stays known of a session that is followed: it may come back, and that is news.
                if seq == GONE and session not in self._followers:
                    self._known.pop(session, None)
                elif session in self._followers or self._all:
                    self._known[session] = seq
                for watch in self._followers.get(session, ()):
                    watch.signal((session,))
            for watch in self._watches if moved else ():
                if watch.everything:
                    watch.signal(moved)
        return bool(moved)

    def _run(self) -> None:
        """Begin to look, if nobody does. With the lock held."""
        if (
            self._thread is None or not self._thread.is_alive()
        ):  # not alive in a forked child either
            begun = threading.Thread(target=self._look_on, name="stator watch", daemon=True)
            self._thread = begun
            try:
                begun.start()
            except BaseException:  # Ctrl-C, or no more threads: if it runs all the same, it sees that it is not the one
                self._thread = None
                raise

    def _look_on(self) -> None:
        waited = 0.0
        while True:
            with self.lock:
                if self._thread is not threading.current_thread():
                    return
                if not self._is_needed or self._store() is None:
                    self._thread = None
                    return
            self._wrote.clear()
            try:
                waited = FIRST_S if self.look() else longer(waited)
            except BaseException as error:
                self._fail(error)
                return
            self._pause(self._over, FIRST_S)  # writes that come fast cost one look together
            if waited > FIRST_S:
                self._pause(self._wrote, waited - FIRST_S)

    def _fail(self, error: BaseException) -> None:
        with self.lock:
            self._thread = None
            for watch in list(self._watches):
                watch.signal(error=error)
            self._watches.clear()
            self._followers.clear()
            self._known.clear()


_watchers: weakref.WeakKeyDictionary[StorePort, Watcher] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def watcher_of(store: StorePort) -> Watcher:
    """The watcher of an open store; there is one."""
    with _guard:
        found = _watchers.get(store)
        if found is None:
            found = _watchers[store] = Watcher(store)
        return found


def close_watcher(store: StorePort) -> None:
    """End what follows a store that is about to be closed."""
    with _guard:
        found = _watchers.pop(store, None)
    if found is not None:
        found.close()
