"""SQL by others: one statement that reads the documented views, bounded in rows and in time.

It runs in a read-only transaction, calls only the functions that are listed here, and names no schema. So it cannot
ask for another tenant's rows, also where the role could: the setting that says whose rows are shown cannot be reached,
and under the names of the tables it finds empty ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import psycopg
from psycopg import errors as pg

from stator.errors import BadQuery
from stator.store.postgres.connection import READ, Connections, lost, translated
from stator.store.postgres.patience import ANSWER_S
from stator.store.sql import statements

VIEWS = frozenset("sessions commits calls turns records".split())
TABLES = (
    "schema tenant session alias log blob blob_use rec turn_key bookmark process counts tenant_number session_number"
).split()
HIDDEN = ", ".join(f"{name} AS (SELECT 1 AS no_such_view WHERE false)" for name in TABLES)
"""Queries under the names of the tables: a name means them, and not the table, anywhere in a statement."""
FUNCTIONS = frozenset(
    "abs all and any array as avg between bit_and bit_or bool_and bool_or by case cast ceil coalesce concat"
    " concat_ws count date_part date_trunc dense_rank else every exists extract filter first_value floor from"
    " greatest in initcap join lag last_value lateral lead least left length lower lpad ltrim max md5 min mod"
    " not nullif on or over rank replace reverse right round row row_number rpad rtrim select sign split_part"
    " sqrt starts_with string_agg strpos substr substring sum then to_char to_timestamp trim union upper using"
    " values when where with within".split()
)
"""Names that are allowed before a parenthesis: functions without effects, and words of the language."""
RESERVED = re.compile(
    r"^(pg_.*|information_schema|current_setting|set_config|stator|operator|user|(current|session|system)_user"
    r"|current_(role|catalog|schema|database)|reg(class|collation|config|dictionary|namespace|oper|operator|proc"
    r"|procedure|role|type))$",
    re.DOTALL,
)
_token = re.compile(
    r"""(?P<space>\s+|--[^\n\r]*) | (?P<bad>/\*|\\|\$|\0|;\s*\S|[uU]&["']) | (?P<text>[eEbBxXnN]?'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*") | (?P<word>[^\W\d]\w*) | (?P<number>[0-9][0-9.]*) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def checked(query: str, schemas: Collection[str] = ()) -> str:
    """The query, if it is one that reads the views, with the tables hidden. `schemas` may not be named in it."""
    last, first = "", ""
    leads, place = True, 0
    for found in _token.finditer(query):
        kind, text = found.lastgroup, found.group()
        word = text[1:-1].replace('""', '"') if kind == "quoted" else text.lower()
        if kind == "space":
            continue
        if kind == "bad":
            raise BadQuery(f"a query may not contain {text.strip()[:10]!r}")
        if kind == "text" and text[0] in "eE":
            raise BadQuery("a query may not contain strings with escapes")
        if kind in ("word", "quoted") and RESERVED.match(word.lower()):
            raise BadQuery(
                f"a query may not name {text:.60}", hint="views: " + ", ".join(sorted(VIEWS))
            )
        if not first and kind == "word":
            first = word
            if word not in ("select", "with", "values"):
                raise BadQuery("only queries that read are answered", hint="SELECT …")
            place = found.end() if word == "with" and leads else 0
        elif place and last == "with" and word == "recursive":
            place = found.end()
        leads = False
        if text == "(" and last and last not in FUNCTIONS:
            raise BadQuery(f"a query may not call {last:.60}")
        if text == "." and last in schemas:
            raise BadQuery(f"a query may not name the schema {last:.60}")
        last = word if kind in ("word", "quoted") else ""
    if not first:
        raise BadQuery("an empty query")
    text = query.rstrip().rstrip(";")
    if place:
        return f"{text[:place]} {HIDDEN}, {text[place:]}"
    return f"WITH {HIDDEN} {text}"


def run(
    connections: Connections, query: str, *, row_limit: int, seconds: float
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows."""
    checked(query)  # what is refused anyway need not be sent
    link = connections.open()
    link.patience_s = seconds + ANSWER_S  # the server ends it in time
    settings = statements("postgres.sql")["settings"]
    try:
        with translated(link):
            link.execute(READ)
            link.execute(settings, connections.settings)
            link.execute("SET LOCAL search_path = stator")
            link.execute("SET LOCAL standard_conforming_strings = on")
            link.execute(f"SET LOCAL statement_timeout = {max(1, int(seconds * 1000))}")
            schemas = link.execute("SELECT nspname FROM pg_catalog.pg_namespace").fetchall()
        text = checked(query, {name for (name,) in schemas}).encode("utf-8")
        cursor = link.cursor()
        cursor.execute(text, prepare=True)  # one statement, by the protocol
        rows = cursor.fetchmany(row_limit)
        names = [column.name for column in cursor.description or ()]
    except UnicodeEncodeError as error:
        raise BadQuery("a query must be text that UTF-8 can encode") from error
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
