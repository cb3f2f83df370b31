"""Sections that drive sessions: how calls end, what a dead process leaves, and what others do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import stator
from compat.make import write
from compat.place import Place, Section, killed
from stator.errors import (
    ApprovalNeeded,
    BadType,
    BudgetSpent,
    CallError,
    InDoubt,
    NotDone,
    Paused,
)
from stator.model.calls.life import Result
from stator.model.window.reply import Reply
from stator.runtime.driving import approvals, compact
from stator.runtime.facade.aio import AsyncStore
from stator.runtime.facade.store import Store
from stator.runtime.ingest import self_report
from stator.runtime.replay import workflow
from stator.runtime.window import compaction

BOSS = "local:boss"


def raising(error: BaseException) -> Callable[..., Any]:
    def function(**given: Any) -> Any:
        raise error

    return function


def tool(effect: str = "write", name: str = "pay", **options: Any) -> Callable[..., Any]:
    """`stator.tool`, by the effect and the name."""
    return stator.tool(effect=effect, name=name, **options)


# -- how calls end --------------------------------------------------------------------------------


def calls(place: Place) -> None:
    """Every way in which a call ends, for each effect."""
    errors: list[BaseException] = [
        ValueError("no such account"),
        NotDone("the bank refused"),
        InDoubt("the line went dead"),
        TimeoutError("too slow"),
        ConnectionResetError("gone"),
        KeyboardInterrupt(),
        SystemExit(3),
    ]
    with place.open() as store:
        for effect in ("read", "idempotent", "write"):
            with store.open(effect) as session, session.turn("pay") as t:
                for n, error in enumerate(errors):
                    with contextlib.suppress(KeyboardInterrupt, SystemExit):
                        t.try_call(tool(effect, attempts=2)(raising(error)), n=n)
                t.call(tool(effect)(lambda **given: "paid"), amount=5)
        with store.open("results") as session, session.turn("pay") as t:
            t.try_call(tool()(lambda: Result(error="no funds", value=5)))
            t.try_call(tool()(lambda: Reply({"isError": True, "content": []})))
            t.try_call(tool(detect=lambda found: "too little" if found < 5 else None)(lambda: 4))
            with contextlib.suppress(BadType):
                t.try_call(tool()(object))
            t.try_call(tool("read", name="outer")(lambda: t.call(tool("read")(lambda: 1))))
            t.call(tool()(lambda idempotency_key="": idempotency_key))
        with contextlib.suppress(Paused), store.open("exhausted") as s, s.turn("try") as t:
            gone = raising(ConnectionResetError("gone"))
            t.call(tool("read", attempts=3, on_exhausted="pause")(gone))
        late(store)
        turns(store)


def late(store: Store) -> None:
    """A result that arrives after the time limit."""
    answer = threading.Event()
    slow = tool(timeout_s=0.01)(lambda: answer.wait() and "paid")
    with store.open("late") as session:
        with session.turn("pay") as t:
            t.try_call(slow)
            t.try_call(tool("read", "look", timeout_s=0.01)(lambda: answer.wait(0.5)))
        before = session.head.seq
        answer.set()
        while session.head.seq == before:
            threading.Event().wait(0.001)


def turns(store: Store) -> None:
    """Every way in which a turn and a run end."""
    with store.open("turns") as session:
        with session.turn("one") as t:
            t.abort("not worth it")
        with session.turn({"text": "two"}, key="second") as t, t.batch():
            t.fact("a", 1)
            t.note("b", 2)
        with session.turn() as t:
            t.pend("deploy")
            t.pend("deploy", done=True)
            t.plan("test", "dropped", detail="all", evidence="log", why="no time")
            t.file("a.py", "skipped", how="inferred", reason="size")
            t.use("file", "a.py", detail="main")
            t.use("data", "orders")
            t.say("so it is", actor="user", why="asked")
            t.end()
        session.fact("outside a turn", True)
    for name, error in (
        ("error", ValueError("broken")),
        ("interrupt", KeyboardInterrupt()),
        ("exit", SystemExit(1)),
    ):
        with contextlib.suppress(ValueError, KeyboardInterrupt, SystemExit), store.open(name) as s:
            with s.turn("one") as t:
                t.fact("a", 1)
            if name == "exit":
                raise error
            with s.turn("two"):
                raise error
    with store.open("paused") as s, s.turn("one"):
        s.pause()
    with store.open("closed") as s, s.turn("one") as t:
        t.fact("a", 1)
        s.close("done")


# -- dead processes -------------------------------------------------------------------------------


def pay(store: Store, name: str, write: Callable[..., Any], read: Callable[..., Any]) -> None:
    """A program that is rerun after it died: a read, then a write, then an answer."""
    with store.open(name) as session:
        with session.turn("look first") as t:
            t.fact("balance", 9)
        with session.turn("pay ACME") as t:
            t.call(tool("read", "look")(read), path="a.py")
            reconcile: dict[str, Any] = {"reconcile": lambda intent: ("done", "found it")}
            reconcile = reconcile if "ask" in name else {}
            outcome = t.try_call(tool(**reconcile)(write), amount=5)
            if outcome.ok:
                t.say("paid")


def died(place: Place) -> None:
    """A process that is killed in a call, and the commits that the next process and others append about it."""
    fine: Callable[..., Any] = lambda **given: "fine"  # noqa: E731
    for name in ("again", "ask again", "settled", "not done", "closed", "paused", "compacted"):
        place.die(f"dead {name}", partial(pay, name=name, write=killed, read=fine))
    place.die("dead read", lambda store: pay(store, "read", fine, killed))
    place.die("dead model", lambda store: ask(store, "model", killed))
    place.die("dead between", lambda store: between(store))
    with place.open() as store:
        for name in ("again", "ask again", "read"):
            pay(store, name, fine, fine)
        ask(store, "model", lambda **asked: {"content": "fine"})
        for name, verdict in (("settled", "done"), ("not done", "not done")):
            boss = store.contribute(name, principal=BOSS)
            (call,) = [row.call for row in store.read(name).calls() if row.tool == "pay"]
            boss.settle(call, verdict, why="the bank says so")  # type: ignore[arg-type]
        store.contribute("closed", principal=BOSS).close()
        store.contribute("paused", principal=BOSS).pause()
        compact.compact_from_outside(
            store.port, store.context, store.read("compacted").id,
            compaction.CompactionOptions(keep=1, summary="short"),
        )  # fmt: skip
        with store.open("between"):
            pass
        again = store.open("settled")
        with again, again.turn("settle by running again") as t:
            t.try_call(tool()(raising(InDoubt("?"))))
            again.in_doubt[0].settle("run again", why="harmless")
    displaced(place)
    doubted(place)


def doubted(place: Place) -> None:
    """A call requested again with other arguments while an earlier one is in doubt."""

    def work(store: Store, name: str, verdict: Any, amount: int, function: Any = killed) -> None:
        reconcile: dict[str, Any] = {"reconcile": lambda intent: verdict} if verdict else {}
        with store.open(name) as session, session.turn("pay") as t:
            t.try_call(tool(**reconcile)(function), amount=amount)

    verdicts = {"done": ("done", 5), "done plain": "done", "not": "not_done", "unknown": "unknown"}
    for name, verdict in {**verdicts, "nobody": None}.items():
        for amounts in ((5, 5), (5, 6)):
            named = f"{name} {amounts[1]}"
            work_here = partial(work, name=named, verdict=verdict)
            place.die(f"doubt {named}", partial(work_here, amount=5))
            for seed in ("second", "third"):
                with place.open(f"{seed} {named}") as store:
                    work_here(store, amount=amounts[1], function=lambda amount: "paid")


def ask(store: Store, name: str, model: Callable[..., Any]) -> None:
    with store.open(name) as session, session.turn("say something") as t:
        t.model(model, messages=t.messages("plain"))


def between(store: Store) -> None:
    session = store.open("between")
    with session.turn("one") as t:
        t.fact("a", 1)
    killed()


def displaced(place: Place) -> None:
    """A driver that loses its session to another one."""
    with place.open("slow") as slow, place.open("quick") as quick:
        first = slow.open("taken")
        turn = first.turn("slow")

        def take() -> None:
            with quick.open("taken", busy="take") as second, second.turn("quick") as t:
                t.fact("taken", True)

        with contextlib.suppress(stator.StatorError), first, turn as t:
            t.call(tool()(take))


# -- people ---------------------------------------------------------------------------------------


def approved(place: Place) -> None:
    """Calls that wait, are approved and denied in every scope, and grants that are revoked."""
    rules = [
        stator.Rule(tool="pay", action="ask", why="money"),
        stator.Rule(tool="drop", action="deny", why="never"),
        stator.Rule(tool="shred", action="deny"),
    ]
    with place.open() as store:
        boss: dict[str, Any] = {"by": BOSS}

        def attempt(name: str, amount: int, **options: Any) -> str:
            """Pay; returns the id of the call if it waits."""
            try:
                with store.open(name, rules=rules) as session, session.turn("pay") as t:
                    t.try_call(tool(name="drop")(lambda: 1))
                    t.try_call(tool(name="shred")(lambda: 1))
                    t.try_call(tool(**options)(lambda amount: amount), amount=amount)
            except ApprovalNeeded as needed:
                return str(needed.ids["call"])
            return ""

        def answered(name: str, say: Callable[..., Any], **how: Any) -> Any:
            given = say(store.port, store.context, attempt(name, 5), **boss, **how)
            attempt(name, 5)
            return given

        answered("once", approvals.approve, why="fine")
        answered("denied", approvals.deny, why="too dear")
        answered("denied silently", approvals.deny)
        session = answered("session", approvals.approve, scope="session")
        answered("pattern", approvals.approve, scope="session", pattern="pay(amount<9)")
        answered("project", approvals.approve, scope="project", expires=1_890_000_000_000_000)
        approvals.revoke(store.port, store.context, session.id, **boss)
        approvals.grant(
            store.port, store.context, store.read("once").id, "pay(amount>=9)",
            **boss, verdict="denied", why="never so much",
        )  # fmt: skip
        attempt("once", 10)
        for amount in (7, 8):  # the second has another prompt
            attempt("changed", amount, key="the payment")
        asking = store.open("asked by the tool")
        with contextlib.suppress(ApprovalNeeded), asking, asking.turn("x") as t:
            t.call(tool(approve=True)(lambda: 1))


def vouched(place: Place) -> None:
    """Where results come from, and a person's word about that; written since 0.8.0."""
    with place.open() as store:
        with store.open("pages") as s, s.turn("read") as t:
            page = t.try_call(tool("read", "fetch")(lambda: "page").using(source="web"))
            t.fact("claimed", 1, from_=page)
        boss = store.contribute("pages", principal=BOSS)
        boss.vouch(page.call, why="read it")
        boss.vouch("tool:fetch", why="it follows redirects", withdraw=True)


def steered(place: Place) -> None:
    """What others do to a session: limits, a pause request, every contribution, its lifecycle."""
    with place.open() as store:
        with contextlib.suppress(BudgetSpent), store.open("spent", budget={"turns": 1}) as s:
            for n in range(2):
                with s.turn(f"turn {n}") as t:
                    t.say("x", usage={"tokens": 5, "money:usd": 3})
        boss = store.contribute("spent", principal=BOSS)
        boss.budget("turns=5", "+2usd", "tokens=9")
        with contextlib.suppress(BudgetSpent), store.open("spent") as s, s.turn("more") as t:
            t.say("y", usage={"tokens": 50})
            t.call(tool()(lambda: 1))
        asked = store.open("asked")
        with contextlib.suppress(Paused), asked, asked.turn("work") as t:
            t.call(tool("read", "look")(lambda: pausing(store)))
            t.call(tool()(lambda: 1))
        for name, gated in (("stopped", False), ("stopped when granted", True)):
            session = store.open(name)
            with contextlib.suppress(Paused), session, session.turn("work") as t:
                boss = store.contribute(name, principal=BOSS)
                if gated:
                    approvals.grant(store.port, store.context, session.id, "pay()", by=BOSS)
                boss.pause()
                t.call(tool(approve=gated)(lambda: 1))
        contribute(store)
        for move in ("close", "archive"):
            getattr(store.contribute("asked", principal=BOSS), move)()
        moved = store.contribute("spent", principal=BOSS)
        moved.close("budget")
        moved.resume("user")


def pausing(store: Store) -> str:
    return store.contribute("asked", principal=BOSS).pause().status


def contribute(store: Store) -> None:
    given = store.contribute("asked", principal=BOSS)
    given.decide("stop", topic="work", why="late", over=["go on"], confidence=0.5, factors={"a": 1})
    given.decide("rest")
    (rest,) = [entry for entry in store.read("asked").entries("decisions") if entry.key[0] == "#"]
    given.decide("sleep", supersedes=rest.id)
    given.fact("hours", 8, verified=True, why="counted")
    given.prefer("tone", "kind", why="always")
    given.file("b.py", "deleted", why="unused")
    given.plan(["a", "b"], "blocked", why="waits")
    given.artifact("notes", {"a": 1}, media_type="application/json", why="kept")
    given.dead_end("retry", why="slow")
    given.tag("checked", "t1")
    given.score("quality", 0.25, on="t1", comment="poor")
    given.flag("review", on="t1", why="odd")
    given.erase("@3", fields=["input"])


# -- the loop -------------------------------------------------------------------------------------


def chunks() -> Iterator[dict[str, Any]]:
    message = {"id": "m1", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for text in ("Hel", "lo"):
        delta = {"type": "text_delta", "text": text}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    usage = {"output_tokens": 2}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    yield {"type": "message_stop"}


def breaking() -> Iterator[dict[str, Any]]:
    for number, chunk in enumerate(chunks()):
        if number == 3:
            raise ConnectionResetError("gone")
        yield chunk


def looped(place: Place) -> None:
    """What a loop records: complete and partial streams, a failing model, changing tools, children."""
    tools = [{"name": "look"}, {"type": "function", "function": {"name": "pay"}}]
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "[1]"}}
    other = {"id": "c2", "type": "function", "function": {"name": "gone", "arguments": "{}"}}
    chat = {"choices": [{"message": {"role": "assistant", "tool_calls": [call, other]}}]}
    with place.open() as store:
        with store.open("loop", prices={"m": {"tokens:in": 3}}) as s:
            with s.turn("stream") as t:
                for _ in t.stream(lambda **asked: chunks(), model="m", tools=tools, max_tokens=5):
                    pass
                for _ in t.stream(chunks()):
                    pass
                with contextlib.suppress(ConnectionResetError, CallError):
                    for _ in t.stream(lambda **asked: breaking(), messages=[]):
                        pass
                for _ in t.stream(lambda **asked: chunks()):
                    break
            with s.turn("fail") as t:
                with contextlib.suppress(CallError):
                    t.model(raising(ValueError("no key")), model="m", tools=tools[:1])
                reply = t.reply(chat, model="m")
                t.results(reply, {"pay": lambda amount: 1})
            with s.turn("children") as t:
                for name, error in (("fine", None), ("broken", ValueError("x"))):
                    with contextlib.suppress(ValueError), s.child(name, budget={"turns": 3}) as c:
                        with c.turn("dig") as below:
                            below.say("found")
                        if error:
                            raise error
                with s.child("closed") as c:
                    c.close()
            wrapped = s.wrap(lambda name, given: name, effects={"look": "read"})
            with s.turn("wrapped") as t:
                wrapped("look", {"path": "a.py"})
            s.fork("t1", name="forked")
        with store.open("busy") as s, s.turn("one"), store.open("busy", busy="fork") as beside:
            beside.flag("forked")


def branched(place: Place) -> None:
    """Rewinds, retries, reruns and adoptions, by the driver and by others."""
    with place.open() as store:
        with store.open("main") as s:
            s.track()
            for n in range(4):
                with s.turn(f"turn {n}") as t:
                    t.call(tool(files="path", name="write")(write), path="a.py", text=f"{n}\n")
                    t.call(tool("read", "look")(lambda n: n), n=n)
                    t.decide(f"way {n}", topic="way")
            s.rewind("t2")
            with s.retry("t2", effects="run", prompt="otherwise", name="tried") as t:
                t.decide("other", topic="way")
            with contextlib.suppress(ApprovalNeeded), s.retry("t2") as t:
                t.call(tool()(lambda: 1))
            hands: dict[str, Any] = {"write": write, "look": lambda n: n + 1}
            s.rerun(hands, "t1..t2", effects="run", name="rerun")
            s.rerun(hands, "t1")
        boss = store.contribute("main", principal=BOSS)
        boss.rewind("t1")
        boss.adopt("t2.2")
        boss.adopt("t2.1")
        compacted(store)


def compacted(store: Store) -> None:
    """Each level of compaction, undone and repeated, by the driver and by others."""
    with store.open("long") as s:
        for n in range(6):
            with s.turn(f"turn {n}") as t:
                t.call(tool("read", "look")(lambda n: "x" * 3000), n=n)
                t.note(f"note {n}", "y" * 500)
                t.say(f"answer {n}")
        s.compact(keep=5, strategy=["outputs"])
        s.compact(keep=4, strategy=["mask"])
        s.compact(keep=3, max_tokens=100, summary=lambda messages: f"{len(messages)} messages")
        s.compact(keep=2, scratch=True, summary="two are left")
        s.undo_compaction()
        s.undo_compaction()
    where = store.read("long").id
    options = compaction.CompactionOptions(keep=1, summary="outside")
    compact.compact_from_outside(store.port, store.context, where, options)
    compact.undo_from_outside(store.port, store.context, where)


def reported(place: Place) -> None:
    """What an agent reports of itself over MCP, and workflows."""
    with place.open() as store:
        port, context = store.port, store.context
        row, _ = self_report.begin(port, context, agent="a", purpose="Fix the login bug")
        for key in ("once", "once", ""):
            reporter = self_report.Reporter(port, context, row.id, source="mcp", key=key)
            reporter.decide("JWT", topic="auth")
            reporter.fact("a", 1)
            reporter.send()
        child = self_report.begin_child(port, context, row, agent="b", name="", purpose="dig deep")
        self_report.close(port, context, child.id)
        self_report.close(port, context, row.id)
        with store.open("source") as s, s.turn("pay 5") as t:
            t.call(tool("read", "look")(lambda path: "5"), path="a.py")
            t.call(tool()(lambda amount: amount), amount="5")
        made = workflow.extract(store.read("source"), name="payment")
        hands: dict[str, Any] = {
            "look": stator.tool(effect="read")(lambda path: "5"),
            "pay": lambda amount: 1,
        }
        workflow.run(port, context, made, hands, effects="run", session="ran")
        workflow.run(port, context, made, hands)
        broken = {**hands, "pay": raising(ValueError("no"))}
        workflow.run(port, context, made, broken, effects="run", session="broken")


# -- awaited --------------------------------------------------------------------------------------


def awaited(place: Place) -> None:
    """The same through `stator.aio`: calls, a loop, a child, and tasks that are cancelled."""
    asyncio.run(_awaited(place.open()))


async def _awaited(store: Store) -> None:
    async with AsyncStore(store) as opened:
        async with opened.open("main", rules=[stator.Rule(tool="ask", action="ask")]) as s:
            async with s.turn("work") as t:
                await t.call(tool("read", "look")(_later), value="text")
                for error in (ValueError("no"), InDoubt("?"), TimeoutError("slow")):
                    await t.try_call(tool(attempts=2)(raising(error)))
                await t.try_call(tool(name="slow", timeout_s=0.01)(_never))
                await t.decide("JWT", topic="auth", why="known")
                await t.plan(["a", "b"])
                reply = await t.model(_answered, messages=[])
                await t.results(reply, {"look": lambda path: path}, effects={"look": "read"})
                async for _ in t.stream(lambda **asked: chunks()):
                    pass
                async with s.child("below") as child, child.turn("dig") as below:
                    await below.say("found")
            with contextlib.suppress(ApprovalNeeded):
                async with s.turn("ask") as t:
                    await t.call(tool(name="ask")(_later), value=1)
            await s.compact(keep=1, summary="short")
            await s.rewind("t1")
            await s.tag("end")
        for effect in ("read", "write"):
            task = asyncio.create_task(_cancelled(opened, effect))
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def _never() -> None:
    await asyncio.Event().wait()


async def _answered(**asked: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a.py"}}
    return {"content": [use], "stop_reason": "tool_use", "usage": {"input_tokens": 3}}


async def _cancelled(store: AsyncStore, effect: str) -> None:
    """A task that is cancelled while its tool runs."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    async with store.open(f"cancelled {effect}") as s, s.turn("work") as t:
        await t.call(tool(effect)(work))


SECTIONS: dict[str, Section] = {
    "approved": approved,
    "awaited": awaited,
    "branched": branched,
    "calls": calls,
    "died": died,
    "looped": looped,
    "reported": reported,
    "steered": steered,
    "vouched": vouched,
}
