"""`stator.aio`: the same record, made on an event loop; a cancelled caller leaves a known outcome."""

from __future__ import annotations

import asyncio
import threading

import pytest

import stator
from stator.errors import BadType, CallFailed


def run(tmp_path, monkeypatch, main):
    monkeypatch.chdir(tmp_path)

    async def whole():
        async with stator.aio.connect(tmp_path / "agent.db", project="shop") as store:
            return await main(store)

    return asyncio.run(whole())


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """Runs a coroutine function with a store."""
    return lambda main: run(tmp_path, monkeypatch, main)


async def double(n):
    await asyncio.sleep(0)
    return n * 2


async def boom():
    raise ValueError("no")


def test_the_async_api_records_the_same_log_as_the_synchronous_one(loop, tmp_path):
    async def main(store):
        async with store.open("a", agent="x") as s, s.turn("one") as t:
            await t.call(double, n=1)
            await t.decide("x", topic="y", why="z")
            await t.file("a.py", "modified")
            await t.say("done")
        return [commit.kind async for commit in s.log()]

    def double_plainly(n):
        return n * 2

    kinds = loop(main)
    with (
        stator.connect(tmp_path / "sync.db") as store,
        store.open("a", agent="x") as s,
        s.turn("one") as t,
    ):
        t.call(double_plainly, n=1)
        t.decide("x", topic="y", why="z")
        t.file("a.py", "modified")
        t.say("done")
    with stator.connect(tmp_path / "sync.db", read_only=True) as store:
        assert [commit.kind for commit in store.read("a").log()] == kinds


def test_tools_can_be_coroutines_or_plain_functions(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            return await t.call(double, n=2), await t.call(
                threading.current_thread().__class__.__name__.upper
            )

    assert loop(main) == (4, "_MAINTHREAD")


def test_a_plain_tool_does_not_run_on_the_loops_thread(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            return await t.call(lambda: threading.current_thread() is threading.main_thread())

    assert loop(main) is False


def test_turns_and_sessions_can_be_awaited_instead_of_entered(loop):
    async def main(store):
        s = await store.open("a")
        t = await s.turn("one")
        await t.fact("n", 1)
        await t.end()
        await s.pause()
        return await s.facts(), await s.status()

    assert loop(main) == ({"n": 1}, "paused")


def test_a_failed_call_raises_in_call_and_is_returned_by_try_call(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            outcome = await t.try_call(boom)
            with pytest.raises(CallFailed):
                await t.call(boom)
            return outcome.status, [row.status for row in await s.calls()]

    assert loop(main) == ("error", ["error", "error"])


def test_a_cancelled_write_is_recorded_as_in_doubt(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            begun = asyncio.Event()

            async def pay():
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(t.call(pay))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (call,) = await s.calls()
            return call.status, call.cause

    assert loop(main) == ("in doubt", "interrupted by CancelledError")


def test_a_cancelled_read_is_recorded_as_cancelled(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            begun = asyncio.Event()

            @stator.tool(effect="read")
            async def look():
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(t.call(look))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (call,) = await s.calls()
            return call.status

    assert loop(main) == "cancelled"


def test_a_cancelled_append_is_recorded_and_noted_on_the_exception(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            task = asyncio.create_task(t.fact("n", 1))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            return caught.value.__notes__, await s.facts()

    notes, facts = loop(main)
    assert notes == ["the operation had begun and succeeded"]
    assert facts == {"n": 1}


def test_an_exception_interrupts_the_turn_and_pauses_the_session(loop):
    async def main(store):
        with pytest.raises(RuntimeError):
            async with store.open("a") as s, s.turn("one"):
                raise RuntimeError("no")
        (row,) = await s.turns()
        return row.status, await s.status()

    assert loop(main) == ("interrupted", "paused")


def test_a_batch_is_all_or_nothing(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:

            async def one_is_bad():
                async with t.batch():
                    await t.fact("a", 1)
                    await t.fact("b", object())

            with pytest.raises(BadType):
                await one_is_bad()
            async with t.batch():
                await t.fact("c", 1)
                await t.fact("d", 2)
            return await s.facts()

    assert loop(main) == {"c": 1, "d": 2}


def test_concurrent_sessions_lose_no_record(loop):
    async def main(store):
        async def work(n):
            async with store.open(f"s{n}") as s, s.turn("one") as t:
                for value in range(5):
                    await t.fact(f"f{value}", value)
            return len(await s.facts())

        return await asyncio.gather(*(work(n) for n in range(12)))

    assert loop(main) == [5] * 12


def test_sessions_can_be_read_contributed_to_and_forked(loop):
    async def main(store):
        async with store.open("a") as s, s.turn("one") as t:
            await t.fact("n", 1)
        view = await store.read("a")
        helper = await store.contribute("a")
        await helper.decide("x", topic="y")
        fork = await store.fork("a", "t1", as_name="b")
        page = await store.sessions()
        return (
            await view.facts(),
            [line.record.what for line in await view.decisions()],
            await fork.facts(),
            sorted(row.record.name for row in page.rows),
        )

    assert loop(main) == ({"n": 1}, ["x"], {"n": 1}, ["a", "b"])
