"""The statements stay inside what PostgreSQL's relatives understand, and what a transaction pooler allows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import stator.store.sql
from stator.store.sql import script, statements

FOLDER = Path(stator.store.sql.__file__).parent
FILES = sorted(path.name for path in FOLDER.glob("postgres*.sql"))
FORBIDDEN = {
    "LISTEN or NOTIFY": r"\b(listen|notify|pg_notify)\b",
    "advisory locks": r"\badvisory",
    "triggers": r"\btrigger\b",
    "procedural code": r"\b(plpgsql|create\s+(or\s+replace\s+)?(function|procedure)|do\s+\$)",
    "SERIAL or identity columns": r"\b(small|big)?serial\b|\bgenerated\b",
    "temporary tables": r"\btemp(orary)?\b",
    "GiST or exclusion": r"\b(gist|exclude)\b",
    "deferrable constraints": r"\bdeferr",
    "LOCK TABLE": r"\block\s+table\b",
    "two-phase commits": r"\bprepare\s+transaction\b",
    "prepared statements or cursors": r"\b(prepare|declare|deallocate)\b",
    "settings of the session": r"\bset\s+(?!local\b)\w+\s*(=|to)\b(?=[^;]*$)|\bset\s+session\b",
    "set_config for the session": r"set_config\([^()]*,\s*false\s*\)",
}
WRITES = re.compile(r"\b(?:insert\s+into|update|delete\s+from)\s+(stator\.\w+)", re.I)


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_files_hold_nothing_that_relatives_lack(name: str, what: str) -> None:
    """Nor anything that stays on a connection after its transaction."""
    pattern = re.compile(FORBIDDEN[what], re.I)
    for statement in _without_comments(script(name)).split(";"):
        if what == "settings of the session" and not statement.strip().lower().startswith("set"):
            continue
        assert not pattern.search(statement), statement


@pytest.mark.parametrize("name", sorted(statements("postgres.sql")))
def test_a_statement_writes_each_table_once(name: str) -> None:
    """A second write to one table in one statement is an error elsewhere, and an order that nobody promised here."""
    text = re.sub(
        r"\bfor\s+update\b|\bdo\s+update\b", "", statements("postgres.sql")[name], flags=re.I
    )
    written = Counter(found.lower() for found in WRITES.findall(text))
    assert not [table for table, times in written.items() if times > 1]


@pytest.mark.parametrize("name", sorted(statements("postgres.sql")))
def test_every_statement_names_its_tenant(name: str) -> None:
    """Row-level security is the second lock, not the first."""
    text = statements("postgres.sql")[name]
    tables = {*re.findall(r"stator\.(\w+)", text)} - {"schema", "tenant", "t"}
    tables -= {found for found in tables if found.endswith("_number")}
    if tables and name != "right":  # what a role may do, in every tenant
        assert "%(t)s" in text


def test_every_key_begins_with_the_tenant() -> None:
    """Also where a unique index is made apart."""
    text = _without_comments(script("postgres_schema_1.sql"))
    tables = re.findall(r"CREATE TABLE stator\.(\w+) \((.*?)\n\)", text, re.S)
    assert len(tables) > 8
    for table, body in tables:
        keys = re.findall(r"PRIMARY KEY \((.*?)\)", body)
        assert table == "tenant" or (keys and all(key.startswith("t, ") for key in keys)), table
    for columns in re.findall(r"CREATE UNIQUE INDEX \w+ ON stator\.\w+ \((.*?)\)", text):
        assert columns.startswith("t, ")


def test_every_table_is_under_row_level_security() -> None:
    """Enabled, forced, and with a policy."""
    text = _without_comments(script("postgres_schema_1.sql"))
    for table in re.findall(r"CREATE TABLE stator\.(\w+)", text):
        for needed in (r"ENABLE ROW LEVEL SECURITY", r"FORCE ROW LEVEL SECURITY"):
            assert re.search(rf"ALTER TABLE stator\.{table}\s+{needed}", text), (table, needed)
        assert re.search(rf"CREATE POLICY tenant\s+ON stator\.{table}\b", text), table


def test_nothing_that_every_append_changes_is_indexed() -> None:
    """So that a session's row is updated in place."""
    text = _without_comments(script("postgres_schema_1.sql"))
    changed = {"head", "hash", "turn", "turn_open", "updated", "commits", "turns", "calls"}
    for columns in re.findall(r"INDEX \w+ ON stator\.session \((.*?)\)", text):
        assert not changed & {*columns.replace(" ", "").split(",")}
