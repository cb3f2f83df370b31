"""`stator workflow run` of what a recorded chat did, as a person runs it; and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from stator.surfaces.cli.main import main
from waiting import eventually

BASE = {"schema": "stator.workflow/1", "name": "sort", "root": "/home/ann/inbox"}
DATE = {"$param": "date"}


@pytest.fixture
def inbox(monkeypatch, tmp_path):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "a.db"))
    folder = tmp_path / "inbox"
    (folder / "2026-11-16").mkdir(parents=True)
    (folder / "2026-11-16" / "invoice-1.pdf").write_text("x")
    return folder


def workflow_file(*calls, **more):
    made = [
        {"id": f"c{n}", "tool": tool, "input": given} for n, (tool, given) in enumerate(calls, 1)
    ]
    path = Path("sort.json")
    path.write_text(json.dumps({**BASE, "calls": made, **more}))
    return str(path)


def sorting():
    move = ["mkdir -p done && mv /home/ann/inbox/", DATE, "/*.pdf done/"]
    note = {"$text": ["/home/ann/inbox/", DATE, "/sorted.md"]}
    return workflow_file(
        ("LS", {"path": {"$text": ["/home/ann/inbox/", DATE]}}),
        ("Bash", {"command": {"$text": move}}),
        ("Write", {"file_path": note, "content": "all\n"}),
        parameters=[{"name": "date", "default": "2026-11-15"}],
    )


def test_a_dry_run_shows_commands_and_files_and_runs_nothing(inbox, capsys):
    words = ["workflow", "run", sorting(), "--root", str(inbox), "--set", "date=2026-11-16"]
    assert main([*words, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"$ mkdir -p done && mv {inbox}/2026-11-16/*.pdf done/" in shown
    assert "write 2026-11-16/sorted.md" in shown
    assert "+ all" in shown
    assert sorted(os.listdir(inbox)) == ["2026-11-16"]


def test_without_a_yes_reads_run_and_the_first_write_waits(inbox, capsys):
    words = ["workflow", "run", sorting(), "--root", str(inbox), "--set", "date=2026-11-16"]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "$ mkdir -p done" in shown
    assert "awaiting approval" in shown
    assert sorted(os.listdir(inbox)) == ["2026-11-16"]


def test_with_a_yes_everything_runs_in_the_chosen_folder(inbox, capsys):
    words = ["workflow", "run", sorting(), "--root", str(inbox), "--set", "date=2026-11-16"]
    assert main([*words, "--yes"]) == 0
    assert (inbox / "done" / "invoice-1.pdf").exists()
    assert (inbox / "2026-11-16" / "sorted.md").read_text() == "all\n"


def test_a_workflow_of_tools_that_nobody_has_is_refused_with_their_name(inbox, capsys):
    path = workflow_file(("WebFetch", {"url": "http://example.org"}))
    assert main(["workflow", "run", path, "--root", str(inbox), "--yes"]) == 2
    assert "there is no tool 'WebFetch'" in capsys.readouterr().err


def test_what_would_be_shown_cannot_move_the_cursor(inbox, capsys):
    path = workflow_file(("Bash", {"command": "echo \x1b[2J\x07\nrm -rf x"}))
    assert main(["workflow", "run", path, "--root", str(inbox), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "rm -rf x" in shown


def test_a_killed_workflow_leaves_a_call_in_doubt_and_continues_after_it_is_settled(inbox, capsys):
    path = workflow_file(
        ("Bash", {"command": "echo once >> log"}),
        ("Bash", {"command": "echo $$ > pid; while test ! -e go; do sleep 0.05; done"}),
        ("Bash", {"command": "echo last >> log"}),
    )
    words = ["workflow", "run", path, "--root", str(inbox), "--session", "w", "--yes"]
    program = subprocess.Popen([sys.executable, "-m", "stator", *words], stdout=subprocess.DEVNULL)
    eventually(lambda: (inbox / "pid").exists() and (inbox / "pid").read_text().strip())
    program.send_signal(signal.SIGKILL)
    program.wait()
    (inbox / "go").touch()

    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "in doubt: stator settle c_" in shown
    assert (inbox / "log").read_text() == "once\n"

    with stator.connect(os.environ["STATOR_STORE"]) as store:
        (call,) = store.read("w").calls(status="in doubt")
    assert main(["settle", call.call, "--done"]) == 0
    assert main(words) == 0
    assert (inbox / "log").read_text() == "once\nlast\n"
