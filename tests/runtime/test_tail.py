"""A tail delivers every commit once and in order, from any cursor, while readers and writers restart."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stator
from runtime.conftest import memory_store
from stator.errors import BadPosition, BrokenChain, NotFound
from stator.runtime.base.watch import FIRST_S, LAST_S
from stator.runtime.facade.view import SessionView
from stator.runtime.tails import tail as tails


def turn(s, n=0):
    with s.turn(f"turn {n}") as t:
        t.fact("n", n)


def seqs(commits):
    return [commit.seq for commit in commits]


class Napping:
    """A sleep that runs the next event each time, and ends the tail after the last one."""

    def __init__(self, *happenings):
        self.happenings = list(happenings)
        self.waits = []

    def __call__(self, seconds):
        self.waits.append(seconds)
        if self.happenings:
            self.happenings.pop(0)()

    @property
    def over(self):
        return not self.happenings


def test_a_tail_that_does_not_follow_is_the_log_after_the_cursor(store):
    with store.open("a") as s:
        turn(s)
    view = store.read("a")
    assert seqs(view.tail(0, follow=False)) == seqs(view.log())
    assert seqs(view.tail(3, follow=False)) == [n for n in seqs(view.log()) if n > 3]


def test_a_tail_without_a_cursor_delivers_only_new_commits(store):
    with store.open("a") as s:
        turn(s)
        head = s.head.seq
        nap = Napping(lambda: turn(s, 1), lambda: None)
        view = SessionView(store.port, s.id, sleep=nap)
        assert seqs(view.tail(until=lambda: nap.over)) == list(range(head + 1, s.head.seq + 1))


def test_commits_appended_while_waiting_are_delivered_in_order(store):
    with store.open("a") as s:
        nap = Napping(*(lambda n=n: turn(s, n) for n in range(5)))
        view = SessionView(store.port, s.id, sleep=nap)
        assert seqs(view.tail(0, until=lambda: nap.over)) == seqs(s.log())


def test_a_tail_can_start_before_the_first_turn(store):
    with store.open("a") as s:
        pass
    nap = Napping(lambda: drive_again(store))
    view = SessionView(store.port, s.id, sleep=nap)
    kinds = [commit.kind for commit in view.tail(s.head.seq, until=lambda: nap.over)]
    assert kinds == ["resume", "turn", "fact", "turn_end", "run_end", "pause"]


def drive_again(store):
    with store.open("a") as s:
        turn(s)


def test_a_tail_continues_when_the_writer_restarts(tmp_path):
    path = tmp_path / "agent.db"
    with stator.connect(path) as store, store.open("a") as s:
        turn(s)

    def restarted():
        with stator.connect(path) as other:
            drive_again(other)

    with stator.connect(path, read_only=True) as reader:
        nap = Napping(restarted, restarted, lambda: None)
        view = SessionView(reader.port, s.id, sleep=nap)
        assert seqs(view.tail(0, until=lambda: nap.over)) == seqs(view.log())


def test_the_tail_of_a_fork_includes_the_log_of_its_parent(store):
    with store.open("a") as s:
        turn(s)
    fork = store.fork("a", "t1", as_name="b")
    with store.open("b") as b:
        turn(b, 1)
    assert seqs(fork.tail(2, follow=False)) == list(range(3, fork.head.seq + 1))


def test_a_closed_session_ends_a_tail_only_on_request(store):
    with store.open("a") as s:
        turn(s)
        s.close()
    nap = Napping(lambda: None, lambda: None)
    view = SessionView(store.port, s.id, sleep=nap)
    assert seqs(view.tail(0, until=lambda: nap.over)) == seqs(s.log())
    assert len(nap.waits) == 2
    asked = SessionView(store.port, s.id, sleep=nap)
    assert seqs(asked.tail(0, until=lambda: asked.status == "closed")) == seqs(s.log())


@given(st.data())
def test_two_readers_that_hand_over_a_cursor_see_every_commit_once(data):
    store = memory_store()
    with store.open("a") as s:
        for n in range(3):
            turn(s, n)
        view = store.read("a")
        whole = seqs(view.log())
        cut = data.draw(st.integers(0, len(whole)))
        first = seqs(itertools.islice(view.tail(0, follow=False), cut))
        turn(s, 9)
        cursor = first[-1] if first else 0
        assert first + seqs(view.tail(cursor, follow=False)) == seqs(view.log())


def test_a_long_log_is_read_page_by_page_without_waiting(store, monkeypatch):
    monkeypatch.setattr(tails, "PAGE", 4)
    with store.open("a") as s:
        for n in range(5):
            turn(s, n)
        nap = Napping(lambda: None)
        view = SessionView(store.port, s.id, sleep=nap)
        assert seqs(view.tail(0, until=lambda: nap.over)) == seqs(s.log())
        assert len(nap.waits) == 1


def test_waits_grow_while_idle_and_reset_after_a_commit(store):
    with store.open("a") as s:
        quiet = [lambda: None] * 12
        nap = Napping(*quiet, lambda: turn(s), lambda: None)
        view = SessionView(store.port, s.id, sleep=nap)
        list(view.tail(0, until=lambda: nap.over))
        assert nap.waits[1] < nap.waits[2] < nap.waits[11] == LAST_S
        assert nap.waits[13] == FIRST_S


def test_a_cursor_beyond_the_log_is_refused(store):
    with store.open("a") as s, pytest.raises(NotFound, match="no commit @99"):
        next(s.tail(99))


@pytest.mark.parametrize("cursor", [-1, "5", 1.5, True])
def test_an_invalid_cursor_is_refused(store, cursor):
    with store.open("a") as s, pytest.raises(BadPosition):
        s.tail(cursor)


def test_a_gap_in_the_log_is_an_error(store):
    class Holed:
        """A store that has lost a commit."""

        def head(self, session):
            return store.port.head(session)

        def commits(self, session, *, after, **options):
            return store.port.commits(session, after=after, **options)[1:]

    with store.open("a") as s, pytest.raises(BrokenChain, match="after commit @0"):
        next(SessionView(Holed(), s.id).tail(0))  # type: ignore[arg-type]


def test_the_asynchronous_tail_delivers_the_same_without_blocking_the_loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def read(view, done):
        return [commit.seq async for commit in view.tail(0, until=done.is_set)]

    async def main():
        done = asyncio.Event()
        async with stator.aio.connect(tmp_path / "agent.db") as store, store.open("a") as s:
            reading = asyncio.create_task(read(await store.read("a"), done))
            for n in range(5):
                async with s.turn(f"turn {n}") as t:
                    await t.fact("n", n)
            done.set()
            assert await reading == [commit.seq async for commit in s.log()]

    asyncio.run(main())


def test_an_asynchronous_tail_can_be_cancelled_while_it_waits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def main():
        async with stator.aio.connect(tmp_path / "agent.db") as store, store.open("a") as s:
            tail = s.tail()
            waiting = asyncio.ensure_future(anext(tail))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())
