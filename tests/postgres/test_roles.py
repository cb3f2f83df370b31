"""Roles and row-level security: an application's role sees its tenant, also where a statement forgot to say so."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import stator
from postgres_server import APPLICATION, database_of_roles, new_tenant, server
from stator.errors import BadQuery, NotAStore
from stator.store.contract.drive import Story, begin, large_text
from stator.store.postgres import PostgresStore, prepare

TABLES = "tenant session alias log blob blob_use rec turn_key bookmark process".split()


@functools.cache
def database() -> tuple[str, str]:
    """The URLs of a prepared database: as its owner, and as the role of an application."""
    url = server().database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP ROLE IF EXISTS {APPLICATION}")
        db.execute(f"CREATE ROLE {APPLICATION} LOGIN NOSUPERUSER NOBYPASSRLS")
    prepare(url, application=APPLICATION)
    return url, url.replace("//postgres@", f"//{APPLICATION}@")


@pytest.fixture
def two() -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two tenants with sessions of their own, of the role of an application."""
    stores = [PostgresStore(database()[1], part=new_tenant()) for _ in range(2)]
    for n, store in enumerate(stores):
        story = begin(store, f"story-{n}", aliases=[("claude", "1")]).drive()
        story.turn("go", key="k1")
        story.entry(large_text())
        store.append(story.session, [], bookmark=stator_bookmark())
    yield stores[0], stores[1]
    for store in stores:
        store.close()


def stator_bookmark() -> Any:
    from stator.model.exchange.bookmark import Bookmark

    return Bookmark("log", 1, {"offset": 1})


@pytest.mark.parametrize("table", TABLES)
def test_a_role_sees_the_rows_of_its_tenant_alone(two: Any, table: str) -> None:
    """Without a condition in the statement, and with the setting of the tenant."""
    mine, theirs = (store._tenant.number for store in two)
    settings = [store._connections.settings for store in two]
    with psycopg.connect(database()[1]) as db:
        for number, setting in zip((mine, theirs), settings, strict=True):
            db.execute("SELECT set_config('stator.t', %(t)s, true)", setting)
            db.execute("SELECT set_config('stator.tenant', %(tenant)s, true)", setting)
            rows = db.execute(f"SELECT DISTINCT t FROM stator.{table}").fetchall()
            assert rows == [(number,)]
        db.rollback()
        assert db.execute(f"SELECT count(*) FROM stator.{table}").fetchone() == (0,)


@pytest.mark.parametrize("table", TABLES[1:])
def test_a_role_cannot_write_rows_of_another_tenant(two: Any, table: str) -> None:
    """Neither change its own into another's nor add one."""
    mine, theirs = two
    with psycopg.connect(database()[1]) as db:
        db.execute("SELECT set_config('stator.t', %s, true)", (str(mine._tenant.number),))
        changed = f"UPDATE stator.{table} SET t = t WHERE t = %s"
        assert db.execute(changed, (theirs._tenant.number,)).rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute(f"UPDATE stator.{table} SET t = %s", (theirs._tenant.number,))


def test_the_owner_is_under_row_level_security_too() -> None:
    """It is forced: only a role above it sees more."""
    with psycopg.connect(database()[0]) as db:
        rows = db.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'stator' AND relkind = 'r' AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchall()
    assert rows == [("schema",)]


def test_views_are_read_with_the_rights_of_who_asks() -> None:
    """Not with those of their owner, who may be above row-level security."""
    with psycopg.connect(database_of_roles()["owner"]) as db:
        rows = db.execute(
            "SELECT relname, reloptions FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'stator' AND relkind = 'v'"
        ).fetchall()
    assert rows
    assert all("security_invoker=true" in options for _, options in rows)
    assert all("security_barrier=true" in options for _, options in rows)


def test_a_role_that_may_not_make_tables_says_so() -> None:
    """The error names the page about roles."""
    url = server().database().replace("//postgres@", f"//{APPLICATION}@")
    database()
    with pytest.raises(NotAStore) as caught:
        PostgresStore(url, part=new_tenant())
    assert "roles" in caught.value.hint


def test_the_same_session_may_be_in_two_tenants(two: Any) -> None:
    """Ids are unique in a tenant, and tell nothing about another."""
    one, other = two
    story = begin(one, "shared")
    story.fact("x")
    assert other.ingest(story.log) == 2
    assert other.commits(story.session) == one.commits(story.session)


def test_blobs_have_another_digest_in_each_tenant(two: Any) -> None:
    """That two tenants hold the same bytes does not show."""
    with psycopg.connect(database()[0]) as db:
        numbers = [store._tenant.number for store in two]
        rows = db.execute(
            "SELECT t, digest FROM stator.blob WHERE t = ANY(%s)", (numbers,)
        ).fetchall()
    assert len(rows) == len({digest for _, digest in rows}) == 2


@pytest.fixture
def story(two: Any) -> Story:
    return begin(two[0], "asked")


def test_queries_are_bounded(story: Story) -> None:
    """In rows, and in time."""
    slow = "SELECT count(*) FROM commits a, commits b, commits c, commits d, commits e, commits f, commits g, commits h"
    for n in range(20):
        story.fact(f"x{n}")
    assert len(story.store.sql("SELECT seq FROM commits", row_limit=5)[1]) == 5
    with pytest.raises(BadQuery, match="too long"):
        story.store.sql(slow, seconds=0.2)


def test_a_connection_shows_no_password() -> None:
    """Neither in what a store says of itself."""
    from stator.store.postgres.store import without_password

    assert (
        without_password("postgresql://me:secret@host/db?sslmode=require")
        == "postgresql://me@host/db"
    )


def test_connect_uses_the_role_of_an_application() -> None:
    """A whole turn, without rights beyond its tables."""
    with stator.connect(database()[1], tenant=new_tenant(), project="p") as store:
        with store.open("main") as s, s.turn("go") as t:
            t.fact("x", 1)
        assert store.verify().ok
