"""A program and what people do around it, over a store that loses answers; its effects are counted outside.

`Campaign` runs the program in process after process, as a user would who starts it again, until everything is done.
The connection loses answers as a plan says; once a process has ended that lost some, it is sound.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import stator
from stator.connect import mint
from stator.errors import ApprovalNeeded, InDoubt, StatorError, StoreUnreachable
from stator.model.log.query import Lease, SessionQuery
from stator.runtime.base.context import Context
from stator.runtime.facade.aio import AsyncStore
from stator.runtime.facade.store import Store
from stator.store.contract.distance.faulty_store import FaultPlan, FaultyStore
from stator.store.port import StorePort
from stator.testing import FakeClock

PROCESSES_MAX = 12
PROMPTS = ("one", "two", "three", "four")
WRITES = ("first", "nested", "left", "right", "approved", "beside", "last")
"""What the write tool is called with; each must happen once."""


class Campaign:
    """One program until its end, with what was counted on the way."""

    def __init__(self, behind: StorePort, plan: FaultPlan, *, api: str = "sync") -> None:
        self.behind = behind
        self.plan = plan
        self.effects: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        self.errors: list[StoreUnreachable] = []
        self.doubted: set[str] = set()
        """What the write tool was called with, of the calls that were listed as in doubt."""
        self.unsaid: list[str] = []
        """Effects that were neither recorded nor listed as in doubt when a process had ended."""
        self.processes = 0
        self._play = {"sync": self._sync, "async": self._async}[api]
        self._clock = FakeClock(tick_s=0.001)

    def run(self) -> Campaign:
        for self.processes in range(1, PROCESSES_MAX):
            connection = FaultyStore(self.behind, self.plan)
            store = Store(connection, self._context(self.processes))
            try:
                if not self._has_ended("main"):
                    self._play(store)
                self._beside(store)
            except StoreUnreachable as lost:
                self.errors.append(lost)
            except (ApprovalNeeded, InDoubt):
                pass
            else:
                self._die(connection)
                return self
            self._die(connection)
            self._people()
        raise AssertionError("it does not end")

    def _has_ended(self, name: str) -> bool:
        """Whether a run of the session ended in order; also one may have that got no answer when it left."""
        rows = self.behind.sessions(SessionQuery(name=name), limit=1).rows
        log = self.behind.commits(rows[0].id) if rows else []
        return any(
            c.kind == "run_end" and c.status == "ok" and c.session == rows[0].id for c in log
        )

    def _context(self, pid: int) -> Context:
        return Context(
            clock=self._clock, mint=mint, secret=os.urandom, sleep=self._clock.advance,
            monotonic=self._clock.monotonic, host="here", pid=pid, program="campaign",
            principal="local:test", project="test",
        )  # fmt: skip

    def _die(self, connection: FaultyStore) -> None:
        """The process ends: what was on its way arrives, and its leases are seen to be those of a dead process."""
        connection.deliver()
        if self.plan.left < self.plan.faults:
            self.plan.heal()
        for row in self.behind.sessions(SessionQuery(), limit=100).rows:
            if row.holder is not None and row.holder.live:
                self.behind.release(Lease(row.id, row.holder.epoch))

    # -- people, over a sound connection ----------------------------------------------------------

    def _people(self) -> None:
        """Approve what waits, look at what is in doubt, and settle it by what is true."""
        store = Store(self.behind, self._context(1000))
        for call in store.approvals.waiting():
            if not store.approvals.grants(call.session):
                store.approvals.approve(call.call)
        recorded = self._recorded()
        for doubt in store.doubts.open():
            what = doubt.arguments["what"]
            self.doubted.add(what)
            store.doubts.settle(
                doubt.call, *(("done", what) if self.effects[what] else ("run again",))
            )
        self.unsaid += [
            what for what in self.effects if what not in recorded and what not in self.doubted
        ]

    def _recorded(self) -> set[str]:
        """What the write tool was called with, of the calls that are recorded as done."""
        found = set()
        for row in self.behind.sessions(SessionQuery(), limit=100).rows:
            asked = {}
            for commit in self.behind.commits(row.id):
                if commit.kind == "call" and "what" in (commit.known("input") or {}):
                    asked[commit.call] = commit.value("input")["what"]
                if commit.kind in ("outcome", "settlement") and commit.status == "ok":
                    found |= {asked[commit.call]} & set(WRITES) if commit.call in asked else set()
        return found

    # -- the program ------------------------------------------------------------------------------

    def tools(self) -> dict[str, Any]:
        return {
            "look": stator.tool(self._look, name="look", effect="read"),
            "act": stator.tool(self._act, name="act"),
            "asked": stator.tool(self._act, name="asked", approve=True),
        }

    def _look(self, what: str) -> str:
        self.reads[what] += 1
        return what

    def _act(self, what: str) -> str:
        self.effects[what] += 1
        return what

    def _sync(self, store: Store) -> None:
        tools = self.tools()
        look, act, asked = tools["look"], tools["act"], tools["asked"]
        with store.open("main", agent="campaign") as s:
            with s.turn("one") as t:
                t.call(look, what="a")
                t.call(act, what="first")
                t.decide("JWT", topic="auth")
                with t.batch():
                    t.fact("x", 1)
                    t.fact("y", 2)
                    t.plan("step")
                    t.say("answer one")
                    t.end("value one")
            with s.turn("two") as t:
                with s.child("helper") as child, child.turn("sub") as sub:
                    sub.call(act, what="nested")
                    sub.say("sub answer")
                t.call(act, what="left")
                t.call(act, what="right")
                t.say("answer two")
            with s.turn("three") as t:
                t.call(asked, what="approved")
                t.say("answer three")
            s.compact(keep=1, strategy=("mask",))
            with s.turn("four") as t:
                t.call(act, what="last")

    def _async(self, store: Store) -> None:
        asyncio.run(self._awaited(AsyncStore(store)))

    async def _awaited(self, store: AsyncStore) -> None:
        tools = self.tools()
        look, act, asked = tools["look"], tools["act"], tools["asked"]
        try:
            async with store.open("main", agent="campaign") as s:
                async with s.turn("one") as t:
                    await t.call(look, what="a")
                    await t.call(act, what="first")
                    await t.decide("JWT", topic="auth")
                    async with t.batch():
                        await t.fact("x", 1)
                        await t.fact("y", 2)
                        await t.plan("step")
                        await t.say("answer one")
                        await t.end("value one")
                async with s.turn("two") as t:
                    async with s.child("helper") as child, child.turn("sub") as sub:
                        await sub.call(act, what="nested")
                        await sub.say("sub answer")
                    together = (t.call(act, what="left"), t.call(act, what="right"))
                    ended = await asyncio.gather(*together, return_exceptions=True)
                    for error in ended:
                        if isinstance(error, BaseException):
                            raise error
                    await t.say("answer two")
                async with s.turn("three") as t:
                    await t.call(asked, what="approved")
                    await t.say("answer three")
                await s.compact(keep=1, strategy=("mask",))
                async with s.turn("four") as t:
                    await t.call(act, what="last")
        finally:
            store._pool.close()

    # -- what people do beside the program, each if it was not done -------------------------------

    def _beside(self, store: Store) -> None:
        """What people do from outside, over the same connection. Each looks whether it is there before doing it
        again, as the error says."""
        self._unless(self._has_session("branch"), lambda: store.fork("main", as_name="branch"))
        self._unless(self._has("score"), lambda: store.contribute("main").score("good", 1.0))
        self._unless(self._has("budget"), lambda: store.budgets.change("main", "turns=50"))
        self._retry(store)
        self._unless(self._has("rewind"), lambda: store.contribute("main").rewind("t3"))
        self._unless(self._has("close"), lambda: store.contribute("main").close())

    def _retry(self, store: Store) -> None:
        if self._has_ended("again"):
            return
        act = self.tools()["act"]
        with (
            store.open("main") as s,
            s.retry("t4", effects="run", name="again", prompt="four again") as t,
        ):
            t.call(act, what="beside")

    @staticmethod
    def _unless(done: Callable[[], bool], do: Callable[[], object]) -> None:
        if not done():
            do()

    def _has(self, kind: str) -> Callable[[], bool]:
        def has() -> bool:
            rows = self.behind.sessions(SessionQuery(name="main"), limit=1).rows
            return bool(rows) and any(c.kind == kind for c in self.behind.commits(rows[0].id))

        return has

    def _has_session(self, name: str) -> Callable[[], bool]:
        return lambda: bool(self.behind.sessions(SessionQuery(name=name), limit=1).rows)


def faults_of(campaign: Campaign) -> list[str]:
    """What is wrong with a campaign that has ended; nothing if the laws hold."""
    found = [f"{what} happened {n} times" for what, n in campaign.effects.items() if n != 1]
    found += [f"{what} never happened" for what in WRITES if what not in campaign.effects]
    found += [f"{what} is neither recorded nor in doubt" for what in campaign.unsaid]
    found += [f"{what} is not recorded" for what in set(WRITES) - campaign._recorded()]
    rows = campaign.behind.sessions(SessionQuery(), limit=100).rows
    names = Counter(row.record.name for row in rows)
    wanted = {"main": 1, "main/helper": 1, "branch": 1, "again": 1}
    found += [f"sessions: {dict(names)}"] if names != wanted else []
    for row in rows:
        found += _faults_of_log(campaign.behind, row.id, row.record.name)
    for error in campaign.errors:
        if error.landed == "unknown" and not error.ids.get("session"):
            found.append(f"an error names no session: {error}")
    return found


def _faults_of_log(store: StorePort, session: str, name: str) -> list[str]:
    log = [commit for commit in store.commits(session) if commit.session == session]
    ids = Counter(commit.id for commit in log)
    once = Counter(
        (commit.kind, str(commit.known("input", "")), str(commit.known("output", "")))
        for commit in log
        if commit.kind in ("entry", "decision", "plan", "score", "budget", "rewind", "fact")
        or (commit.kind == "turn" and not commit.status)
    )
    facts = [c for c in log if c.kind == "fact"]
    doubled = [f"{name}: {n} × {what}" for what, n in once.items() if n > 1 and what[0] != "fact"]
    doubled += [f"{name}: commit {identifier} twice" for identifier, n in ids.items() if n > 1]
    if name == "main" and len(facts) != 2:
        doubled.append(f"main: {len(facts)} facts")
    prompts = Counter(
        commit.value("input") for commit in log if commit.kind == "turn" and not commit.status
    )
    if name == "main" and (prompts != dict.fromkeys(PROMPTS, 1)):
        doubled.append(f"main: prompts {dict(prompts)}")
    outcomes = Counter((c.call, c.attempt) for c in log if c.kind == "outcome")
    doubled += [f"{name}: {n} outcomes of {key}" for key, n in outcomes.items() if n > 1]
    open_calls = store.entries(session, "calls")
    doubled += [f"{name}: {len(open_calls)} calls without an outcome"] if open_calls else []
    return doubled


def writes_of(make: Callable[[], StorePort], *, api: str = "sync") -> int:
    """How many writes there are without a fault, in all processes."""
    plan = FaultPlan()
    campaign = Campaign(make(), plan, api=api).run()
    assert faults_of(campaign) == []
    return plan.counted


def verified(store: StorePort) -> bool:
    from stator.runtime.views.verify import examine

    return examine(store).ok


__all__ = ["Campaign", "FaultPlan", "StatorError", "faults_of", "verified", "writes_of"]
