"""`stator sql` reads the documented views and nothing else, in bounded time and memory, whatever the query is."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from hashlib import sha256

import apsw
import pytest

import stator
from reliability.sql_grammar import TABLES, Grammar
from stator.errors import BadQuery, StatorError, StoreCorrupt
from stator.store.sandbox import query, query_answer
from stator.store.sandbox.view_tables import VIEWS
from stator.store.sqlite import connection
from stator.store.sqlite.sandbox import process, views

SEED = 20_260
STATEMENTS = 4000
"""Random statements in this suite. `STATOR_SQL_FUZZ=50000` runs a campaign."""
MARK = "MARKER"
NUMBER = 7_777_700_000_000_001
MEMORY_MAX_KIB = 400 * 1024
"""What the process of a query may have resident: SQLite's heap, one copy as Python values, Python."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A closed store, with a marker in everything that no view shows."""
    path = str(tmp_path_factory.mktemp("sql") / "store.db")
    with stator.connect(path, project="p") as made:
        for name in ("one", "two"):
            with made.open(name) as s:
                for number in range(3):
                    with s.turn(f"turn {number}") as t:
                        t.fact("n", "v")
                        t.try_call(lambda: 1 / 0)
                        t.call(len, "x" * 50_000)
                        t.decide(f"d{number}", topic=f"t{number}", why="because")
                        t.file(f"f{number}.py", "modified", before="1", after="2")
    db = apsw.Connection(path)
    for statement, values in {
        "INSERT INTO meta VALUES (?, ?)": (MARK + "-key", MARK + "-value"),
        "INSERT INTO blob VALUES (?, ?, 1, ?)": (NUMBER, b"MARKER-digest", b"MARKER-data"),
        "INSERT INTO blob_use VALUES (?, ?)": (NUMBER, NUMBER),
        "INSERT INTO alias VALUES (?, ?, ?, 1)": (MARK, MARK, MARK),
        "INSERT INTO commit_ix VALUES (?, ?)": (NUMBER, NUMBER),
        "INSERT INTO origin_ix VALUES (1, ?, ?, ?, 1, 1)": (MARK, MARK, MARK),
        "INSERT INTO flush_ix VALUES (?, ?)": (NUMBER, NUMBER),
        "INSERT INTO snap VALUES (?, 1, 1, ?)": (NUMBER, b"MARKER-live"),
        "UPDATE session SET tenant = ?, holder = ?": (MARK, b"MARKER-holder"),
        "UPDATE log SET salts = ?": (b"MARKER-salt",),
        "UPDATE rec SET key = ?, was = ?": (NUMBER, NUMBER),
    }.items():
        db.execute(statement, values)
    db.close()
    return path


def rows(path, text, *, row_limit=1000, seconds=30.0):
    return process.run(path, text, row_limit=row_limit, seconds=seconds)[1]


def refusal(path, text, *, seconds=30.0):
    with pytest.raises(BadQuery) as caught:
        rows(path, text, seconds=seconds)
    return str(caught.value)


# ── what a query may name ────────────────────────────────────────────────────────────────────────

FORGED = [
    "SELECT * FROM meta",
    "SELECT * FROM main.session",
    "SELECT * FROM (SELECT * FROM session)",
    "SELECT * FROM sessions JOIN meta",
    "SELECT (SELECT value FROM meta)",
    "SELECT count(*) FROM meta",
    "SELECT count(*) FROM log",
    "SELECT 1 FROM meta",
    "SELECT exists(SELECT 1 FROM blob)",
    "SELECT commit_field(body, 'kind') FROM log",
    "WITH x AS (SELECT * FROM meta) SELECT * FROM x",
    "WITH x AS (SELECT * FROM log) SELECT * FROM x",
    "WITH sessions AS (SELECT * FROM session) SELECT * FROM sessions",
    "WITH sessions AS (SELECT key, value FROM meta) SELECT * FROM sessions",
    "WITH sessions AS (SELECT count(*) FROM meta) SELECT * FROM sessions",
    "WITH calls AS (SELECT * FROM log) SELECT * FROM calls",
    'WITH "Sessions" AS MATERIALIZED (SELECT value FROM [meta]) SELECT * FROM `sessions`',
    "SELECT * FROM fts5vocab",
    "SELECT * FROM dbstat",
    "SELECT * FROM bytecode('select 1')",
    "SELECT * FROM generate_series(1, 3)",
    "INSERT INTO log VALUES (1)",
    "DROP TABLE log",
    "SELECT 1; DROP TABLE log",
]


@pytest.mark.parametrize("text", FORGED)
def test_a_table_of_the_store_does_not_exist_for_a_query(store, text):
    assert "no such table" in refusal(store, text)


NOT_ALLOWED = [
    "ATTACH 'x.db' AS y",
    "PRAGMA table_list",
    "SELECT * FROM pragma_table_info('log')",
    "SELECT count(*) FROM pragma_table_list",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM temp.sqlite_master",
    "CREATE TEMP TABLE x(a)",
    "VACUUM INTO 'adv_vac'",
    "DELETE FROM sessions",
    "UPDATE commits SET seq = 1",
]


@pytest.mark.parametrize("text", NOT_ALLOWED)
def test_a_statement_that_does_not_read_a_view_is_refused(store, text, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    why = refusal(store, text)
    assert "not allowed" in why or "may not be modified" in why
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "call",
    ["load_extension('x')", "writefile('w', 'x')", "readfile('/etc/passwd')", "regexp_like('a', 'b')",
     "sqlite_source_id()", "record_id(x'00')", "fts3_tokenizer('simple')", "sqlite_log(1, 'x')"],
)  # fmt: skip
def test_a_function_that_is_not_listed_is_refused(store, call):
    assert "function" in refusal(store, f"SELECT {call}")


def test_every_listed_function_is_one_that_sqlite_has():
    known = {
        name for (name,) in apsw.Connection("").execute("SELECT name FROM pragma_function_list")
    }
    assert query.FUNCTIONS - known == {"json_each", "json_tree"}


ANSWERED = {
    "WITH meta AS (SELECT 1 a) SELECT * FROM meta": [(1,)],
    "WITH meta AS (SELECT 1 a) SELECT count(*) FROM meta": [(1,)],
    "WITH sessions(name) AS (VALUES ('mine')) SELECT * FROM sessions": [("mine",)],
    "SELECT name FROM main.sessions ORDER BY 1": [("one",), ("two",)],
    'SELECT "NAME" FROM [Sessions] ORDER BY 1': [("one",), ("two",)],
    "SELECT value FROM json_each('[1, 2]')": [(1,), (2,)],
    "SELECT length(group_concat(hex(zeroblob(8000000))))": [(16_000_000,)],
    f"SELECT glob('{'*a' * 500}', hex(zeroblob(50000)))": [(0,)],
    "SELECT sqlite_version() LIKE '3.%'": [(1,)],
    "SELECT 'a' || char(27) || char(7)": [("a\x1b\x07",)],
    "SELECT x'00ff', 1.5, NULL, -9223372036854775808": [(b"\x00\xff", 1.5, None, -(2**63))],
    "SELECT sum(1) OVER (ORDER BY name) FROM sessions": [(1,), (2,)],
    "": [],
    "-- nothing": [],
}


@pytest.mark.parametrize("text", ANSWERED)
def test_a_query_over_views_and_values_is_answered(store, text):
    assert rows(store, text) == ANSWERED[text]


def test_a_plan_names_no_table_of_the_store(store):
    for explain in ("EXPLAIN", "EXPLAIN QUERY PLAN"):
        shown = repr(
            rows(store, f"{explain} SELECT * FROM calls JOIN commits USING (session, seq)")
        )
        assert not any(name in shown for name in ("call_ix", "salts", "body", "turn_ix"))


def test_only_one_statement_runs(store):
    assert "expected one statement" in refusal(store, "SELECT 1; SELECT 2")


# ── the views show what the store holds ──────────────────────────────────────────────────────────


@pytest.fixture
def plain(store):
    """The views asked directly, on the connection that reads the store."""
    db = connection.open_connection(store, "read")
    views.prepare(db)
    yield db
    db.close()


CONDITIONS = [
    "1", "session = (SELECT min(session) FROM {view})", "session > 's_'", "session = 5", "session IS NULL",
    "session IN (SELECT session FROM {view}) AND {place} IN (2, 3, 5)", "{place} = '3'", "{place} = 3.0",
    "session = (SELECT max(session) FROM {view}) AND {place} > 2 AND {place} <= 9223372036854775807",
    "session = (SELECT max(session) FROM {view}) AND {place} > 9223372036854775807",
    "session = (SELECT max(session) FROM {view}) AND {place} >= -9223372036854775808",
    "session = (SELECT max(session) FROM {view}) AND {place} = '3'",
    "session = (SELECT max(session) FROM {view}) AND {place} < 4.5",
    "session = (SELECT upper(max(session)) FROM {view})",
    "session = (SELECT upper(max(session)) FROM {view}) COLLATE NOCASE",
    "session = (SELECT max(session) FROM {view}) AND session = (SELECT min(session) FROM {view})",
    "session = (SELECT max(session) FROM {view}) AND {place} = 2 "
    "OR session = (SELECT min(session) FROM {view}) AND {place} = 3",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", [view.name for view in VIEWS.values() if view.place])
def test_a_query_gives_what_its_view_holds(store, plain, name, condition):
    view = VIEWS[name]
    columns = ", ".join(view.names)
    # In a table, unlike in a view, SQLite cannot use the store's keys: it compares as the columns are declared.
    plain.execute(f"CREATE TEMP TABLE kept ({', '.join(view.columns)})")
    plain.execute(f"INSERT INTO kept SELECT {columns} FROM temp.{name}")
    where = condition.format(view="{view}", place=view.place)
    expected = plain.execute(f"SELECT * FROM kept WHERE {where.format(view='kept')}").fetchall()
    with query.opened(
        views.SqliteRows(plain, store), f"SELECT * FROM {name} WHERE {where.format(view=name)}"
    ) as (
        _,
        found,
    ):
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_sessions_are_found_by_their_id(store):
    (session,) = rows(store, "SELECT id FROM sessions WHERE name = 'one'")
    assert rows(store, f"SELECT name FROM sessions WHERE id = '{session[0]}'") == [("one",)]


def test_a_join_finds_each_call_at_its_commit(store):
    found = rows(
        store, "SELECT kind, count(*) FROM calls JOIN commits USING (session, seq) GROUP BY 1"
    )
    assert found == [("call", 12)]


def test_damage_in_the_store_is_reported_as_damage(store, tmp_path):
    copy = str(tmp_path / "store.db")
    with open(store, "rb") as source, open(copy, "wb") as target:
        target.write(source.read())
    db = apsw.Connection(copy)
    db.execute("UPDATE log SET body = x'00'")
    db.close()
    with pytest.raises(StoreCorrupt):
        rows(copy, "SELECT kind FROM commits")


# ── how much a query may take ────────────────────────────────────────────────────────────────────

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
TOO_LONG = {
    "recursion": ENDLESS + "SELECT count(*) FROM r",
    "an array": ENDLESS + "SELECT json_group_array(n % 2) FROM r WHERE n % 1000000 = 0",
    "one call that searches": "SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')",
    "a product of tables": "SELECT count(*) FROM commits a, commits b, commits c, commits d, commits e",
    "patterns": ENDLESS
    + f"SELECT count(*) FROM r WHERE hex(zeroblob(100000)) || n LIKE '{'%0' * 400}x'",
}


@pytest.mark.parametrize("text", TOO_LONG.values(), ids=TOO_LONG)
def test_a_query_is_stopped_when_its_time_is_over(store, text):
    assert "took too long" in refusal(store, text, seconds=0.3)


TOO_MUCH = {
    "random blobs": ENDLESS + "SELECT randomblob(15000000) FROM r LIMIT 400",
    "a blob in recursion": "WITH RECURSIVE r(b) AS (SELECT randomblob(15000000) UNION ALL "
    "SELECT randomblob(15000000) FROM r LIMIT 400) SELECT * FROM r",
    "an order of blobs": ENDLESS + "SELECT n FROM r ORDER BY zeroblob(15000000 + n % 2)",
    "distinct blobs": ENDLESS + "SELECT count(*) FROM (SELECT DISTINCT randomblob(1000000) FROM r)",
    "padding": "SELECT printf('%.*c', 900000000, 'x')",
    "padding by format": "SELECT format('%900000000d', 1)",
    "replacing": "SELECT replace(hex(zeroblob(8000000)), '0', hex(zeroblob(1000)))",
    "joining": ENDLESS + "SELECT group_concat(hex(zeroblob(1000000))) FROM r",
    "an array of texts": ENDLESS + "SELECT json_group_array(hex(zeroblob(1000000))) FROM r",
    "a window": ENDLESS + "SELECT group_concat(n) OVER () FROM (SELECT n FROM r LIMIT 3000000)",
    "a wide row": f"SELECT {', '.join(['randomblob(15000000)'] * 7)}",
    "many wide rows": ENDLESS + f"SELECT {', '.join(['hex(randomblob(5000000))'] * 6)} FROM r",
    "many values at once": f"SELECT max({', '.join(['randomblob(16000000)'] * 100)})",
    "parts of parts": "WITH a AS (SELECT 1 x)"
    + "".join(
        f", {b} AS (SELECT 1 x FROM {a} p, {a} q)"
        for a, b in itertools.pairwise("abcdefghijklmnopq")
    )
    + " SELECT count(*) FROM q",
    "a pattern": f"SELECT like('{'%a' * 2000}', hex(zeroblob(100000)))",
    "columns": f"SELECT {', '.join(['1'] * 500)}",
    "selects": " UNION ALL ".join(["SELECT 1"] * 300),
    "depth": f"SELECT {'(' * 500}1{')' * 500}" + "+1" * 500,
    "length": f"SELECT '{'x' * 200_000}'",
}  # fmt: skip


MEASURED = """
import resource, sys
from stator.errors import BadQuery
from stator.store.sqlite.sandbox import process
try:
    process.run(sys.argv[1], sys.stdin.read(), row_limit=1000, seconds=2.0)
except BadQuery:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""In a small process: what a large one has resident counts for its children too, until they run their own program."""


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_query_that_needs_too_much_is_refused_and_takes_little(store, text):
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, store], input=text, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert int(done.stdout) < MEMORY_MAX_KIB


def test_the_system_bounds_the_process_of_a_query():
    program = (
        "import resource as r; from stator.store.sandbox import query_answer; query_answer.limit(5.0); "
        "print(*(r.getrlimit(n)[1] for n in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_CPU, r.RLIMIT_CORE)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        str(query_answer.SPACE_MAX),
        str(query_answer.FILE_MAX),
        "15",
        "0",
    ]


def test_rows_stop_at_the_limit(store):
    assert len(rows(store, ENDLESS + "SELECT n FROM r", row_limit=7)) == 7


def test_a_long_record_is_read_whole(store, tmp_path):
    path = tmp_path / "long.db"
    with stator.connect(path, project="p") as made, made.open("a") as s, s.turn("x") as t:
        t.fact("long", "v" * 5_000_000)
    (found,) = rows(str(path), "SELECT record ->> 'value' FROM records WHERE collection = 'facts'")
    assert len(found[0]) == 5_000_000


def test_of_a_record_too_long_for_a_query_its_length_is_shown(tmp_path):
    path = tmp_path / "long.db"
    with stator.connect(path, project="p") as made, made.open("a") as s, s.turn("x") as t:
        t.fact("long", "v" * 20_000_000)
        t.fact("short", "v")
    found = rows(str(path), "SELECT record ->> 'type', record ->> 'bytes' > 20000000 FROM records "
                            "WHERE collection = 'facts' ORDER BY seq")  # fmt: skip
    assert found == [("cut", 1), (None, None)]


def test_a_text_that_is_no_unicode_is_refused(store):
    assert "not UTF-8" in refusal(store, "SELECT CAST(x'ff' AS TEXT)")


# ── random statements ────────────────────────────────────────────────────────────────────────────


def digest(path):
    with open(path, "rb") as file:
        return sha256(file.read()).hexdigest()


def leaks(shown: str, text: str) -> list[str]:
    """What of the store's tables an answer shows that its query does not."""
    marks = [MARK, MARK.encode().hex(), str(NUMBER), repr(float(NUMBER)), f"{NUMBER:x}"]
    names = [name for name in TABLES if name.endswith("_ix")] + ["salts", "blob_use", "foreign_id"]
    low = shown.lower()
    return [mark for mark in marks if mark.lower() in low] + [
        name for name in names if name in low and name not in text.lower()
    ]


def test_no_random_statement_finds_its_way_to_a_table(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    count = int(os.environ.get("STATOR_SQL_FUZZ", STATEMENTS))
    grammar = Grammar(SEED, store)
    before = digest(store)
    db = connection.open_connection(store, "read")
    db.execute("BEGIN")
    views.prepare(db)
    answered = 0
    for _ in range(count):
        text = grammar.statement()
        try:
            with query.opened(views.SqliteRows(db, store), text) as (names, found):
                shown = repr((names, list(found)))
            answered += 1
        except StatorError as error:
            shown = str(error)
        assert leaks(shown, text) == [], text
    db.close()
    assert digest(store) == before
    assert list(tmp_path.iterdir()) == []
    # Most random statements name something that does not exist; enough of them must be answered.
    assert answered > count / 5
