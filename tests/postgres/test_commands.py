"""Every command that asks, and those that change a session, over a PostgreSQL store; no password is ever printed."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import stator
from postgres_server import new_tenant, shared_database
from stator.locations import without_secrets
from stator.surfaces.cli.main import main
from surfaces.agents import talking
from surfaces.recorded import Answer

SECRET = "c0rrect-h0rse"


@stator.tool(effect="write")
def pay(amount: int) -> str:
    return f"paid {amount}"


@stator.tool(effect="write")
def cut_off(amount: int) -> str:
    raise KeyboardInterrupt


@pytest.fixture
def url() -> str:
    """With a password, which the server does not ask for."""
    return shared_database().replace("//postgres@", f"//postgres:{SECRET}@")


@pytest.fixture
def work(url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder and a home of its own, and a tenant with one session; returns the call that is in doubt."""
    tenant = new_tenant()
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("STATOR_SESSION", raising=False)
    monkeypatch.setenv("STATOR_STORE", url)
    monkeypatch.setenv("STATOR_TENANT", tenant)
    with stator.connect() as store:
        with store.open("main") as s:
            with s.turn("buy an umbrella") as t:
                t.call(pay, amount=3)
                t.decide("buy the red one", topic="colour", why="it was asked for")
                t.fact("shop", "open until six")
                t.file("list.txt", "modified")
            with s.turn("and a parasol") as t:
                t.decide("buy the blue one", topic="colour", why="red is sold out")
            with contextlib.suppress(KeyboardInterrupt), s.turn("and a hat") as t:
                t.call(cut_off, amount=5)
        (doubt,) = (row.call for row in store.calls().rows if row.status == "in doubt")
    return str(doubt)


@pytest.fixture
def ask(work: str, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Answer]:
    """Run a command in this process."""

    def run(command: str) -> Answer:
        capsys.readouterr()
        code = main(shlex.split(command.replace("CALL", work)))
        out, err = capsys.readouterr()
        assert SECRET not in out + err
        return Answer(code, out, err)

    return run


ASKING = {
    "ls": "main",
    "log": "amount=3",
    "show": "in doubt",
    "show @4": "pay",
    "diff t1..t2": "superseded by buy the blue one",
    "state": "buy the blue one",
    "files": "list.txt",
    "decisions": "red is sold out",
    "calls": "in doubt",
    "why colour": "buy the red one",
    "blame list.txt": "",
    "search parasol": "1 hit",
    "brief": "buy the blue one",
    "recap": "buy an umbrella",
    "tree": "1 session without forks",
    "tree --project": "main",
    "evicted": "",
    "top --once": "settle",
    "du": "log",
    "du --by tier": "total",
    "du --by session": "main",
    "verify": "OK: 1 session",
    "verify main": "OK: 1 session",
    "sql 'SELECT tool, status FROM calls'": "in doubt",
    "budget": "2 calls",
    "approvals": "",
    "reflog": "",
    "check": "",
    "retention": "everything is kept",
    "trust": "postgresql://postgres@",
    "resume main": "To continue",
    "settle": "cut_off",
    "gc": "nothing to do",
    "erase @4": "would erase",
    "tail --once --all": "and a parasol",
    "ls --trash": "",
    "ingest": "",
}


@pytest.mark.parametrize("command", ASKING)
def test_a_command_that_asks_works_over_a_server(ask: Any, command: str) -> None:
    answer = ask(command)
    assert answer.code == 0, answer.err
    assert ASKING[command] in answer.out


@pytest.mark.parametrize("command", [one for one in ASKING if one not in ("tail --once --all",)])
def test_a_command_that_asks_answers_in_json(ask: Any, command: str) -> None:
    answer = ask(f"{command} --json")
    assert answer.code == 0, answer.err
    for line in answer.out.splitlines() if not answer.out.startswith("{\n") else [answer.out]:
        json.loads(line)


CHANGING = [
    ("tag release", "show", "release"),
    ("fork t1 --name other", "tree", "other"),
    ("settle CALL --done", "calls", "  done "),
    ("approve --pattern 'pay(amount<=5)' -s main", "approvals --grants", "pay(amount<=5)"),
    ("erase --record facts:shop --yes", "state", "erased"),
    ("close main", "ls --everywhere --long", "closed"),
    ("hold main", "hold", "main"),
]


@pytest.mark.parametrize(("command", "then", "shown"), CHANGING)
def test_a_command_that_changes_something_works_over_a_server(
    ask: Any, command: str, then: str, shown: str
) -> None:
    answer = ask(command)
    assert answer.code == 0, answer.err
    seen = ask(then)
    assert shown in seen.out + seen.err
    assert ask("verify").code == 0


def test_an_erasure_says_what_is_gone_now_and_what_later(ask):
    """Nothing of the kind before anything was erased, and nothing of a file."""
    assert "VACUUM" not in ask("erase --record facts:shop").out
    done = ask("erase --record facts:shop --yes")
    assert "gone for every reader now" in done.out
    assert "VACUUM" in done.out
    assert "backups" in json.loads(ask("erase @4 --yes --json").out)["later"]
    assert json.loads(ask("erase @4 --json").out)["later"] == ""
    assert ask("export main -o main.stator").code == 0
    assert ask("import main.stator --store here.db").code == 0
    assert "VACUUM" not in ask("erase @3 -s main --store here.db --yes").out


def test_a_purge_says_what_is_gone_now_and_what_later(ask, monkeypatch):
    assert ask("settle CALL --done").code == 0
    assert ask("close main").code == 0
    assert ask("retention trash=1d").code == 0
    year = time.time_ns() // 1000 + 366 * 86_400_000_000
    monkeypatch.setattr("stator.connect.now", lambda: year)
    assert ask("gc --apply --yes").code == 0
    monkeypatch.setattr("stator.connect.now", lambda: year + 366 * 86_400_000_000)
    done = ask("gc --apply --yes")
    assert "purge 1" in done.out
    assert "VACUUM" in done.out
    assert "log" in ask("du").out
    assert ask("verify").code == 0


def test_the_space_of_a_server_has_no_write_ahead_log_of_ours(ask):
    assert "wal" not in json.loads(ask("du --json").out)["usage"]


def test_a_bundle_leaves_a_server_and_comes_back(ask):
    assert ask("export main -o main.stator").code == 0
    assert ask("import main.stator --store here.db").code == 0
    assert "main" in ask("ls --all --store here.db").out
    assert "already here" in ask("import main.stator").out
    assert ask("verify").code == 0


def test_two_tenants_of_a_server_are_two_stores(ask, url):
    """With one URL, as far as it is shown; what one holds does not enter the other."""
    other = f"{url}&tenant={new_tenant()}"
    stator.connect(other).close()
    assert "one tenant only" in ask(f"copy '{url}' '{other}'").err
    assert "both are the same store" in ask(f"copy '{url}' '{url}'").err


@pytest.fixture
def here(ask: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in a file, with a session."""
    monkeypatch.delenv("STATOR_STORE")
    monkeypatch.delenv("STATOR_TENANT")
    connected = stator.connect("here.db", project="shop")
    with connected as store, store.open("order") as s, s.turn("buy an umbrella") as t:
        t.fact("shop", "open until six")
    return "here.db"


def test_what_would_be_pushed_to_a_new_tenant_is_shown_and_no_tenant_is_made(ask, url, here):
    team = f"{url}&tenant={new_tenant()}"
    assert "would push" in ask(f"push '{team}' --of shop --store {here}").out
    refused = ask(f"ls --store '{team}'")
    assert (refused.code, "stator init" in refused.err) == (5, True)


@pytest.mark.parametrize("option", ["--of", "--project"])
def test_a_project_is_pushed_to_a_server_and_pulled_from_it(ask, url, here, option):
    """As with every command here, no password is shown."""
    team = f"{url}&tenant={new_tenant()}"
    assert "pushed" in ask(f"push '{team}' {option} shop --yes --store {here}").out
    assert "order" in ask(f"ls --everywhere --store '{team}'").out
    stator.connect("there.db").close()
    assert ask(f"pull '{team}' order --store there.db").code == 0
    assert "order" in ask("ls --everywhere --store there.db").out


def test_a_file_is_copied_to_a_server(ask, url, here):
    team = f"{url}&tenant={new_tenant()}"
    assert "copied" in ask(f"copy {here} '{team}'").out
    assert "nothing to copy" in ask(f"copy {here} '{team}'").out


def test_the_tenant_may_be_in_the_url_of_the_option(ask, url, monkeypatch):
    named = f"{url}&tenant={os.environ['STATOR_TENANT']}"
    monkeypatch.delenv("STATOR_TENANT")
    monkeypatch.delenv("STATOR_STORE")
    assert "main" in ask(f"ls --store '{named}'").out
    assert "pay" in ask(f"sql 'SELECT tool FROM calls' --store '{named}'").out
    refused = ask(f"ls --store '{url}'")
    assert refused.code == 2
    assert "tenant" in refused.err


def test_a_transcript_is_imported_into_a_server(ask, tmp_path):
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "one", "cwd": str(tmp_path)},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "one", "cwd": str(tmp_path)},
    ]  # fmt: skip
    stamp = {"timestamp": "2026-11-01T10:00:00.000Z", "version": "2.0.0", "isSidechain": False}
    lines[0] |= {"message": {"role": "user", "content": "where is the lighthouse"}, **stamp}
    said = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [
        {"type": "text", "text": "at the harbour"}]}  # fmt: skip
    lines[1] |= {"message": said, **stamp}
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = ask(f"import {tmp_path / 'one.jsonl'}")
    assert answer.code == 0, answer.out + answer.err
    assert "lighthouse" in ask("search lighthouse --all").out
    assert "nothing" in ask(f"import {tmp_path / 'one.jsonl'}").out or ask("verify").code == 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:secret@db/x", "postgresql://me@db/x"),
        ("postgresql://me:se@cret@db/x?sslmode=require", "postgresql://me@db/x?sslmode=require"),
        ("postgresql://me:se?cret@db/x?tenant=a", "postgresql://me@db/x?tenant=a"),
        ("postgresql://me:se/cret@db/x", "postgresql://me@db/x"),
        ("postgresql://db/x?user=me@corp&tenant=a", "postgresql://db/x?user=me@corp&tenant=a"),
        ("postgresql://db/x?user=me&password=secret", "postgresql://db/x?user=me"),
        ("postgresql://db/x?p%61ssword=secret", "postgresql://db/x"),
        ("postgresql://me@/x?host=%2Frun&tenant=a", "postgresql://me@/x?host=%2Frun&tenant=a"),
        ("notes/a.db", "notes/a.db"),
    ],
)
def test_a_url_is_shown_without_its_password(given: str, shown: str) -> None:
    assert without_secrets(given) == shown


def test_a_url_that_libpq_cannot_read_shows_nothing_of_its_password(ask):
    answer = ask(f"ls --store 'postgresql://me:{SECRET}/x@db/x?tenant=a'")
    assert answer.code == 5
    assert "percent" in answer.err


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_the_mcp_server_shows_the_sessions_of_its_tenant(work):
    """And none of another."""
    with stator.connect() as store, stator.connect(tenant=new_tenant()) as other:
        async with talking(store, project=None) as agent:
            found = await agent.call("stator_open")
            assert [one["name"] for one in found["sessions"]] == ["main"]
            handle = await agent.begin("fix the login bug")
            await agent.call(
                "stator_record", session=handle, items=[{"kind": "dead_end", "what": "by sea"}]
            )
            assert "by sea" in str(await agent.call("stator_log", session=handle, what="state"))
        async with talking(other, project=None) as agent:
            assert (await agent.call("stator_open")).get("sessions", []) == []


def test_the_mcp_server_starts_over_a_server(work):
    """As an agent starts it; the token of HTTP is kept in the user's data folder."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "stator.surfaces.cli.main", "mcp"],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1, done.stderr
