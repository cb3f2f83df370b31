"""Hostile queries: `store.sql` reaches neither another tenant nor a table, also for a superuser, above all policies."""

from __future__ import annotations

import functools
from typing import Any

import psycopg
import pytest

from postgres_server import new_tenant, server
from stator.errors import BadQuery
from stator.store.contract.drive import begin, large_text
from stator.store.postgres import PostgresStore, prepare
from stator.store.postgres.query import TABLES, VIEWS

SECRET = "umbrella"

REFUSED = [
    # settings and functions
    "SELECT set_config('stator.t', '1', true)",
    "SELECT SET_CONFIG ('stator.t', '1', true)",
    "SELECT \"set_config\"('stator.t', '1', true)",
    "SELECT U&\"set\\005fconfig\"('stator.t', '1', true)",
    "SELECT u&\"!0073et_config\" UESCAPE '!' ('stator.t', '1', true)",
    "SELECT pg_catalog.set_config('stator.t', '1', true)",
    "SELECT 1 -- \r, set_config('stator.t', '1', true)",
    "SELECT 1.set_config('stator.t', '1', true)",
    "SELECT set_config\n('stator.t', '1', true)",
    "SELECT set_config--x\n('stator.t', '1', true)",
    "SELECT current_setting('stator.t')",
    "SELECT pg_sleep(100)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_get(1)",
    "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t(a text)",
    "SELECT query_to_xml('SELECT * FROM stator.log', true, true, '')",
    "SELECT table_to_xml('stator.log', true, true, '')",
    "SELECT database_to_xml(true, true, '')",
    "SELECT cursor_to_xml('x', 1, true, true, '')",
    "SELECT ts_stat('SELECT 1')",
    "SELECT nextval('stator.session_number')",
    "SELECT * FROM generate_series(1, 10)",
    "SELECT * FROM ROWS FROM (unnest(ARRAY[1]))",
    "SELECT json_populate_record(NULL, '{}')",
    "SELECT has_table_privilege('stator.log', 'SELECT')",
    "SELECT version()",
    "SELECT inet_server_addr()",
    # who and where
    "SELECT current_user",
    "SELECT session_user",
    "SELECT current_catalog",
    'SELECT "current_user"()',
    # the catalogue
    "SELECT * FROM pg_stat_activity",
    "SELECT * FROM pg_catalog.pg_roles",
    'SELECT * FROM "pg_authid"',
    "SELECT * FROM information_schema.tables",
    "SELECT 'stator.tenant'::regclass",
    "SELECT CAST(10 AS regrole)",
    "SELECT 1 OPERATOR(pg_catalog.+) 1",
    # names with a schema
    "SELECT * FROM stator.log",
    "SELECT * FROM STATOR . log",
    'SELECT * FROM "stator"."log"',
    "SELECT * FROM public.other",
    'SELECT * FROM "public" -- x\n . other',
    "SELECT * FROM postgres.public.other",
    "SELECT NULL::stator.tenant",
    # writing, and more than one statement
    "SELECT 1; DELETE FROM stator.log",
    "SELECT 1;SELECT 2",
    "DELETE FROM log",
    "UPDATE session SET t = 1",
    "COPY log TO PROGRAM 'true'",
    "SET ROLE postgres",
    "RESET ALL",
    "EXPLAIN SELECT 1",
    "TABLE log",
    "WITH gone AS (DELETE FROM sessions RETURNING 1) SELECT 1",
    "WITH gone AS (UPDATE session SET t = 1 RETURNING 1) SELECT 1",
    "SELECT * INTO copied FROM commits",
    "SELECT * FROM commits FOR UPDATE",
    "DO 'x'",
    "LISTEN x",
    # how it is written
    "SELECT /* x */ 1",
    "SELECT $$x$$",
    "SELECT E'\\x41'",
    "SELECT e'\\'' || 'x'",
    "SELECT '\ud800'",
    "SELECT 1\x00",
    "SELECT \\gexec",
    "",
    "-- nothing",
    "(",
    "WITH log AS (SELECT * FROM log) SELECT * FROM log",
    "SELECT body FROM log",
    "SELECT t.secret FROM tenant t",
    "SELECT cast(name AS integer) FROM sessions",
]

EMPTY = [
    *(f"SELECT * FROM {name}" for name in TABLES),
    *(f'SELECT * FROM "{name}" AS x' for name in TABLES),
    "SELECT * FROM ONLY log",
    "SELECT * FROM log *",
    "SELECT x FROM (TABLE tenant) x",
    "SELECT * FROM (WITH log AS (SELECT * FROM log) SELECT * FROM log) q",
    "WITH a AS (SELECT * FROM tenant) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT * FROM tenant) SELECT * FROM a",
    "-- first\nWITH a AS (SELECT * FROM log) SELECT * FROM a",
    "(WITH a AS (SELECT * FROM log) SELECT * FROM a)",
    "SELECT * FROM commits c, LATERAL (SELECT * FROM log) l",
    "SELECT * FROM commits JOIN blob ON true",
    "SELECT row_of FROM session AS row_of",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM process)",
    "SELECT * FROM sessions WHERE name = (SELECT 'x' FROM session LIMIT 1)",
]


class Two:
    """Two tenants, asked as a superuser: what is hidden is hidden by the query's own bounds."""

    def __init__(self) -> None:
        self.url = server().database()
        prepare(self.url)
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("CREATE TABLE public.other AS SELECT 'umbrella' AS word")
        self.ours, self.theirs = (PostgresStore(self.url, part=new_tenant()) for _ in range(2))
        for store, word in ((self.ours, "parasol"), (self.theirs, SECRET)):
            story = begin(store, f"{word}-story", aliases=[("claude", word)]).drive()
            story.turn(f"buy an {word}", key=word)
            story.outcome(story.call(f"pay_{word}"), word)
            story.fact(word, large_text())


@functools.cache
def two() -> Two:
    return Two()


def answer(query: str) -> Any:
    try:
        return two().ours.sql(query)
    except BadQuery as error:
        return error


@pytest.mark.parametrize("query", REFUSED)
def test_a_hostile_query_is_refused_and_learns_nothing(query: str) -> None:
    found = answer(query)
    assert isinstance(found, BadQuery), found
    assert SECRET not in found.what
    assert two().theirs._tenant.secret.hex() not in found.what


@pytest.mark.parametrize("query", EMPTY)
def test_the_name_of_a_table_finds_nothing(query: str) -> None:
    """Neither rows of it nor whether it has any."""
    found = answer(query)
    if not isinstance(found, BadQuery):
        assert found[1] == [], query


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_a_view_shows_one_tenant_also_to_a_superuser(view: str) -> None:
    """Also where the query has an error or a filter that looks at every row."""
    _, rows = two().ours.sql(f"SELECT * FROM {view}")
    assert rows
    assert SECRET not in repr(rows)
    assert two().ours.sql(f"SELECT count(*) FROM {view}")[1] == [(len(rows),)]
    found = answer(f"SELECT 1 FROM {view} x WHERE CAST(replace(x::text, 'a', 'b') AS integer) = 1")
    assert isinstance(found, BadQuery)
    assert SECRET not in found.what


def test_every_relation_of_the_schema_is_a_view_or_hidden() -> None:
    """One that is added later must be named too."""
    prepare(two().url, roles=True)
    with psycopg.connect(two().url) as db:
        rows = db.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'stator' AND relkind IN ('r', 'v', 'S', 'm', 'p', 'f')"
        ).fetchall()
    assert {name for (name,) in rows} == {*VIEWS, *TABLES}


def test_strings_are_read_as_the_check_reads_them() -> None:
    """Also where the server was set up to read backslashes in strings."""
    url = f"{two().url}&options=-c%20standard_conforming_strings%3Doff"
    with PostgresStore(url, part=new_tenant()) as store, pytest.raises(BadQuery):
        store.sql("SELECT '\\', set_config('stator.t', '1', true) --'")
    with PostgresStore(url, part=new_tenant()) as store:
        assert store.sql("SELECT 'a\\' AS x")[1] == [("a\\",)]


def test_queries_that_only_read_are_answered() -> None:
    """With queries of their own, comments and quoted names."""
    sql = two().ours.sql
    assert sql("-- mine\nWITH a AS (SELECT id FROM sessions) SELECT count(*) FROM a;")[1] == [(1,)]
    assert sql("SELECT x.\"name\" FROM sessions x WHERE x.name LIKE '%story'")[1] == [
        ("parasol-story",)
    ]
    assert sql("SELECT session FROM commits LIMIT 1")[1]
    assert sql("VALUES (1.5e3)")[1]
