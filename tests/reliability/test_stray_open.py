"""A stray open of the file in the writer's process drops SQLite's locks; no acknowledged commit may be lost.
On bare SQLite each of these can lose acknowledged commits to a kill, and `integrity_check` says "ok".
"""

from __future__ import annotations

import apsw
import pytest

from reliability.support import findings
from stator.connect import connect

STRAYS = ["open", "copy", "chmod", "sqlite3"]


def stray_then_kill(zygote, task, path, kind):
    """A writer makes a stray open, another process reads, 50 commits follow, kill -9; returns its last message."""
    writer = zygote.start(task, path, kind, 50)
    assert writer.hear() == "strayed"
    zygote.run("look", path)
    writer.say("go on")
    said = writer.hear()
    writer.kill()
    zygote.end(writer)
    return said


@pytest.mark.parametrize("kind", ["none", "wal", "shm", *STRAYS])
def test_commits_after_a_stray_open_survive_a_kill(zygote, path, kind):
    acknowledged = stray_then_kill(zygote, "write_past_stray", path, kind)
    assert isinstance(acknowledged, list), acknowledged
    with connect(path, project="test") as store:
        there = {commit.id for commit in store.read("main").log()}
    assert (len(acknowledged), set(acknowledged) - there) == (51, set())


@pytest.mark.parametrize("kind", STRAYS)
def test_no_commit_acknowledged_after_a_stray_open_is_lost(zygote, path, kind):
    said = stray_then_kill(zygote, "write_past_stray", path, kind)
    acknowledged = said if isinstance(said, list) else []
    with connect(path, project="test") as store:
        there = {commit.id for commit in store.read("main").log()}
    assert set(acknowledged) <= there


@pytest.mark.parametrize("kind", STRAYS)
def test_a_store_verifies_after_a_stray_open(zygote, path, kind):
    stray_then_kill(zygote, "write_past_stray", path, kind)
    assert findings(path) == []


@pytest.mark.parametrize("kind", STRAYS)
def test_a_stray_open_without_the_guard_loses_commits(zygote, tmp_path, kind):
    path = tmp_path / "bare.db"
    assert stray_then_kill(zygote, "write_past_stray_unguarded", path, kind) == "written"
    db = apsw.Connection(str(path))
    left = len(db.execute("SELECT n FROM t").fetchall())
    db.close()
    assert left < 51


def test_no_product_code_opens_the_database_from_python(zygote, path):
    assert zygote.run("exercise", path) == 0


def test_the_audit_hook_detects_product_code_that_opens_the_database(zygote, path):
    connect(path, project="test").close()
    assert "outside SQLite" in zygote.run("opens_from_product", path)
