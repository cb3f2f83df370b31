"""`stator sql`: read-only SQL over documented views, with an authoriser, a time limit and a row
limit.

The statement sees `VIEWS` and nothing else: no base table by name, no PRAGMA, no ATTACH, no file
functions. A view reads its base tables on the statement's behalf, which the authoriser can tell
apart.
"""

from __future__ import annotations

import time
from typing import Any

import apsw

from stator.errors import BadQuery
from stator.model.records.tables import NUMBERED
from stator.store.rows import envelope_of
from stator.store.sql import script
from stator.store.sqlite.versions import unpack_id

VIEWS = ("sessions", "commits", "turns", "calls", "records", "files", "decisions")
"""What a query may name; docs/reference/sql.md says what their columns mean."""
_FORBIDDEN = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
_STEPS = 1000
LENGTH_MAX = 16 * 1024 * 1024
_FIELDS = frozenset({"kind", "turn", "at", "actor", "tool", "status", "effect", "cause"})


def run(
    db: apsw.Connection, query: str, *, row_limit: int, seconds: float
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The answer to one SELECT, or `BadQuery` saying what is not allowed."""
    _prepare(db, seconds)
    description: list[str] = []
    cursor = db.cursor()

    def first(running: apsw.Cursor, sql: str, bindings: Any) -> bool:
        if description:
            raise BadQuery("expected one statement", hint="remove the other statements")
        description.extend(column[0] for column in running.get_description())
        return True

    cursor.exec_trace = first
    try:
        cursor.execute(query)
    except apsw.Error as error:
        raise _refusal(error) from None
    rows: list[tuple[Any, ...]] = []
    try:
        for row in cursor:
            rows.append(tuple(row))
            if len(rows) >= row_limit:
                break
    except apsw.Error as error:
        raise _refusal(error) from None
    return description, rows


def _prepare(db: apsw.Connection, seconds: float) -> None:
    last: list[Any] = [b"", None]

    def commit_field(body: Any, name: Any) -> Any:
        if name not in _FIELDS or not isinstance(body, bytes):
            return None
        if last[0] != body:
            last[:] = [body, envelope_of(body)]
        return getattr(last[1], name)

    def collection_name(number: Any) -> Any:
        return NUMBERED[number].name if number in NUMBERED else None

    def record_id(data: Any) -> Any:
        return unpack_id(data) if isinstance(data, (bytes, str)) else None

    functions: tuple[tuple[str, int, Any], ...] = (
        ("commit_field", 2, commit_field),
        ("collection_name", 1, collection_name),
        ("record_id", 1, record_id),
    )
    for name, arguments, function in functions:
        db.create_scalar_function(name, function, arguments, deterministic=True)
    db.execute(script("sqlite_views.sql"))
    db.limit(apsw.SQLITE_LIMIT_LENGTH, LENGTH_MAX)
    db.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, 100_000)
    db.limit(apsw.SQLITE_LIMIT_EXPR_DEPTH, 100)
    deadline = time.monotonic() + seconds
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    db.authorizer = _authorise


def _authorise(
    action: int, one: str | None, two: str | None, database: str | None, inner: str | None
) -> int:
    if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_READ and (inner in VIEWS or one in VIEWS or two == ""):
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_READ and inner is not None and one not in _BASE:
        return apsw.SQLITE_OK  # a common table expression of the query's own
    if action == apsw.SQLITE_FUNCTION and two not in _FORBIDDEN:
        return apsw.SQLITE_OK
    return apsw.SQLITE_DENY


_BASE = frozenset(
    {
        "meta",
        "log",
        "blob",
        "blob_use",
        "session",
        "alias",
        "commit_ix",
        "origin_ix",
        "turn_ix",
        "rec",
        "flush_ix",
        "snap",
        "call_ix",
        "sqlite_schema",
        "sqlite_master",
        "sqlite_temp_schema",
    }
)


def _refusal(error: apsw.Error) -> BadQuery:
    if isinstance(error, apsw.InterruptError):
        return BadQuery(
            "the query took too long and was stopped", hint="narrow it, or raise --seconds"
        )
    if isinstance(error, apsw.AuthError):
        return BadQuery(f"not allowed: {error}", hint="SELECT over the views: " + ", ".join(VIEWS))
    return BadQuery(f"SQL: {error}")
