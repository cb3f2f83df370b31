"""Values on the wire, and statements that are prepared where a connection leads to one server process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

import stator
from postgres_server import PostgresServer, new_tenant, server, shared_database
from stator.store.postgres import PostgresStore
from stator.store.postgres.connection import READ, Connections, SerializeAgain, Statement
from stator.store.postgres.wire import Link, exchange


@pytest.fixture
def link() -> Iterator[Link]:
    with Link.connect(server().url(), autocommit=True) as made:
        yield made


VALUES: list[tuple[str, Any]] = [
    ("bigint", 0),
    ("bigint", -(1 << 63)),
    ("bigint", (1 << 63) - 1),
    ("boolean", True),
    ("boolean", False),
    ("text", ""),
    ("text", "größer 🙂 'quoted' \\ %s"),
    ("bytea", b""),
    ("bytea", bytes(range(256))),
    ("text", None),
    ("bigint[]", []),
    ("bigint[]", [1, None, -3]),
    ("bigint[]", None),
    ("integer[]", [1, 2]),
    ("boolean[]", [True, False, None]),
    ("text[]", ["", "a,b", '"', "{}", "NULL", None]),
    ("bytea[]", [b"", b"\0\xff", None]),
    ("bytea[]", [None, None]),
]


@pytest.mark.parametrize(("cast", "value"), VALUES)
def test_a_value_comes_back_as_it_was_sent(link, cast, value):
    assert exchange(link, [(f"SELECT %(a)s::{cast}", {"a": value})]) == [[(value,)]]


def test_a_list_whose_type_no_cast_names_has_that_of_its_elements(link):
    assert exchange(link, [("SELECT %(a)s", {"a": [1, 2]})]) == [[([1, 2],)]]
    (((text,),),) = exchange(link, [("SELECT 100 || '%%'", {})])
    assert text == "100%"


def test_much_is_sent_while_much_is_read(link):
    """Neither side waits for the other to read first."""
    large = b"x" * 3_000_000
    asked = [("SELECT %(a)s::bytea", {"a": large})] * 8
    assert exchange(link, asked) == [[(large,)]] * 8


def test_after_an_error_the_connection_answers_again(link):
    with pytest.raises(Exception, match="division by zero"):
        exchange(link, [("SELECT 1", None), ("SELECT 1 / 0", None), ("SELECT 2", None)])
    assert exchange(link, [("SELECT 3", None)]) == [[(3,)]]


@pytest.fixture
def connections() -> Iterator[Connections]:
    with PostgresStore(shared_database(), part=new_tenant()):
        made = Connections(shared_database())
    yield made
    made.close()


def settings(connections: Connections, link: Link) -> Any:
    return connections.send(link, [(Statement("settings").text, connections.settings)])[0][0][2]


def test_a_connection_that_leads_to_one_process_prepares_what_an_append_needs(connections):
    link = connections.open()
    link.answered_by(settings(connections, link))
    assert link.prepares
    for _ in range(2):
        settings(connections, link)
    ((names,),) = exchange(link, [("SELECT count(*) FROM pg_prepared_statements", None)])[0]
    assert names == len(link.prepared) == 1
    link.close()


def test_a_connection_that_another_process_answers_prepares_nothing(connections):
    link = connections.open()
    link.answered_by(settings(connections, link) + 1)
    settings(connections, link)
    assert not link.prepares
    assert not link.prepared
    link.close()


def test_where_what_was_prepared_is_gone_the_transaction_is_begun_again_without(connections):
    with connections.transaction(READ) as db:
        db.ask(Statement("schema_version"), commit=True)
        db.ask(Statement("schema_version"), commit=True)
    with connections.transaction(READ) as db:
        connections.send(db._link, [("DEALLOCATE ALL", None)])
        link = db._link
        with pytest.raises(SerializeAgain):
            db.ask(Statement("schema_version"), commit=True)
    assert not link.prepares
    assert connections.read(Statement("schema_version"))


def test_options_in_the_url_reach_the_server():
    url = shared_database() + "&options=-c%20commit_delay%3D7%20-c%20geqo%3Doff"
    with stator.connect(url, tenant=new_tenant()) as store:
        assert store.port.sql("SELECT count(*) FROM sessions")[1] == [(0,)]


@pytest.fixture(scope="module")
def standby() -> Iterator[PostgresServer]:
    """A server that takes no writes, as one that follows another."""
    made = PostgresServer(default_transaction_read_only="on")
    yield made
    made.remove()


def test_of_several_servers_the_one_that_takes_writes_is_found(standby):
    hosts = quote(f"{standby.data},{server().data}", safe="")
    url = f"postgresql://postgres@/postgres?host={hosts}&tenant={new_tenant()}"
    with stator.connect(url) as store, store.open("s") as s, s.turn("go") as t:
        t.fact("x", 1)


def test_who_only_reads_takes_the_first_server_that_answers(standby):
    hosts = quote(f"{standby.data},{server().data}", safe="")
    connections = Connections(f"postgresql://postgres@/postgres?host={hosts}", writes=False)
    link = connections.open()
    assert link.info.host == str(standby.data)
    link.close()
