"""The connections of a store: what happens to them when a server ends them, and when many threads want one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from postgres_server import new_tenant, shared_database
from stator.errors import StoreUnreachable
from stator.store.postgres import PostgresStore, connection
from stator.store.postgres.connection import (
    IDLE_MAX,
    READ,
    USED_MAX,
    Connections,
    Statement,
    Transaction,
)
from stator.store.postgres.wire import Link

QUESTION = Statement("schema_version")
PATIENCE_S = 20


class Watched(Connections):
    """Keeps count of what is open."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.made: list[Link] = []
        self.most = 0

    def open(self) -> Link:
        link = super().open()
        self.made.append(link)
        self.most = max(self.most, len(self.still_open()))
        return link

    def still_open(self) -> list[Link]:
        return [link for link in self.made if not link.closed]


@pytest.fixture
def connections() -> Iterator[Watched]:
    with PostgresStore(shared_database(), part=new_tenant()):
        made = Watched(shared_database())
    yield made
    made.close()


def make_idle(connections: Connections, number: int) -> None:
    """Leave so many connections idle."""
    with ExitStack() as held:
        for _ in range(number):
            held.enter_context(connections.transaction(READ)).ask(QUESTION, commit=True)


def end(links: list[Link]) -> None:
    """The server ends these connections, and has ended them."""
    pids = [link.info.backend_pid for link in links]
    with psycopg.connect(shared_database(), autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(p, 20000) FROM unnest(%s::int[]) p", (pids,))


def test_after_the_server_ended_every_idle_connection_the_next_question_is_answered(connections):
    make_idle(connections, IDLE_MAX)
    end(connections.still_open())
    assert connections.read(QUESTION)


def test_when_one_connection_breaks_those_that_are_idle_are_not_tried_one_by_one(connections):
    make_idle(connections, IDLE_MAX)
    with pytest.raises(StoreUnreachable), connections.transaction(READ) as db:
        ask_on_an_ended_connection(db)
    assert connections.still_open() == []


def ask_on_an_ended_connection(db: Transaction) -> None:
    end([db._link])
    db.ask(QUESTION, commit=True)


def ask_at_once(connections: Connections, threads: int) -> int:
    """How many of so many threads get an answer."""
    ready, answers = threading.Barrier(threads), []

    def work() -> None:
        ready.wait(PATIENCE_S)
        answers.append(connections.read(QUESTION))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    return len(answers)


def test_sixty_four_threads_share_a_few_connections(connections):
    assert ask_at_once(connections, 64) == 64
    assert connections.most <= USED_MAX


def test_what_is_kept_after_many_threads_is_few(connections):
    ask_at_once(connections, 64)
    assert len(connections.still_open()) <= IDLE_MAX


def test_who_waits_too_long_for_a_connection_opens_one_more(connections, monkeypatch):
    """A program may hold connections while it needs another: it is not to wait for itself."""
    monkeypatch.setattr(connection, "FREE_S", 0.01)
    with ExitStack() as held:
        for _ in range(USED_MAX):
            held.enter_context(connections.transaction(READ))
        assert connections.read(QUESTION)


def test_a_connection_that_cannot_be_opened_is_not_counted_as_used(monkeypatch):
    monkeypatch.setattr(connection, "FREE_S", PATIENCE_S)
    connections = Connections("postgresql://postgres@/postgres?host=/nowhere")
    for _ in range(USED_MAX + 1):  # the last would wait
        with pytest.raises(StoreUnreachable):
            connections.read(QUESTION)
    assert connections._used == 0


def test_a_connection_is_given_back_after_an_error(connections):
    with pytest.raises(ZeroDivisionError), connections.transaction(READ) as db:
        divide(db)
    assert connections._used == 0
    assert len(connections.still_open()) == 1


def divide(db: Transaction) -> None:
    db.ask(QUESTION)
    raise ZeroDivisionError


def test_a_child_process_closes_while_a_thread_of_its_parent_held_the_connections(connections):
    """Locks are copied at a fork as they are, and who would let go is not in the child."""
    connections._pid += 1
    with connections._free:
        closing = threading.Thread(target=connections.close, daemon=True)
        closing.start()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    connections._pid -= 1
