"""Setting a database up: `stator init --store postgresql://…`, the SQL for an administrator, and migrations that are
killed or run twice at once."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import textwrap
from typing import Any

import psycopg
import pytest

import stator
from postgres_server import new_tenant, server
from stator.errors import InvalidInput, NotAStore
from stator.store.postgres import prepare, set_up
from stator.store.postgres.setup import check_version, sql_for_administrator
from stator.surfaces.cli.main import main


def role(*rights: str) -> str:
    """A new role that may log in."""
    name = f"r_{secrets.token_hex(4)}"
    with psycopg.connect(server().url(), autocommit=True) as db:
        db.execute(f"CREATE ROLE {name} LOGIN {' '.join(rights)}")
    return name


def as_role(url: str, name: str, secret: str = "") -> str:
    return url.replace("//postgres@", f"//{name}{':' if secret else ''}{secret}@")


def owned_database() -> tuple[str, str]:
    """The URLs of a database whose owner is no superuser: as its owner, and as a superuser."""
    url, owner = server().database(), role()
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server().url(), autocommit=True) as db:
        db.execute(f"ALTER DATABASE {name} OWNER TO {owner}")
    return as_role(url, owner), url


def run_psql(url: str, text: str) -> None:
    done = subprocess.run(
        [str(server().bin / "psql"), "-X", "-q", "-f", "-", url],
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def drive(url: str, tenant: str) -> None:
    with stator.connect(url, tenant=tenant, project="p") as store:
        with store.open("main") as s, s.turn("go") as t:
            t.fact("x", 1)
        assert store.verify().ok


def test_init_makes_tables_tenant_and_grants(capsys):
    owner, _ = owned_database()
    app, tenant = role(), new_tenant()
    assert main(["init", "--store", f"{owner}&tenant={tenant}", "--application", app]) == 0
    out = capsys.readouterr().out
    assert "tables, schema 1" in out
    assert f"grants for {app}" in out
    assert f"tenant {tenant}" in out
    drive(as_role(server().url(owner.split("/")[3].split("?")[0]), app), tenant)


def test_init_again_changes_nothing(capsys, monkeypatch):
    owner, _ = owned_database()
    monkeypatch.setenv("STATOR_TENANT", new_tenant())
    asked = ["init", "--store", owner, "--application", role()]
    assert main(asked) == 0
    capsys.readouterr()
    assert main(asked) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["created"] == []


def test_init_of_a_role_that_may_not_prints_the_sql_for_an_administrator(capsys):
    """It runs in psql as it is printed, and holds no password; then the role makes its tenant and works."""
    admin, app, tenant = server().database(), role(), new_tenant()
    url = f"{as_role(admin, app, 'pa55word')}&tenant={tenant}"
    assert main(["init", "--store", url]) == 1
    text, hint = capsys.readouterr()
    assert "pa55word" not in text + hint
    assert "administrator" in hint
    run_psql(admin, text)
    assert main(["init", "--store", url]) == 0
    assert f"tenant {tenant}" in capsys.readouterr().out
    drive(as_role(admin, app), tenant)


def test_the_sql_makes_what_prepare_makes():
    """Tables, columns, policies, grants and views."""
    asked = (
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'stator'"
        " ORDER BY 1, 2",
        "SELECT tablename, policyname, qual FROM pg_policies ORDER BY 1",
        "SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = '{}'"
        " ORDER BY 1, 2",
    )
    app = role()
    ours, theirs = server().database(), server().database()
    prepare(ours, application=app)
    run_psql(theirs, sql_for_administrator(0, app))
    found = []
    for url in (ours, theirs):
        with psycopg.connect(url) as db:
            found.append([db.execute(text.format(app)).fetchall() for text in asked])
    assert found[0] == found[1]
    assert all(found[0])


def test_where_the_tables_are_there_the_sql_has_only_grants():
    admin = server().database()
    prepare(admin)
    with psycopg.connect(admin, autocommit=True) as db:
        reader = role()
        db.execute(f"GRANT USAGE ON SCHEMA stator TO {reader}")
        db.execute(f"GRANT SELECT ON stator.schema TO {reader}")
    for name in (reader, role()):
        done = set_up(as_role(admin, name), tenant="a")
        assert "CREATE TABLE" not in done.sql
        run_psql(admin, done.sql)
        assert set_up(as_role(admin, name), tenant=name).made == [f"tenant {name}"]


def test_a_role_that_cannot_give_the_grants_says_so():
    """The server warns of it, and grants nothing."""
    admin, first, second = server().database(), role(), role()
    prepare(admin, application=first)
    done = set_up(as_role(admin, first), tenant="a", application=second)
    assert second in done.sql
    assert done.made == []


def test_a_role_with_a_strange_name_is_quoted():
    text = sql_for_administrator(0, 'a"; DROP TABLE x; --')
    assert 'TO "a""; DROP TABLE x; --";' in text


def test_a_role_that_is_not_there_is_named():
    with pytest.raises(InvalidInput, match="no role 'nobody-here'"):
        set_up(server().database(), tenant="a", application="nobody-here")


def test_an_old_server_is_refused():
    with pytest.raises(NotAStore, match="PostgreSQL 14 is too old"):
        check_version(140011)
    check_version(150000)


@pytest.mark.parametrize(
    "words", [["--application", "x"], ["--application", "x", "--store", "a.db"]]
)
def test_an_application_is_a_role_of_a_server(words, capsys):
    assert main(["init", *words]) == 2
    assert "server" in capsys.readouterr().err


# -- migrations -----------------------------------------------------------------------------------

MIGRATOR = """
    import sys, time
    from stator.store.postgres import schema

    run = schema.script

    def slow(name):
        if name == "postgres_schema_1.sql" and sys.argv[2] == "hang":
            return run(name)
        print("inside", flush=True)
        time.sleep(60 if sys.argv[2] == "hang" else 1)
        return run(name)

    if sys.argv[2] == "hang":
        schema.SCHEMA = 2  # so that there is a migration to be inside of, after the tables were made
    schema.script = slow
    schema.prepare(sys.argv[1])
    print("done", flush=True)
"""


def migrator(url: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(MIGRATOR), url, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tables(url: str) -> list[Any]:
    with psycopg.connect(url) as db:
        return db.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'stator'::regnamespace AND relkind = 'r'"
        ).fetchall()


def test_a_migrator_that_is_killed_leaves_nothing_and_the_next_completes():
    url = server().database()
    first = migrator(url, "hang")
    assert first.stdout is not None
    assert first.stdout.readline() == "inside\n"
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert tables(url) == [("schema",)]
    prepare(url)
    assert len(tables(url)) == 11
    drive(url, new_tenant())


def test_of_two_migrators_at_once_one_does_the_work():
    url = server().database()
    both = [migrator(url, "wait") for _ in range(2)]
    answers = [one.communicate(timeout=60) for one in both]
    assert [one.returncode for one in both] == [0, 0], answers
    assert sorted(out for out, _ in answers) == ["done\n", "inside\ndone\n"]
    assert len(tables(url)) == 11
    drive(url, new_tenant())
