"""What pages cost: calls of the port, bytes and nodes, for sessions of any length and stores of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stator
from runtime.test_port_calls import Told, tell
from stator.runtime.facade.store import Store
from web.asking import PlainBrowser
from web.running import RunningInspector
from web.sessions import attack

CALLS_MAX = 8
PAGES = (
    "", "?before=9", "/t2", "/t2?every=1", "/@5", "/calls?after=3&upto=40", "/decisions", "/evicted", "/tree",
    "/verify", "/files",
)  # fmt: skip


@pytest.fixture(scope="module", params=[12, 90])
def told(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    path = tmp_path_factory.mktemp("limits") / "store.db"
    with stator.connect(path, project="shop", durability="relaxed") as store:
        tell(store, request.param, checks=True)
        yield Told(store)


@pytest.fixture(scope="module")
def asked(told: Told) -> Iterator[PlainBrowser]:
    with RunningInspector(told.store) as running:
        yield PlainBrowser(running)


def test_every_page_of_a_session_costs_at_most_eight_calls_of_the_port(
    told: Told, asked: PlainBrowser
) -> None:
    costs = {
        path: told.cost(lambda path=path: asked.page(f"/s/{told.a.id}{path}")) for path in PAGES
    }
    assert {path: cost for path, cost in costs.items() if cost > CALLS_MAX} == {}


def test_a_call_costs_at_most_eight_calls_of_the_port(told: Told, asked: PlainBrowser) -> None:
    call = told.a.calls(limit=1)[0].call
    assert told.cost(lambda: asked.page(f"/s/{told.a.id}/calls/{call}")) <= CALLS_MAX


def test_the_list_of_sessions_costs_at_most_eight_calls_of_the_port(
    told: Told, asked: PlainBrowser
) -> None:
    assert told.cost(lambda: asked.page("/sessions")) <= CALLS_MAX


def test_hostile_and_very_long_content_stays_within_the_limits(store: Store) -> None:
    session = attack(store)
    with RunningInspector(store) as running:
        asked = PlainBrowser(running)
        for path in (*PAGES[:-1], "/t8", "/t8?every=1"):
            asked.page(f"/s/{session}{path}")
        asked.page("/sessions")
        for call in store.read(session).calls(limit=3):
            asked.page(f"/s/{session}/calls/{call.call}")
            asked.page(f"/s/{session}/text/{call.seq}/input?from=65536")
