"""The commands init, tag, verify, doctor, du and sql."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import stator
from stator.surfaces.cli.commands import doctor
from stator.surfaces.cli.parts.store_file import filesystem


def damage(path: Path, statement: str) -> None:
    """Change the file behind Stator's back."""
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()


def test_init_creates_a_project_once(ask, tmp_path):
    root = tmp_path / "new"
    first = ask("init", str(root))
    assert first.code == 0
    assert first.out.count("created ") == 3
    assert (root / ".stator" / "store.db").stat().st_mode & 0o777 == 0o600
    assert (root / ".stator" / ".gitignore").read_text() == "*\n"
    project = (root / ".stator" / "project").read_text()
    again = ask("init", str(root))
    assert again.code == 0
    assert "nothing to do" in again.out
    assert (root / ".stator" / "project").read_text() == project


def test_the_store_is_found_from_folders_below(ask, tmp_path, monkeypatch):
    ask("init", str(tmp_path / "new"))
    below = tmp_path / "new" / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    with stator.open("here") as s:
        assert s.record.project.startswith("p_")
    assert "here" in ask("ls").out


def test_a_tag_can_be_used_as_a_position(store, ask):
    assert ask("tag", "before", "t1").code == 0
    assert ask("tag", "now").code == 0
    assert ask("diff", "before..now").code == 0
    assert "auth: use JWT" in ask("state", "before", "-c", "decisions").out
    assert "before → @13" in ask("show").out
    assert ask("log", "before", "--json").lines[0].startswith("{")


def test_a_tag_on_a_closed_session_is_allowed(tmp_path, world, ask):
    path = str(tmp_path / "closed.db")
    with world.open(tmp_path / "closed.db") as opened:
        opened.open("done").close()
    assert ask("tag", "final", "--store", path).code == 0


def test_verify_of_a_good_store_prints_ok_and_the_heads(store, ask):
    answer = ask("verify")
    assert answer.code == 0
    assert "OK: 1 session, 32 commits verified" in answer.out
    head = json.loads(ask("show", "--json").out)["head"]["hash"]
    assert head in answer.out
    assert ask("verify", "fix-login", "--head", head).code == 0


def test_verify_names_the_first_bad_commit(store, ask):
    damage(store, "UPDATE log SET hash = zeroblob(32) WHERE k & 0xffffffffff = 7")
    answer = ask("verify")
    assert answer.code == 1
    assert "@7" in answer.out
    found = json.loads(ask("verify", "--json").out)
    assert found["ok"] is False
    assert 7 in {finding["seq"] for finding in found["findings"]}


def test_verify_with_an_earlier_head_detects_truncation(store, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    head = json.loads(ask("show", "--json").out)["head"]["hash"]
    damage(store, "DELETE FROM log WHERE k & 0xffffffffff > 30")
    answer = ask("verify", "fix-login", "--head", head)
    assert answer.code == 1
    assert "cut off, rolled back or rewritten" in answer.out


def test_verify_of_a_damaged_file_never_crashes(store, ask):
    size = store.stat().st_size
    with open(store, "r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 2))
    answer = ask("verify")
    assert answer.code in (1, 5)


def test_doctor_reports_what_a_dead_driver_left(tmp_path, ask):
    path = str(tmp_path / "left.db")
    script = """
import os, stator, sys
@stator.tool(effect="write")
def pay(amount): os._exit(9)
with stator.connect(sys.argv[1], project="shop").open("left") as s, s.turn("go") as t:
    t.call(pay, amount=5)
"""
    subprocess.run([sys.executable, "-c", script, path], check=False, timeout=60)
    answer = ask("doctor", "--store", path)
    assert answer.code == 1
    assert "session left was interrupted" in answer.out
    assert "in doubt: pay" in answer.out
    checks = [
        one["check"] for one in json.loads(ask("doctor", "--store", path, "--json").out)["findings"]
    ]
    assert "tails" in checks  # asks for nothing, so that only JSON has it
    assert "interrupted" in ask("ls", "-l", "--store", path).out
    assert "left" in ask("ls", "--status", "interrupted", "--store", path).out


def test_doctor_shows_how_to_check_a_call_in_doubt(store, ask):
    answer = ask("doctor")
    assert answer.code == 1
    assert "in doubt: pay" in answer.out
    assert "stator settle c_" in " ".join(answer.out.split())


def test_doctor_reports_names_that_differ_only_in_unicode_form(tmp_path, ask):
    path = str(tmp_path / "a.db")
    with stator.connect(path) as store, store.open("s") as s, s.turn("x") as t:
        t.file("caf\u00e9.py", "modified")
        t.file("cafe\u0301.py", "modified")
        t.fact("\u00fc", 1)
        t.fact("u\u0308", 2)
        t.fact("u", 3)
    answer = ask("doctor", "--store", path)
    assert answer.code == 1
    assert "one file has 2 names" in answer.out
    assert r"'cafe\u0301.py' and 'caf\xe9.py'" in answer.out
    assert r"'u\u0308' and '\xfc'" in answer.out
    assert answer.out.count("has 2 names") == 2


def test_doctor_compares_the_names_of_old_sessions_only_when_asked(tmp_path, ask, monkeypatch):
    monkeypatch.setattr(doctor, "WHOLE_MAX", 0)
    monkeypatch.setattr(doctor, "SESSIONS_MAX", 1)
    path = str(tmp_path / "a.db")
    with stator.connect(path) as store:
        with store.open("old") as s, s.turn("x") as t:
            t.fact("\u00fc", 1)
            t.fact("u\u0308", 2)
        with store.open("new"):
            pass
    seldom = ask("doctor", "--store", path)
    assert "names in all but the 1 sessions used last" in " ".join(seldom.out.split())
    assert "has 2 names" not in seldom.out
    assert "one fact has 2 names" in ask("doctor", "--all", "--store", path).out


def test_doctor_reports_file_mode_and_links(tmp_path, world, ask):
    path = tmp_path / "kept.db"
    with world.open(path) as opened, opened.open("kept"):
        pass
    good = ask("doctor", "--store", str(path))
    assert good.code == 0
    assert good.out.startswith("OK: 1 session, ")
    assert len(good.lines) == 1
    path.chmod(0o644)
    os.link(path, tmp_path / "other-name.db")
    (tmp_path / "link.db").symlink_to(path)
    answer = ask("doctor", "--store", str(tmp_path / "link.db"))
    assert answer.code == 1
    assert "mode 0644" in answer.out
    assert "2 names (hard links)" in answer.out
    assert "a symbolic link to" in answer.out


def test_doctor_warns_of_a_large_write_ahead_log(store, ask):
    with open(f"{store}-wal", "ab") as file:
        file.truncate(65 * 2**20)
    assert "write-ahead log is 68.2 MB" in ask("doctor").out


def test_doctor_knows_the_filesystem_under_a_path():
    mounts = (
        "/dev/a / ext4 rw 0 0\nsrv:/x /mnt/share nfs4 rw 0 0\noverlay /mnt/c\\040d overlay rw 0 0\n"
    )
    assert filesystem("/home/a.db", mounts) == "ext4"
    assert filesystem("/mnt/share/a.db", mounts) == "nfs4"
    assert filesystem("/mnt/shared/a.db", mounts) == "ext4"
    assert filesystem("/mnt/c d/a.db", mounts) == "overlay"


def test_doctor_rebuilds_indexes_from_the_log(store, ask):
    before = ask("state", "--json").out
    damage(store, "DELETE FROM rec WHERE c = 7")
    assert ask("verify").code == 1
    assert "rebuilt every index" in ask("doctor", "--rebuild").out
    assert ask("verify").code == 0
    assert ask("state", "--json").out == before


def test_du_accounts_for_the_file(store, ask):
    found = json.loads(ask("du", "--json").out)
    usage = found["usage"]
    parts = ("log", "blobs", "indexes", "free")
    assert sum(usage[name] for name in parts) == usage["file"]
    assert found["sessions"][0]["name"] == "fix-login"
    assert "fix-login" in ask("du").out


def test_sql_prints_a_table_with_limits(store, ask):
    answer = ask("sql", "SELECT tool, status FROM calls ORDER BY seq", "-n", "2")
    assert answer.lines[0].split() == ["tool", "status"]
    assert len(answer.lines) == 3
    assert "stopped after 2 rows" in answer.err
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
    slow = ask("sql", endless, "--seconds", "0.2")
    assert slow.code == 2
    assert "took too long" in slow.err


@pytest.mark.parametrize(
    "query",
    [
        "SELECT char(27) || ']0;x' || char(7) AS a",
        'SELECT 1 AS "\x1b[2J"',
        'SELECT * FROM "\x1b[2J"',
    ],
    ids=["a value", "a column", "an error"],
)
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["table", "json"])
def test_sql_prints_no_control_character(store, ask, query, more):
    answer = ask("sql", query, *more)
    assert answer.out or answer.err
    assert not any(mark in answer.out + answer.err for mark in "\x1b\x07")
