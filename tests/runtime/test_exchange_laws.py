"""Laws of copy and push over random histories: what arrives is what is here, and nothing there is lost."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from runtime.exchange_fixtures import heads, logs, purge
from stator.connect import mint
from stator.errors import StatorError, StoreUnreachable
from stator.model.log.commit import Commit, Gone
from stator.runtime.base.context import Context
from stator.runtime.exchange import delivery
from stator.runtime.facade.store import Store
from stator.runtime.views.verify import verify
from stator.store.contract.distance.faulty_store import FaultPlan, faulty
from stator.store.contract.drive import Clock, Ids, Story, begin
from stator.store.memory import MemoryStore

ACTS = st.tuples(
    st.sampled_from("begin fact fact turn turn_end decide fork erase purge".split()),
    st.integers(0, 30),
)
FAULTS = st.builds(
    FaultPlan,
    at=st.integers(0, 6),
    when=st.sampled_from(["before", "after", "late"]),
    faults=st.integers(1, 3),
)
HISTORIES = st.lists(st.one_of(ACTS, FAULTS), max_size=30)
"""What happens in a store, and between it copies over a connection that loses answers."""


def make_store() -> Store:
    ticks = iter(range(0, 10**9, 1000))  # nothing is asked twice
    context = Context(
        clock=Clock(),
        mint=mint,
        secret=secrets.token_bytes,
        principal="local:test",
        project="",
        monotonic=lambda: float(next(ticks)),
    )
    return Store(MemoryStore(clock=Clock()), context)


class History:
    """Acts on the sessions of a store; an act that the store refuses does not happen."""

    def __init__(self, store: Store, word: str) -> None:
        self.store = store
        self.stories: list[Story] = []
        self._word = word
        self._count = 0

    def _made(self) -> int:
        self._count += 1
        return self._count

    def act(self, what: str, n: int) -> None:
        with contextlib.suppress(StatorError, IndexError):
            if what == "begin" or not self.stories:
                ids = Ids(secrets.token_hex(8))
                self.stories.append(begin(self.store.port, f"{self._word} {self._made()}", ids=ids))
                return
            story = self.stories[n % len(self.stories)]
            acts: dict[str, Callable[[], Any]] = {
                "fact": lambda: story.fact(f"f{n % 4}", {"n": n, "of": len(story.log)}),
                "turn": lambda: story.turn(f"prompt {n}"),
                "turn_end": lambda: story.turn_end(),
                "decide": lambda: story.decision(f"d{len(story.log)}", f"topic {n % 3}"),
                "fork": lambda: self._fork(story, n),
                "erase": lambda: story.erase(story.log[-1 - n % len(story.log)].seq),
                "purge": lambda: self._purge(story),
            }
            acts[what]()

    def _fork(self, story: Story, n: int) -> None:
        at = 1 + n % len(story.log)
        self.stories.append(story.fork(f"{self._word} {self._made()}~", at))

    def _purge(self, story: Story) -> None:
        purge(self.store, story.session)
        self.stories.remove(story)


def far(store: Store, plan: FaultPlan) -> Store:
    return Store(faulty(store.port, plan), store.context)


def salted(store: Store) -> dict[str, list[Commit]]:
    """Every log; the salts only of commits that lack something. An erasure that finds nothing to erase in a commit
    still gives each item of it a salt of its own, and has nothing to carry."""
    return {
        session: [
            commit
            if any(isinstance(item, Gone) for item in commit.content.values())
            else replace(commit, salt=b"", salts={})
            for commit in log
        ]
        for session, log in logs(store).items()
    }


@settings(max_examples=150, deadline=None)
@given(HISTORIES, st.integers(1, 5))
def test_after_a_copy_both_stores_have_the_same_whatever_happened_before(history, size):
    source, target = make_store(), make_store()
    told = History(source, "s")
    was, delivery.COMMITS = delivery.COMMITS, size
    try:
        for one in history:
            if isinstance(one, FaultPlan):
                with contextlib.suppress(StoreUnreachable):
                    source.copy_to(far(target, one))
            else:
                told.act(*one)
        report = source.copy_to(target)
    finally:
        delivery.COMMITS = was
    assert report.findings == []
    here, there = salted(source), salted(target)
    assert {session: there[session] for session in here} == here
    assert {one.session for one in report.purged} == set(there) - set(here)
    assert list(verify(target.port)) == []
    assert source.copy_to(target).commits == 0


@settings(max_examples=150, deadline=None)
@given(HISTORIES, st.integers(1, 5))
def test_pushing_twice_is_pushing_once_whatever_happened_before(history, size):
    source, target = make_store(), make_store()
    told = History(source, "s")
    was, delivery.COMMITS = delivery.COMMITS, size
    try:
        for one in history:
            if isinstance(one, FaultPlan):
                with contextlib.suppress(StoreUnreachable):
                    source.push_to(far(target, one), projects=[""])
            else:
                told.act(*one)
        assert source.push_to(target, projects=[""]).findings == []
        once = logs(target)
        assert source.push_to(target, projects=[""]).commits == 0
    finally:
        delivery.COMMITS = was
    assert logs(target) == once
    for session, (seq, hash) in heads(source).items():
        if source.port.session(session).record.mode != "project":
            assert heads(target)[session] == (seq, hash)
    assert list(verify(target.port)) == []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["here", "there", "push", "pull"]), ACTS), max_size=30))
def test_no_commit_of_either_store_is_lost_by_any_push_or_pull(history):
    source, target = make_store(), make_store()
    here, there = History(source, "s"), History(target, "t")
    for where, act in history:
        before = logs(source), logs(target)
        if where == "push":
            source.push_to(target, projects=[""], forks=act[1] % 2 == 0)
            there.stories += [
                Story(target.port, story.drafts)
                for story in here.stories
                if _is_new(target, there, story)
            ]
        elif where == "pull" and there.stories:
            story = there.stories[act[1] % len(there.stories)]
            with contextlib.suppress(StatorError):
                source.pull_from(target, story.session, erasures="apply")
        elif where == "here":
            here.act(*act)
            continue
        elif act[0] != "purge":
            there.act(*act)
            continue
        for store, known in zip((source, target), before, strict=True):
            now = logs(store)
            for session, log in known.items():
                assert _begins(now[session], log)
    for store in (source, target):
        assert list(verify(store.port)) == []


def _is_new(store: Store, history: History, story: Story) -> bool:
    known = {one.session for one in history.stories}
    return story.session in heads(store) and story.session not in known


def _begins(log: list[Commit], before: list[Commit]) -> bool:
    """Whether a log begins as it was, except for what an erasure in it took away."""
    for now, was in zip(log[: len(before)], before, strict=True):
        if now.hash != was.hash:
            return False
        for name, item in was.content.items():
            after = now.content[name]
            if after != item and not (isinstance(after, Gone) and after.by):
                return False
    return True
