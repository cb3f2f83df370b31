"""A clock that is set back: what has expired stays expired, and nothing is removed because of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import stator
from stator import testing
from stator.approvals import Rule
from stator.connect import context
from stator.errors import ApprovalNeeded, InvalidInput
from stator.model.calls.approval import Scope
from stator.runtime.facade.store import Store
from stator.store.sqlite import SqliteStore, create

HOUR_S = 3600
ASK = [Rule(tool="pay", action="ask")]


@stator.tool()
def pay(amount: int) -> str:
    return f"paid {amount}"


class Files:
    """Stores in one file, all with the same clock."""

    def __init__(self, path: str, clock: testing.FakeClock) -> None:
        self.path, self.clock = path, clock
        create(path)

    def open(self) -> Store:
        port = SqliteStore(self.path, clock=self.clock)
        return Store(port, replace(context(project="shop"), clock=self.clock))


@pytest.fixture
def clock():
    return testing.FakeClock()


@pytest.fixture
def files(tmp_path, clock):
    return Files(str(tmp_path / "agent.db"), clock)


def granted(store: Store, clock: testing.FakeClock, scope: Scope) -> None:
    """Approve every payment for an hour."""
    with store.open("shop"):
        pass
    until = clock.now + HOUR_S * 1_000_000
    store.approvals.grant("shop", "pay", scope=scope, expires=until)


def is_answered(store: Store, name: str) -> bool:
    try:
        with store.open(name, rules=ASK) as s, s.turn("pay", new=True) as t:
            t.call(pay, amount=5)
    except ApprovalNeeded:
        return False
    return True


@pytest.mark.parametrize("scope", ["session", "project"])
def test_an_expired_grant_does_not_answer_again_when_the_clock_is_set_back(files, clock, scope):
    with files.open() as store:
        granted(store, clock, scope)
        assert is_answered(store, "shop")
        clock.advance(2 * HOUR_S)
        assert not is_answered(store, "shop")
        clock.advance(-2 * HOUR_S)
        assert not is_answered(store, "shop")


def test_an_expired_grant_stays_expired_after_reopening(files, clock):
    with files.open() as store:
        granted(store, clock, "session")
        clock.advance(2 * HOUR_S)
        assert not is_answered(store, "shop")
    clock.advance(-2 * HOUR_S)
    with files.open() as store:
        assert not is_answered(store, "shop")
        assert store.approvals.grants("shop") == []


def test_a_grant_that_no_call_has_found_expired_is_listed_as_expired_after_the_clock_is_set_back(
    files, clock
):
    with files.open() as store:
        granted(store, clock, "session")
        clock.advance(2 * HOUR_S)
        with store.open("other"):
            pass
        clock.advance(-2 * HOUR_S)
        assert [grant.state for grant in store.approvals.grants("shop")] == ["expired"]


def test_the_commits_of_another_session_show_that_a_project_grant_has_expired(files, clock):
    with files.open() as store:
        granted(store, clock, "project")
        clock.advance(2 * HOUR_S)
        with store.open("other"):
            pass
        clock.advance(-2 * HOUR_S)
        assert not is_answered(store, "shop")


def test_work_after_the_clock_was_set_back_does_not_revive_a_grant(files, clock):
    with files.open() as store:
        granted(store, clock, "session")
        clock.advance(2 * HOUR_S)
        assert not is_answered(store, "shop")
        clock.advance(-2 * HOUR_S)
        with store.open("shop") as s:
            s.flag("and back")
        assert not is_answered(store, "shop")


def test_the_expiry_of_a_grant_is_recorded_when_a_call_finds_it(files, clock):
    with files.open() as store:
        granted(store, clock, "session")
        clock.advance(2 * HOUR_S)
        assert not is_answered(store, "shop")
        kinds = [(c.kind, c.status) for c in store.read("shop").log() if c.kind == "approval"]
    assert kinds == [("approval", "approved"), ("approval", "expired")]


def test_a_grant_that_has_not_expired_answers_after_the_clock_is_set_back(files, clock):
    with files.open() as store:
        granted(store, clock, "session")
        clock.advance(HOUR_S / 2)
        assert is_answered(store, "shop")
        clock.advance(-HOUR_S / 4)
        assert is_answered(store, "shop")


def test_a_grant_whose_time_is_before_the_newest_commit_is_refused(files, clock):
    with files.open() as store:
        with store.open("shop"):
            pass
        clock.advance(-2 * HOUR_S)
        until = clock.now + HOUR_S * 1_000_000
        with pytest.raises(InvalidInput, match="newer commits than the clock"):
            store.approvals.grant("shop", "pay", expires=until)


def test_retention_keeps_what_the_clock_makes_younger(files, clock):
    with files.open() as store:
        with store.open("shop"):
            pass
        store.retention("trash=1d")
        clock.advance(-2 * HOUR_S)
        assert store.gc().actions == []
