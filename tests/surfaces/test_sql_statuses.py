"""`stator sql` about sessions that others are at work in, and about those that nobody is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator

SAMPLES = Path(__file__).parents[2] / "examples" / "transcripts"
PAYS = """
import os, signal, stator
pay = stator.tool(lambda cents: os.kill(os.getpid(), signal.SIGKILL), name="pay")
with stator.open("killed") as s, s.turn("pay") as t:
    t.decide("by transfer", topic="payment")
    t.call(pay, cents=5)
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    found = tmp_path / "asked.db"
    monkeypatch.setenv("STATOR_STORE", str(found))
    return found


def rows(ask, query):
    answer = ask("sql", query, "--json")
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def test_what_a_killed_program_recorded_last_is_in_the_views(path, ask):
    done = subprocess.run([sys.executable, "-c", PAYS], check=False)
    assert done.returncode == -signal.SIGKILL
    assert rows(ask, "SELECT tool, status FROM calls") == [{"tool": "pay", "status": "in doubt"}]
    assert rows(ask, "SELECT topic FROM decisions") == [{"topic": "payment"}]
    assert rows(ask, "SELECT status, turns FROM sessions") == [
        {"status": "interrupted", "turns": 1}
    ]


def test_what_is_recorded_at_this_moment_is_in_the_views(path, ask):
    with stator.connect(path) as store, store.open("live") as s, s.turn("work") as t:
        t.fact("a", 1)
        assert rows(ask, "SELECT status, turns FROM sessions") == [{"status": "active", "turns": 1}]
        t.fact("b", 2)
        names = "SELECT record ->> 'name' AS name FROM state WHERE collection = 'facts' ORDER BY 1"
        assert [row["name"] for row in rows(ask, names)] == ["a", "b"]


def test_an_imported_session_has_the_status_that_commands_show(path, ask):
    assert ask("import", str(SAMPLES), "--into", "shop").code == 0
    assert {row["status"] for row in rows(ask, "SELECT status FROM sessions")} == {"paused"}
    header, *lines = ask("ls", "-l", "--everywhere").lines
    place = header.index("STATUS")
    assert {line[place:].split()[0] for line in lines} == {"paused"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes what is read-only")
def test_a_store_that_cannot_be_written_is_still_asked(path, ask):
    with stator.connect(path) as store, store.open("work") as s, s.turn("work"):
        pass
    path.chmod(0o400)
    assert rows(ask, "SELECT turns FROM sessions") == [{"turns": 1}]
