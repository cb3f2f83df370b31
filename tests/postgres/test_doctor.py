"""`stator doctor` over a PostgreSQL store: what it finds, what to do about it, and how little it says otherwise."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import psycopg
import pytest

import stator
from postgres_server import new_tenant, server
from stator.store.postgres import prepare
from stator.store.postgres.checks import ServerState, findings
from stator.surfaces.cli.main import main


@pytest.fixture
def database(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The URLs of a prepared database, as a superuser and as an application; this one is in the environment."""
    url, app = server().database(), f"r_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {app} LOGIN")
    prepare(url, application=app)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("STATOR_TENANT", new_tenant())
    as_app = url.replace("//postgres@", f"//{app}@")
    monkeypatch.setenv("STATOR_STORE", as_app)
    with stator.connect() as store, store.open("main") as s, s.turn("go") as t:
        t.fact("x", 1)
    return url, as_app


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    main(["doctor", "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def what(found: dict[str, Any]) -> list[str]:
    """The findings, without the one that the server of the tests deserves."""
    assert all(one["hint"] for one in found["findings"])
    return [one["what"] for one in found["findings"] if "fsync" not in one["what"]]


def test_where_all_is_well_it_says_what_full_means_and_no_more(database, capsys):
    found = doctor(capsys)
    assert what(found) == []
    assert found["server"].startswith("PostgreSQL 1")
    assert "no standby is waited for" in found["server"]
    main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert "SQLite" not in "".join(lines)
    assert len(lines) <= 6


def test_a_server_that_may_lose_commits_is_found(database, capsys):
    assert [one["check"] for one in doctor(capsys)["findings"]] == ["durability"]


def test_a_superuser_is_found(database, capsys):
    (found,) = what(doctor(capsys, "--store", database[0]))
    assert "superuser: row-level security does not bind it" in found


def test_a_table_without_row_level_security_is_found(database, capsys):
    with psycopg.connect(database[0], autocommit=True) as db:
        db.execute("ALTER TABLE stator.log NO FORCE ROW LEVEL SECURITY")
        db.execute("ALTER TABLE stator.rec DISABLE ROW LEVEL SECURITY")
    found = doctor(capsys)
    assert what(found) == ["row-level security is not enabled and forced on log, rec"]


def test_a_clock_that_differs_is_found(database, capsys, monkeypatch):
    with stator.connect() as store:
        port: Any = store.port
        ahead = port.server(lambda: time.time_ns() // 1000 - 5_000_000)
        behind = port.server(lambda: time.time_ns() // 1000 + 5_000_000)
    assert "5.0 s ahead of" in str(ahead.findings)
    assert "5.0 s behind" in str(behind.findings)


def test_rows_of_dead_processes_are_found_and_deleted_by_a_rebuild(database, capsys):
    with psycopg.connect(database[0], autocommit=True) as db:
        db.execute(
            "INSERT INTO stator.process SELECT t, sha256(n::text::bytea), 1"
            " FROM stator.tenant, generate_series(1, 150) n"
        )
    assert "150 rows of processes" in what(doctor(capsys))[0]
    doctor(capsys, "--rebuild")
    assert what(doctor(capsys)) == []
    with stator.connect() as store, store.open("main") as s, s.turn("again") as t:
        t.fact("x", 2)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (ServerState(), ""),
        (ServerState(name="14.2", version=140002), "PostgreSQL 14.2 is older than 15"),
        (ServerState(role="a", bypasses=True), "role a has BYPASSRLS"),
        (ServerState(role="a", owns=True), "role a owns the tables"),
        (ServerState(skew=-2_100_000), "2.1 s behind"),
        (ServerState(skew=1_900_000), ""),
    ],
)
def test_each_finding_says_what_to_do(seen: ServerState, expected: str) -> None:
    found = list(findings(seen))
    assert len(found) == bool(expected)
    assert all(expected in one.what and one.hint for one in found)


def test_a_pooler_and_standbys_are_named():
    seen = ServerState(name="16.1", role="app", pooled=True, standbys="ANY 1 (a, b)")
    assert "through a pooler (transaction mode works)" in seen.about
    assert "on disk on standbys (ANY 1 (a, b))" in seen.about
    assert "applied on standbys" in ServerState(standbys="a", commit="remote_apply").about
