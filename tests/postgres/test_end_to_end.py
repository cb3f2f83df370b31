"""`stator.connect("postgresql://…")` from outside: what a program does with a store, over a real server."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import stator
from postgres_server import new_tenant, shared_database
from stator.errors import Busy, InvalidInput, NotAStore, NotFound
from stator.model.calls.known import DISPLACED
from stator.model.log.query import CallQuery, SessionQuery
from stator.model.views.open_calls import DIED


@pytest.fixture
def tenant() -> str:
    return new_tenant()


@pytest.fixture
def store(tenant: str) -> Iterator[Any]:
    with stator.connect(shared_database(), tenant=tenant, project="shop") as made:
        yield made


@stator.tool(effect="write")
def pay(amount: int) -> str:
    return f"paid {amount}"


def work(store: Any, name: str = "main") -> None:
    with store.open(name) as s:
        with s.turn("buy an umbrella") as t:
            assert t.call(pay, amount=3) == "paid 3"
            t.decide("buy the red one", topic="colour", why="it was asked for")
            t.fact("shop", "open until six")
        with s.turn("and a parasol") as t:
            t.decide("buy the blue one", topic="colour", why="red is sold out")


def log_of(store: Any, name: str) -> list[tuple[str, str]]:
    return [(commit.id, commit.hash) for commit in store.read(name).log()]


def test_a_session_is_driven_and_resumed_from_another_connection(store, tenant):
    work(store)
    with stator.connect(shared_database(), tenant=tenant, project="shop") as other:
        with other.open("main") as s, s.turn("go on") as t:
            t.fact("shop", "closed now")
        assert len(other.read("main").turns()) == 3
    assert store.verify().ok


def test_fork_diff_brief_and_search(store):
    work(store)
    store.fork("main", "t1", as_name="other")
    with store.open("other") as s, s.turn("buy a hat instead") as t:
        t.decide("buy a hat", topic="headwear", why="it is windy")
    main, other = store.read("main"), store.read("other")
    assert "blue" in str(main.diff("t1", "t2"))
    assert "blue one" in main.brief().text
    assert "hat" in other.brief().text
    found = store.search("parasol")
    assert len(list(getattr(found, "hits", found))) >= 1
    assert store.verify().ok
    assert list(store.port.audit()) == []


def test_bundles_travel_between_files_and_servers_with_the_same_hashes(store, tmp_path):
    work(store)
    there = tmp_path / "there.stator"
    store.export("main", there)
    with stator.connect(tmp_path / "file.db", project="shop") as file:
        file.import_bundle(there)
        assert log_of(file, "main") == log_of(store, "main")
        assert file.verify().ok
        work(file, "second")
        back = tmp_path / "back.stator"
        file.export("second", back)
        store.import_bundle(back)
        assert log_of(store, "second") == log_of(file, "second")
    with store.open("second") as s, s.turn("go on") as t:
        t.fact("shop", "still open")
    assert store.verify().ok
    assert list(store.port.audit()) == []
    assert {row.record.tenant for row in store.port.sessions(SessionQuery()).rows} == {
        store.port.tenant
    }


def test_tenants_do_not_see_each_other(store):
    work(store)
    with stator.connect(shared_database(), tenant=new_tenant(), project="shop") as other:
        with pytest.raises(NotFound):
            other.read("main")
        assert other.port.sessions(SessionQuery()).rows == []
        work(other)
        assert len(other.port.sessions(SessionQuery()).rows) == 1


def test_a_tenant_is_required_and_may_be_in_the_url(monkeypatch):
    monkeypatch.delenv("STATOR_TENANT", raising=False)
    url = shared_database()
    with pytest.raises(InvalidInput, match="tenant"):
        stator.connect(url)
    with stator.connect(f"{url}&tenant={new_tenant()}") as store:
        assert store.info().kind == "postgresql"
    with pytest.raises(InvalidInput):
        stator.connect(f"{url}&tenant=one", tenant="two")
    monkeypatch.setenv("STATOR_TENANT", new_tenant())
    stator.connect(url).close()


def test_a_database_without_a_store_is_not_made_by_a_reader(tenant):
    from postgres_server import server

    url = server().database()
    with pytest.raises(NotAStore):
        stator.connect(url, tenant=tenant, read_only=True)
    with pytest.raises(NotAStore):
        stator.connect(url, tenant=tenant, create=False)


def test_the_search_index_is_kept_on_this_machine(store, tenant):
    work(store)
    assert store.search("parasol")
    before = trips(store)
    with stator.connect(shared_database(), tenant=tenant, project="shop") as again:
        begun = trips(again)
        assert again.search("parasol")
        assert trips(again) - begun <= 6
    assert trips(store) == before


def trips(store: Any) -> int:
    return int(store.port.round_trips)


def test_round_trips_are_few(store, tenant):
    """An append is one, resuming four, the newest state one."""
    with store.open("main") as s, s.turn("go") as t:
        t.fact("x", 1)
        before = trips(store)
        t.fact("y", 2)
        assert trips(store) - before == 1
    with stator.connect(shared_database(), tenant=tenant, project="shop") as other:
        before = trips(other)
        s = other.open("main")
        assert trips(other) - before <= 4
        with s:
            pass
        view = other.read("main")
        for read in (view.hot, view.state):
            before = trips(other)
            read()
            assert trips(other) - before <= 2


DRIVER = """
    import os, sys, time
    import stator

    @stator.tool(effect="write")
    def pay(amount):
        print("paying", flush=True)
        time.sleep(600)

    with stator.connect(sys.argv[1], tenant=sys.argv[2], project="shop") as store:
        with store.open("main") as s, s.turn("pay") as t:
            t.call(pay, amount=3)
"""


@pytest.fixture
def driver(tenant: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, in the middle of a payment."""
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DRIVER), shared_database(), tenant],
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    try:
        assert started.stdout.readline() == b"paying\n"
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def payments(store: Any) -> list[tuple[str, str]]:
    (row,) = store.port.sessions(SessionQuery()).rows
    return [(call.status, call.cause) for call in store.port.calls(CallQuery(session=row.id)).rows]


def test_a_stopped_drivers_write_is_in_doubt_after_its_silence(store, driver, monkeypatch):
    """It may go on: the kernel knows its process, and the counter of it stands still."""
    monkeypatch.setattr("stator.model.sessions.silence.SILENT_S", 1.0)
    (row,) = store.port.sessions(SessionQuery()).rows
    assert row.holder is not None
    assert row.holder.beats > 0
    with pytest.raises(Busy):
        store.open("main")
    driver.send_signal(signal.SIGSTOP)
    with store.open("main", busy="wait"):
        assert payments(store) == [("in doubt", DISPLACED)]


def test_a_killed_driver_of_this_machine_is_gone_at_once_and_its_tool_is_asked(store, driver):
    with pytest.raises(Busy):
        store.open("main")
    driver.kill()
    driver.wait()
    (row,) = store.port.sessions(SessionQuery()).rows
    assert (row.shown, row.holder.live) == ("interrupted", False)
    tool = stator.tool(pay.function, name="pay", reconcile=lambda intent: ("done", "paid 3"))
    with store.open("main") as s, s.turn("pay") as t:
        assert t.call(tool, amount=3) == "paid 3"
    assert [status for status, _ in payments(store)] == ["ok"]


def test_taking_the_session_of_a_killed_driver_is_no_displacement(store, driver):
    driver.kill()
    driver.wait()
    with store.open("main", busy="take"):
        assert payments(store) == [("in doubt", DIED)]
