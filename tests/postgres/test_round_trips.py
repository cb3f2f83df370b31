"""How many round trips each thing costs over PostgreSQL, as a proxy on the wire counts them.

The numbers do not depend on the load of the machine, nor on how long the session is: every one holds for a session of
six turns, one of sixty, and one of several hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import stator
from postgres_server import new_tenant, shared_database
from postgres_wire import WireCounter
from stator.model.log.query import SessionQuery

SHORT, LONG, HUNDREDS = 6, 60, 400
SESSIONS = ("short", "long", "hundreds")


@stator.tool(effect="read")
def look(path: str) -> str:
    return "x" * 3_000


@stator.tool(effect="write")
def edit(path: str) -> str:
    return "done " + "y" * 40_000


def a_turn(session: Any, number: int) -> None:
    """8 transactions: a prompt, three calls, and what the turn came to."""
    with session.turn(f"do {number}") as t:
        t.call(look, path="a.py")
        t.call(look, path="b.py")
        t.call(edit, path="a.py")
        with t.batch():
            t.file(f"src/m{number % 7}.py", "modified", after=f"{number:064x}")
            t.file("src/same.py", "modified", after=f"{number:064x}")
            t.decide(f"choice {number}", topic=f"topic {number}", why="it is shorter")
            t.plan(f"step {number % 5}", "done")
            t.say(f"did {number}")
            t.end()


def a_plain_turn(session: Any, number: int) -> None:
    """2 transactions, so that hundreds are made soon; records of all kinds, more than a brief has room for."""
    with session.turn(f"do {number}") as t, t.batch():
        t.file(f"src/p{number % 90}.py", "modified", after=f"{number:064x}")
        t.decide(f"choice {number}", topic=f"topic {number}", why="it is shorter")
        t.fact(f"fact {number % 80}", f"it is {number}")
        t.plan(f"step {number % 70}", ("pending", "done")[number % 2])
        t.prefer(f"style {number % 60}", f"as in {number}")
        t.say(f"did {number}")
        t.end()


class Measured(NamedTuple):
    wire: WireCounter
    store: Any
    tenant: str

    def cost(self, ask: Callable[[], Any]) -> int:
        before, known = self.wire.trips, self.store.port.round_trips
        ask()
        trips = self.wire.trips - before
        assert self.store.port.round_trips - known == trips  # what the store says of itself
        return trips

    def least(self, ask: Callable[[int], Any]) -> int:
        """The cost while a session is held: of three tries, since a sign of life may fall into one."""
        found = []
        for number in range(3):
            before = self.wire.trips
            ask(number)
            found.append(self.wire.trips - before)
        return min(found)


@pytest.fixture(scope="module")
def measured() -> Iterator[Measured]:
    part = new_tenant()
    with (
        WireCounter(shared_database()) as wire,
        stator.connect(wire.url, tenant=part, project="shop") as store,
    ):
        for name, turns in (("short", SHORT), ("long", LONG)):
            with store.open(name) as s:
                for number in range(turns):
                    a_turn(s, number)
        with store.open("hundreds") as s:
            for number in range(HUNDREDS):
                a_plain_turn(s, number)
            a_turn(s, HUNDREDS)
        yield Measured(wire, store, part)


@pytest.mark.parametrize("name", ["short", "long"])
def test_a_turn_is_eight_transactions_of_one_round_trip_each(measured, name):
    with measured.store.open(name) as s:
        a_turn(s, 1_000)  # the first also reads what a driver must know
        assert measured.least(lambda n: a_turn(s, 1_000)) == 8


@pytest.mark.parametrize("name", ["short", "long"])
def test_what_is_under_all_keys_that_a_batch_touches_is_read_in_one_more(measured, name):
    with measured.store.open(name) as s:
        a_turn(s, 1_000)
        assert measured.least(lambda n: a_turn(s, n)) == 9


@pytest.mark.parametrize("max_tokens", [2_000, 8_000])
@pytest.mark.parametrize("name", SESSIONS)
def test_the_first_brief_that_a_process_asks_for_takes_four_round_trips(measured, name, max_tokens):
    with stator.connect(measured.wire.url, tenant=measured.tenant, project="shop") as store:
        view = store.read(name)
        before = measured.wire.trips
        view.brief(max_tokens=max_tokens)
        assert measured.wire.trips - before <= 4


@pytest.mark.parametrize("name", SESSIONS)
def test_to_resume_takes_four_round_trips(measured, name):
    found = []
    for _ in range(3):
        before = measured.wire.trips
        session = measured.store.open(name)
        found.append(measured.wire.trips - before)
        session.pause()
    assert min(found) <= 4


def test_to_make_a_session_takes_five_round_trips(measured):
    opened: list[Any] = []
    cost = measured.least(lambda n: opened.append(measured.store.open(f"made {n}")))
    for session in opened:
        session.pause()
    assert cost <= 5


READS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "hot page": (1, lambda view: view.hot()),
    "hot page at a turn": (2, lambda view: view.hot("t3")),
    "state": (1, lambda view: view.state()),
    "state at a turn": (2, lambda view: view.state("t3")),
    "turn page": (2, lambda view: view.turns(last=100, prompts=True)),
    "diff of the last turn": (5, lambda view: view.diff()),
    "diff of many turns": (5, lambda view: view.diff("t1..t5")),
    "diff of all turns": (6, lambda view: view.diff("t1..head")),
    "brief": (4, lambda view: view.brief()),
    "long brief": (5, lambda view: view.brief(max_tokens=8_000)),
    "counts": (1, lambda view: view.counts),
    "head": (1, lambda view: view.head),
}


@pytest.mark.parametrize("name", ["short", "long"])
def test_the_brief_of_up_to_sixty_turns_takes_two_round_trips(measured, name):
    view = measured.store.read(name)
    assert measured.cost(view.brief) <= 2


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_read_takes_so_many_round_trips(measured, name, what):
    limit, ask = READS[what]
    view = measured.store.read(name)
    assert measured.cost(lambda: ask(view)) <= limit


def test_where_turns_were_rewound_a_page_at_a_turn_takes_one_more(measured):
    with measured.store.open("rewound") as s:
        for number in range(6):
            a_turn(s, number)
        s.rewind("t4")
    view = measured.store.read("rewound")
    assert measured.cost(lambda: view.hot("t3")) <= 3
    rows = measured.store.port.turns(view.id, newest_first=True, limit=3, standing=True)
    assert [row.turn for row in rows] == [4, 3, 2]


def test_a_page_of_sessions_takes_one_round_trip(measured):
    assert measured.cost(lambda: measured.store.port.sessions(SessionQuery(), limit=100)) == 1
