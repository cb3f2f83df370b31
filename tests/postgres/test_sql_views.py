"""`stator sql` answers alike over a file and over a server: the same views, columns, rows and dialect."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stator
from postgres_server import new_tenant, shared_database
from stator.errors import BadQuery
from stator.model.log.query import SessionQuery
from stator.model.records.tables import BOOKKEEPING
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.sql_views import SQL_EXAMPLES, SQL_VIEWS, Shown, ShownCall, ShownCost
from stator.runtime.base.pages import commits
from stator.store.postgres.connection import READ, Connections
from stator.store.postgres.sandbox import child as of_a_server
from stator.store.postgres.sandbox.view_rows import PostgresRows
from stator.store.sandbox.query import opened
from stator.store.sandbox.view_tables import VIEWS, RowSource
from stator.store.sqlite.sandbox import child as of_a_file

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
QUESTIONS = [
    words[2]
    for line in re.findall(r"^\$ (stator sql .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    if len(words := shlex.split(line)) > 2 and words[2].upper().startswith("SELECT")
]
"""Every query of the reference page."""


@stator.tool(effect="read")
def look(path: str) -> str:
    return json.dumps({"message": f"{path} is long", "text": "x" * 30_000})


@stator.tool(effect="write")
def run_tests(command: str) -> None:
    raise RuntimeError("2 of 14 tests failed")


@stator.tool(effect="write")
def shell(command: str) -> str:
    return "[main 1a2b3c4] Log out after a day\n 1 file changed"


class Both(NamedTuple):
    file: str
    """Its path."""
    server: Any
    tenant: str

    def answers(self, query: str) -> list[Any]:
        """What both say, as the process of a query computes it; rows in one order."""
        with of_a_file.opened(self.file) as file:
            said = told(file, query)
        with of_a_server.opened((shared_database(), self.tenant)) as server:
            return [said, told(server, query)]


def told(source: RowSource, query: str) -> tuple[list[str], list[Any]]:
    with opened(source, query) as (names, rows):
        return names, sorted(rows, key=repr)


def tell(store: Any) -> None:
    """Sessions with all that the views show: what is large, erased, rewound, forked, strange or missing too."""
    with store.open("fix-login", agent="coder") as s:
        with s.turn("log people out after a day") as t:
            t.decide("JWT", topic="auth", why="stateless")
            t.decide("cookies", topic="auth", why="simpler")
            t.file("auth.py", "created", after="1")
            t.file("auth.py", "modified", before="1", after="2")
            t.say("Done.", usage={"tokens": 5200, "tokens:cache_read": 4000, "money:usd": 31_000})
        for number in range(3):
            with s.turn(f"run the tests {number}") as t:
                t.try_call(run_tests, command="pytest -q")
                t.call(look, path="a.py")
                t.fact("secret", "forget me" if number == 1 else f"fact {number}")
                t.plan("one", "done" if number else "pending")
        s.rewind("t3")
        with s.turn("p\0 ü \ud800 " + "long " * 20_000) as t:
            t.say("end", usage={"tokens": 7})
    store.erase(store.erasing("fix-login", record=("facts", "secret")))
    store.fork("fix-login", "t2", as_name="other way")
    with store.open("other way") as s, s.turn("differently") as t:
        t.call(look, path="b.py")
    with store.open("unfinished") as s, suppress(KeyboardInterrupt), s.turn("commit it") as t:
        t.call(shell, command="git commit -m 'Log out after a day'")
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    path, tenant = tmp_path_factory.mktemp("sql") / "agent.db", new_tenant()
    with stator.connect(shared_database(), tenant=tenant, project="shop") as server:
        with stator.connect(path, project="shop") as file:
            tell(file)
            ingest(file, server)
        yield Both(str(path), server, tenant)


def ingest(file: Any, server: Any) -> None:
    rows = file.port.sessions(SessionQuery(), limit=100).rows
    for row in sorted(rows, key=lambda row: (row.record.created, row.id)):
        inherited = lent_upto(row.record.lineage)
        server.port.ingest(list(commits(file.port, row.id, after=inherited)))


NOT_KEPT = ", ".join(f"'{name}'" for name in sorted(BOOKKEEPING))
ALIKE = {
    # What begins and ends between two writes of a file's index is not in that index.
    "records": f"collection NOT IN ({NOT_KEPT})",
    # Of a turn that a fork begins in, a file has a row for the fork too.
    "turns": "prompt IS NOT NULL",
    "sessions": "name != 'other way'",
}
"""Rows that both have, where one has more."""


@pytest.mark.parametrize("view", SQL_VIEWS)
def test_a_view_has_the_same_columns_and_rows(both, view):
    file, server = both.answers(f"SELECT * FROM {view} WHERE {ALIKE.get(view, 'true')}")
    assert server == file
    assert file[1]


@pytest.mark.parametrize("view", [view for view in VIEWS.values() if view.place])
def test_rows_of_a_session_between_two_places_are_the_same(both, view):
    where = f"{view.session} = (SELECT id FROM sessions WHERE name = 'fix-login')"
    where += f" AND {ALIKE.get(view.name, 'true')}"
    between = [f"{view.place} {place}" for place in ("= 3", "> 2", "<= 4", "BETWEEN 2 AND 9")]
    file, server = both.answers(
        " UNION ALL ".join(
            f"SELECT {n}, * FROM {view.name} WHERE {where} AND {place}"
            for n, place in enumerate(between)
        )
    )
    assert server == file


@pytest.mark.parametrize("query", QUESTIONS + [query for _, query in SQL_EXAMPLES])
def test_a_question_of_the_documentation_is_answered_alike(both, query):
    where = "tool != 'shell'"  # which does not answer in JSON, as one of the questions asks of all
    file, server = both.answers(
        query.replace("FROM calls GROUP", f"FROM calls WHERE {where} GROUP")
    )
    assert server == file


def test_the_page_has_ten_questions():
    assert len(QUESTIONS) >= 10


def each(both: Both) -> Iterator[Any]:
    """Both stores, one after the other."""
    with stator.connect(both.file) as file:
        yield file
    yield both.server


def test_what_readers_know_of_a_call_is_shown_over_both_stores(both):
    calls = "SELECT session, seq FROM calls WHERE tool = 'look' ORDER BY seq LIMIT 1"
    for store in each(both):
        ((session, seq),) = store.port.sql(calls)[1]
        known = Shown([ShownCall(session, seq, "in doubt", "process died")])
        where = f"WHERE session = '{session}' AND seq = {seq}"
        query = f"SELECT status, recorded, cause FROM calls {where}"
        assert store.port.sql(query, shown=known)[1] == [("in doubt", "ok", "process died")]
        turn = f"(SELECT turn FROM calls {where})"
        failed = f"SELECT failed FROM turns WHERE session = '{session}' AND turn = {turn}"
        ((before,),), ((after,),) = (
            store.port.sql(failed, shown=one)[1] for one in (Shown(), known)
        )
        assert after == before + 1


def test_what_prices_make_of_usage_is_shown_over_both_stores(both):
    for store in each(both):
        ((session, first, last),) = store.port.sql(
            "SELECT session, first, last FROM turns"
            " WHERE session IN (SELECT id FROM sessions WHERE cost_usd IS NULL) AND last > first"
            " ORDER BY session, turn LIMIT 1"
        )[1]
        known = Shown(
            costs=[ShownCost(session, 7_000_000, [(first, 1_000_000), (last, 2_000_000)])]
        )
        whole = f"SELECT cost_usd, cost_computed FROM sessions WHERE id = '{session}'"
        assert store.port.sql(whole, shown=known)[1] == [(7.0, 1)]
        turn = f"SELECT cost_usd FROM turns WHERE session = '{session}' AND first = {first}"
        assert store.port.sql(turn, shown=known)[1] == [(3.0,)]
        commit = f"SELECT cost_usd FROM commits WHERE session = '{session}' AND seq = {last}"
        assert store.port.sql(commit, shown=known)[1] == [(2.0,)]
        assert store.port.sql(whole)[1] == [(None, 0)]


def test_a_table_of_the_server_cannot_be_named(both):
    for query in (
        "SELECT * FROM stator.session",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT secret FROM tenant",
        "SELECT set_config('stator.t', '1', true)",
        "SELECT pg_sleep(9)",
    ):
        with pytest.raises(BadQuery):
            both.server.port.sql(query)


def questions(sessions: int, view: str) -> int:
    """How often the server is asked for all columns of a view of so many sessions."""
    with stator.connect(shared_database(), tenant=new_tenant(), project="shop") as store:
        for number in range(sessions):
            with store.open(f"s{number}") as s, s.turn("go") as t:
                t.call(look, path="a.py")
                t.say("done", usage={"tokens": 10, "money:usd": 7})
        connections: Connections = store.port._connections  # type: ignore[attr-defined]
        with connections.transaction(READ) as db:
            before = connections.trips
            rows = list(PostgresRows(db).rows(VIEWS[view], VIEWS[view].names, None))
            assert len(rows) >= sessions
            return connections.trips - before


@pytest.mark.parametrize("view", ["turns", "sessions", "calls"])
def test_a_view_of_several_sessions_takes_as_many_questions_as_that_of_one(view):
    assert questions(6, view) == questions(1, view)
