"""One watcher looks for everyone who follows a store, and signals only that there may be something new."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import stator
from runtime.conftest import memory_store
from stator.errors import NotFound, StoreBusy
from stator.runtime.base import watch as watching
from stator.runtime.base.watch import Watcher, watcher_of
from stator.runtime.tails.tail import Tailing
from waiting import eventually


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, port):
        self._port = port
        self.asked = []

    def __getattr__(self, name):
        self.asked.append(name)
        return getattr(self._port, name)


class Held(Watcher):
    """A watcher without a thread: a test looks itself."""

    def _run(self):
        pass


def sessions(store, number):
    found = []
    for n in range(number):
        with store.open(f"session {n}") as s:
            found.append(s.id)
    return found


def test_a_look_for_a_thousand_sessions_asks_the_store_once():
    store = memory_store()
    first, *_ = ids = sessions(store, 3)
    port = Counted(store.port)
    watcher = Held(port)
    watches = [watcher.watch() for _ in range(1000)]
    for n, watch in enumerate(watches):
        watch.follow(
            ids[0] if n % 2 else f"s_{n:032x}", store.port.head(first).seq if n % 2 else -1
        )
    port.asked.clear()
    assert not watcher.look()
    store.contribute("session 0").flag("x")
    port.asked.clear()
    assert watcher.look()
    assert port.asked == ["heads"]
    assert [watch.wait(0) for watch in watches] == [bool(n % 2) for n in range(1000)]


def test_a_follower_learns_which_of_its_sessions_moved():
    store = memory_store()
    a, b, c = sessions(store, 3)
    watcher = Held(store.port)
    watch = watcher.watch()
    for session in (a, b):
        watch.follow(session, store.port.head(session).seq)
    for name in ("session 1", "session 2"):
        store.contribute(name).flag("x")
    watcher.look()
    assert watch.take() == {b}
    assert watch.take() == set()
    assert c not in watch.sessions


def test_who_follows_everything_is_signalled_of_sessions_that_are_new():
    store = memory_store()
    sessions(store, 1)
    watcher = Held(store.port)
    watch = watcher.watch(everything=True)
    assert watch.wait(0), "what moved before is the follower's to find"
    watcher.look()
    watch.wait(0)
    watch.take()
    (_, new) = sessions(store, 2)
    watcher.look()
    assert watch.wait(0)
    assert new in watch.take()


def test_a_session_that_moved_before_it_was_followed_is_signalled():
    store = memory_store()
    (session,) = sessions(store, 1)
    watcher = Held(store.port)
    seen = store.port.head(session).seq
    first = watcher.watch()
    first.follow(session, seen)
    store.contribute("session 0").flag("x")
    watcher.look()
    late = watcher.watch()
    late.follow(session, seen)
    assert late.wait(0)


def test_a_session_that_left_and_came_back_is_news_both_times():
    store, other = memory_store(), memory_store()
    (session,) = sessions(other, 1)
    watcher = Held(store.port)
    watch = watcher.watch()
    watch.follow(session, 1)
    assert watcher.look()
    assert not watcher.look(), "it is known to be gone"
    store.ingest(other.port.commits(session))
    assert watcher.look()


def test_no_thread_runs_unless_somebody_follows(store):
    sessions(store, 1)
    watcher = watcher_of(store.port)
    assert not watcher.is_running()
    tail = store.read("session 0").tail(0)
    next(tail)
    assert not watcher.is_running(), "it has not waited yet"
    with watcher.watch(everything=True):
        assert watcher.is_running()
        thread = watcher._thread
    assert thread is not None
    thread.join(10)
    assert not watcher.is_running()


@pytest.mark.parametrize("began", [False, True], ids=["before it ran", "while it began"])
def test_an_interrupt_while_the_thread_starts_leaves_a_watcher_that_closes_and_works(
    store, monkeypatch, began
):
    start = threading.Thread.start

    def interrupted(thread):
        if began:
            start(thread)
        raise KeyboardInterrupt

    sessions(store, 1)
    watcher = watcher_of(store.port)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watcher.watch(everything=True)
    assert not watcher.is_running()
    with watcher.watch(everything=True):
        assert watcher.is_running(), "the next follower has a thread that looks"
    watcher.close()


def test_a_write_of_this_process_wakes_a_follower_without_waiting_for_the_next_look(
    store, monkeypatch
):
    monkeypatch.setattr(watching, "LAST_S", 600.0)
    monkeypatch.setattr(watching, "SLOWER", 1e9)
    with store.open("a") as s:
        tail = s.tail()
        heard = []
        reading = threading.Thread(target=lambda: heard.append(next(tail)))
        reading.start()
        eventually(watcher_of(store.port).is_running)
        s.flag("look")
        reading.join(60)
        assert [commit.kind for commit in heard] == ["flag"]


def test_looks_are_rarer_while_it_is_quiet_and_soon_after_news():
    store = memory_store()
    sessions(store, 1)
    pauses = []

    def pause(woken, seconds):
        pauses.append(seconds)
        if len(pauses) == 41:
            store.contribute("session 0").flag("x")
        if len(pauses) > 43:
            watch.close()

    watcher = Watcher(store.port, pause)
    watch = watcher.watch(everything=True)
    thread = watcher._thread
    if thread is not None:
        thread.join(60)
    quiet = [seconds for seconds in pauses[:41] if seconds != watching.FIRST_S]
    assert quiet == sorted(quiet)
    assert quiet[-1] == pytest.approx(watching.LAST_S - watching.FIRST_S)
    assert pauses[41:43] == [watching.FIRST_S] * 2, "after news it looks again at once"


def test_an_error_of_the_store_reaches_every_follower(store):
    class Failing:
        def heads(self, known, **options):
            raise StoreBusy("locked for a long time")

    failing = Failing()
    watcher = Watcher(failing)  # type: ignore[arg-type]
    watches = [watcher.watch() for _ in range(3)]
    with watcher.lock:
        for n, watch in enumerate(watches):
            watch.follow(f"s_{n}", 1)
    for watch in watches:
        with pytest.raises(StoreBusy, match="locked"):
            watch.wait(60)


def test_closing_the_store_ends_who_follows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = stator.connect(tmp_path / "agent.db")
    with store.open("a") as s:
        pass
    heard = []
    tails = [store.read("a").tail(), store.tail()]
    readers = [threading.Thread(target=lambda t=t: heard.append(list(t))) for t in tails]
    for reader in readers:
        reader.start()
    eventually(lambda: len(watcher_of(store.port)._watches) == 2)
    store.close()
    for reader in readers:
        reader.join(60)
    assert heard == [[], []]
    assert s.id


def test_a_tail_of_a_session_that_is_removed_ends_with_an_error(store):
    with store.open("a") as s:
        pass
    with store.open("b") as other:
        pass
    tailing = Tailing(store.as_read, s.id, 0)
    tailing.look()
    watcher_of(store.port)
    head = store.port.head(s.id).seq
    assert tailing.watch.sessions == {s.id}
    tailing.woken(True)
    tailing._cursor = head + 5  # as after the log came back shorter than it was read
    with pytest.raises(NotFound, match="its head is"):
        tailing.look()
    tailing.close()
    assert other.id


def test_many_asynchronous_followers_need_no_thread_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def main():
        async with stator.aio.connect(tmp_path / "agent.db") as store, store.open("a") as s:
            tails: list[Any] = [s.tail() for _ in range(100)]
            waiting = [asyncio.ensure_future(anext(tail)) for tail in tails]
            while len(watcher_of(store._sync.port)._watches) < 100:
                await asyncio.sleep(0.001)
            async with s.turn("go") as t:
                await t.fact("n", 1)
            heard = await asyncio.gather(*waiting)
            assert {commit.kind for commit in heard} == {"turn"}
            for tail in tails:
                await tail.aclose()

    asyncio.run(main())


def test_the_asynchronous_stream_of_a_store_ends_when_it_is_closed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def main():
        store = await stator.aio.connect(tmp_path / "agent.db").__aenter__()
        async with store.open("a"):
            pass
        tail = store.tail("")
        heard = []

        async def read():
            async for commit in tail:
                heard.append(commit.kind)

        reading = asyncio.ensure_future(read())
        while not watcher_of(store._sync.port).is_running():
            await asyncio.sleep(0.001)
        await store.close()
        await asyncio.wait_for(reading, 60)
        assert heard[0] == "open"

    asyncio.run(main())
