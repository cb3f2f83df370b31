"""What pages cost: calls of the port, bytes and nodes, for sessions of any length and stores of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import stator
from runtime.test_port_calls import Counted, Told, tell
from stator.runtime.facade.store import Store
from stator.runtime.views.as_read import as_read
from web.asking import PlainBrowser
from web.running import RunningInspector
from web.sessions import attacked
from web.shared_stores import SharedStores
from web.very_long import very_long

CALLS_MAX = 8
PAGES = (
    "", "?before=9", "/t2", "/t2?every=1", "/@5", "/calls?after=3&upto=40", "/decisions", "/evicted", "/tree",
    "/verify", "/files",
)  # fmt: skip


LONG_PAGES = (
    *PAGES, "?before=1500", "/t1500", "/@15000", "/strip", "/strip?at=t1500", "/strip?at=t7", "/act", "/rewind?to=t5",
    "/rewind?to=t2998", "/files?before=1500",
)  # fmt: skip
"""Pages of a session of thousands of turns; the limits hold for them wherever they look."""
STORE_PAGES = ("/", "/sessions", "/projects/shop/recap", "/files", "/cost")


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


@pytest.fixture(scope="module")
def long(shared_stores: SharedStores) -> Iterator[LongSession]:
    path = shared_stores.path("very-long", very_long)
    with stator.connect(path, project="shop") as store:
        session = store.read("very-long").id
        counted = Counted(store.port)
        seen = Store(counted, store.context)
        seen.as_read = as_read(seen.port, store.context)
        with RunningInspector(seen) as running:
            yield LongSession(session, counted, PlainBrowser(running))


class LongSession(NamedTuple):
    """A session of thousands of turns, and what its pages cost."""

    id: str
    port: Counted
    asked: PlainBrowser

    def cost(self, path: str) -> int:
        """Ask for a page, which is held to the other limits; the calls of the port that it took."""
        self.port.counted.clear()
        self.asked.page(path)
        return self.port.counted.total()


def test_every_page_of_a_session_of_thousands_of_turns_stays_within_the_limits(
    long: LongSession,
) -> None:
    costs = {path: long.cost(f"/s/{long.id}{path}") for path in LONG_PAGES}
    assert {path: cost for path, cost in costs.items() if cost > CALLS_MAX} == {}


def test_every_page_of_a_store_with_a_very_long_session_stays_within_the_limits(
    long: LongSession,
) -> None:
    costs = {path: long.cost(path) for path in STORE_PAGES}
    assert {path: cost for path, cost in costs.items() if cost > CALLS_MAX} == {}


def test_a_call_costs_at_most_eight_calls_of_the_port(told: Told, asked: PlainBrowser) -> None:
    call = told.a.calls(limit=1)[0].call
    assert told.cost(lambda: asked.page(f"/s/{told.a.id}/calls/{call}")) <= CALLS_MAX


def test_the_list_of_sessions_costs_at_most_eight_calls_of_the_port(
    told: Told, asked: PlainBrowser
) -> None:
    assert told.cost(lambda: asked.page("/sessions")) <= CALLS_MAX


def test_hostile_and_very_long_content_stays_within_the_limits(
    shared_stores: SharedStores,
) -> None:
    place = shared_stores.path("attacked", attacked)
    with stator.connect(place) as store, RunningInspector(store) as running:
        (session,) = (row.id for row in store.sessions().rows)
        asked = PlainBrowser(running)
        for path in (*PAGES[:-1], "/t8", "/t8?every=1"):
            asked.page(f"/s/{session}{path}")
        asked.page("/sessions")
        for call in store.read(session).calls(limit=3):
            asked.page(f"/s/{session}/calls/{call.call}")
            asked.page(f"/s/{session}/text/{call.seq}/input?from=65536")
