"""Runs a person's query on a connection that holds the views and no file.

What the query can reach is decided by what the connection has (`view_tables`): an empty database in memory
and virtual tables for the views. The authoriser keeps it that way. It judges what a statement does, never the
names it uses: only reading is allowed, and no ATTACH, PRAGMA or CREATE that would bring anything in.
Functions are allowed one by one, in `FUNCTIONS`. How much time and memory a query takes is bounded
from outside: see `process`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import apsw

from stator.errors import BadQuery
from stator.store.sandbox import view_tables
from stator.store.sandbox.view_tables import VIEWS, RowSource

LENGTH_MAX = 16 * 1024 * 1024
"""The longest text or blob; sqlite_views.sql names the same number."""
SQL_MAX = 100_000

FUNCTIONS = frozenset(
    """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat concat_ws
    cos cosh count cume_dist current_date current_time current_timestamp date datetime degrees
    dense_rank exp first_value floor format glob group_concat hex if ifnull iif instr json json_array
    json_array_insert json_array_length json_each json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
    json_replace json_set json_tree json_type json_valid jsonb jsonb_array jsonb_array_insert
    jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch
    jsonb_remove jsonb_replace jsonb_set julianday lag last_value lead length like likelihood likely
    ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank
    percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob
    rank replace round row_number rtrim sign sin sinh sqlite_version sqrt strftime string_agg substr
    substring sum tan tanh time timediff total trim trunc typeof unhex unicode unistr unistr_quote
    unixepoch unlikely upper zeroblob
    """.split()
)
"""What a query may call."""

TABLES = frozenset({*VIEWS, "json_each", "json_tree"})

LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: LENGTH_MAX,
    apsw.SQLITE_LIMIT_SQL_LENGTH: SQL_MAX,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COLUMN: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 1,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


@contextlib.contextmanager
def opened(source: RowSource, query: str) -> Iterator[tuple[list[str], Iterator[tuple[Any, ...]]]]:
    """The columns and rows of the answer to one SELECT, while the block runs; or `BadQuery`.

    `source` reads the store.
    """
    sandbox = apsw.Connection(":memory:")
    try:
        _restrict(sandbox, source)
        cursor, names = _begun(sandbox, query)
        yield names, _rows(cursor)
    except (apsw.Error, UnicodeDecodeError) as error:
        raise _refusal(error) from None
    finally:
        sandbox.close(True)


def _restrict(sandbox: apsw.Connection, source: RowSource) -> None:
    sandbox.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    sandbox.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # What does not fit into its cache goes to disk, where `process` bounds it too.
    sandbox.pragma("temp_store", "file")
    sandbox.drop_modules(None)  # SQLite's own virtual tables; the two of JSON are made when named
    view_tables.offer(sandbox, source)
    for limit, value in LIMITS.items():
        sandbox.limit(limit, value)
    sandbox.authorizer = _authorise


def _begun(sandbox: apsw.Connection, query: str) -> tuple[apsw.Cursor, list[str]]:
    names: list[str] = []
    cursor = sandbox.cursor()

    def first(running: apsw.Cursor, sql: str, bindings: Any) -> bool:
        if names:
            raise BadQuery("expected one statement", hint="remove the other statements")
        names.extend(column[0] for column in running.get_description())
        return True

    cursor.exec_trace = first
    cursor.execute(query)
    return cursor, names


def _rows(cursor: apsw.Cursor) -> Iterator[tuple[Any, ...]]:
    for row in cursor:
        yield tuple(row)


def _authorise(
    action: int, one: str | None, two: str | None, database: str | None, inner: str | None
) -> int:
    """Allow reading. The names in `one` and `two` are those of SQLite, not those a query gives its parts."""
    if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_FUNCTION and two in FUNCTIONS:
        return apsw.SQLITE_OK
    # With an empty column, `one` may be the name of a part of the query: it counts rows and reads none.
    if action == apsw.SQLITE_READ and (one in TABLES or two == ""):
        return apsw.SQLITE_OK
    return apsw.SQLITE_DENY


def _refusal(error: Exception) -> BadQuery:
    hint = "SELECT over the views: " + ", ".join(VIEWS)
    if isinstance(error, apsw.AuthError):
        return BadQuery(f"not allowed: {error}", hint=hint)
    if isinstance(error, apsw.NoMemError):
        return too_large()
    if isinstance(error, apsw.FullError | apsw.IOError):
        return BadQuery(f"the query needs too much temporary space: {error}", hint="narrow it")
    if isinstance(error, UnicodeDecodeError):
        return BadQuery("the answer holds a text that is not UTF-8", hint="use hex() to show it")
    return BadQuery(f"SQL: {error}", hint=hint if "no such table" in str(error) else "")


def too_large() -> BadQuery:
    """The refusal of a query that used up its memory."""
    return BadQuery("the query needs too much memory", hint="narrow it, or ask for less at a time")
