"""SQL by others: one statement that reads the documented views, bounded in rows and in time.

It runs in a read-only transaction, and calls only the functions that are listed here. So it cannot ask for another
tenant's rows, also where the role could: the setting that says whose rows are shown cannot be reached.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import errors as pg

from stator.errors import BadQuery
from stator.store.postgres.connection import ANSWER_S, READ, Connections, lost, translated
from stator.store.sql import statements

VIEWS = frozenset("sessions commits calls turns records".split())
FUNCTIONS = frozenset(
    "abs all and any array as avg between bit_and bit_or bool_and bool_or by case cast ceil coalesce concat"
    " concat_ws count date_part date_trunc dense_rank else every exists extract filter first_value floor from"
    " greatest in initcap join lag last_value lateral lead least left length lower lpad ltrim max md5 min mod"
    " not nullif on or over rank replace reverse right round row row_number rpad rtrim select sign split_part"
    " sqrt starts_with string_agg strpos substr substring sum then to_char to_timestamp trim union upper using"
    " values when where with within".split()
)
"""Names that are allowed before a parenthesis: functions without effects, and words of the language."""
RESERVED = re.compile(r"^(pg_|information_schema|current_setting|set_config|stator$)")
_token = re.compile(
    r"""(?P<space>\s+|--[^\n]*) | (?P<bad>/\*|\\|\$|;\s*\S|[uU]&["']) | (?P<text>[eEbBxXnN]?'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*") | (?P<word>[^\W\d]\w*) | (?P<number>\d[\w.]*) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def checked(query: str) -> str:
    """The query, if it is one that reads the views."""
    last = ""
    begun = False
    for found in _token.finditer(query):
        kind, text = found.lastgroup, found.group()
        word = text.lower()
        if kind == "bad":
            raise BadQuery(f"a query may not contain {text.strip()[:10]!r}")
        if kind == "text" and text[0] in "eE":
            raise BadQuery("a query may not contain strings with escapes")
        if kind == "quoted" and RESERVED.match(text.strip('"').lower()):
            raise BadQuery(f"a query may not name {text:.60}")
        if kind == "word" and not begun:
            begun = True
            if word not in ("select", "with", "values"):
                raise BadQuery("only queries that read are answered", hint="SELECT …")
        if kind == "word" and RESERVED.match(word):
            raise BadQuery(
                f"a query may not name {text:.60}", hint="views: " + ", ".join(sorted(VIEWS))
            )
        if text == "(" and last and last not in FUNCTIONS:
            raise BadQuery(f"a query may not call {last:.60}")
        if kind != "space":
            last = word if kind in ("word", "quoted") else ""
    if not begun:
        raise BadQuery("an empty query")
    return query.rstrip().rstrip(";")


def run(
    connections: Connections, query: str, *, row_limit: int, seconds: float
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows."""
    text = checked(query)
    link = connections.open()
    link.patience_s = seconds + ANSWER_S  # the server ends it in time
    settings = statements("postgres.sql")["settings"]
    try:
        with translated(link):
            link.execute(READ)
            link.execute(settings, connections.settings)
            link.execute("SET LOCAL search_path = stator")
            link.execute(f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}")
        cursor = link.cursor()
        cursor.execute(text.encode(), prepare=True)  # one statement, by the protocol
        rows = cursor.fetchmany(row_limit)
        names = [column.name for column in cursor.description or ()]
    except pg.QueryCanceled as error:
        raise BadQuery(f"the query took more than {seconds:g} s", hint="ask for less") from error
    except psycopg.Error as error:
        if link.closed:
            raise lost(error) from error
        raise BadQuery(
            f"the server refused the query: {' '.join(str(error).split()):.300}"
        ) from error
    finally:
        link.close()
    return names, rows
