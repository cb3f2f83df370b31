"""Hostile queries: `store.sql` reaches neither another tenant nor a table, also for a superuser, above all policies.

A query never gets to the server. What does are statements of ours, which name the tenant.
"""

from __future__ import annotations

import functools
from typing import Any

import psycopg
import pytest

from postgres_server import new_tenant, server
from stator.errors import BadQuery
from stator.model.views.sql_views import SQL_VIEWS
from stator.store.contract.drive import begin, large_text
from stator.store.postgres import PostgresStore, prepare
from stator.store.postgres.connection import READ, SQL, Connections, Transaction
from stator.store.postgres.sandbox.view_rows import PostgresRows
from stator.store.sandbox.query import opened

SECRET = "umbrella"

HOSTILE = [
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
    "SELECT \\gexec",
    "",
    "-- nothing",
    "(",
    "WITH log AS (SELECT * FROM log) SELECT * FROM log",
    "SELECT body FROM log",
    "SELECT t.secret FROM tenant t",
    "SELECT cast(name AS integer) FROM sessions",
    # names of tables
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
    *(
        f"SELECT * FROM {name}"
        for name in ("session", "tenant", "log", "blob", "rec", "process", "counts")
    ),
    # what SQLite has
    "SELECT * FROM sqlite_master",
    "PRAGMA database_list",
    "ATTACH 'other.db' AS other",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
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
            story.file("a.py")
            story.decision(word)


@functools.cache
def two() -> Two:
    return Two()


class Watched(Transaction):
    """A transaction that knows which statements were sent in it."""

    def __init__(self, connections: Connections, db: Transaction) -> None:
        super().__init__(connections, db._link, READ)
        self.sent: set[str] = set()

    def many(self, name: str, **values: Any) -> Any:
        self.sent.add(name)
        return super().many(name, **values)


def answer(query: str) -> Any:
    """The rows of a query, as its process computes them; or why it was refused."""
    connections = two().ours._connections
    with connections.transaction(READ) as db:
        watched = Watched(connections, db)
        try:
            with opened(PostgresRows(watched), query) as (_, rows):
                return list(rows)
        except BadQuery as error:
            return error
        finally:
            assert all(name.startswith("sql_") and name in SQL for name in watched.sent)


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_learns_nothing(query: str) -> None:
    found = answer(query)
    said = found.what if isinstance(found, BadQuery) else repr(found)
    assert SECRET not in said
    assert two().theirs._tenant.secret.hex() not in said
    assert "root:" not in said


@pytest.mark.parametrize("view", SQL_VIEWS)
def test_a_view_shows_one_tenant_also_to_a_superuser(view: str) -> None:
    rows = answer(f"SELECT * FROM {view}")
    assert SECRET not in repr(rows)
    assert answer(f"SELECT count(*) FROM {view}") == [(len(rows),)]


def test_most_views_have_something_to_hide() -> None:
    shown = {view for view in SQL_VIEWS if answer(f"SELECT * FROM {view}")}
    assert shown >= set(SQL_VIEWS) - {"revisions", "spend"}


def test_a_query_is_answered_by_a_process_of_its_own() -> None:
    sql = two().ours.sql
    assert sql("-- mine\nWITH a AS (SELECT id FROM sessions) SELECT count(*) FROM a;")[1] == [(1,)]
    for query in (
        "SELECT * FROM stator.log",
        "SELECT '\ud800'",
        "SELECT 1\0",
        "DELETE FROM sessions",
    ):
        with pytest.raises(BadQuery):
            sql(query)
