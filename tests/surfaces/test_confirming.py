"""What cannot be undone: shown first, asked about on a terminal, done with --yes, and only shown with --dry-run."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from surfaces.test_gc import LongAgo
from waiting import PATIENCE_S, is_readable

PROGRAM = [sys.executable, "-m", "stator.surfaces.cli.main"]
QUESTION = "[y/N]"


@stator.tool(files="path")
def write(path, text):
    Path(path).write_text(text)


@pytest.fixture
def pager(tmp_path, monkeypatch):
    """A pager, so that lines wait until it is known whether they need it."""
    path = tmp_path / "page"
    path.write_text("#!/bin/sh\ncat\n")
    path.chmod(0o755)
    monkeypatch.setenv("PAGER", str(path))


def answered(*words: str, answer: str) -> tuple[str, int]:
    """What the program showed on a terminal until it asked, and its exit code after the answer."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*PROGRAM, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    )
    os.close(theirs)
    shown, is_asked = b"", False
    while is_readable(ours):
        try:
            shown += os.read(ours, 65536)
        except OSError:  # its end
            break
        if not is_asked and QUESTION.encode() in shown:
            is_asked = True
            before = shown
            os.write(ours, f"{answer}\n".encode())
    process.wait(timeout=PATIENCE_S)
    os.close(ours)
    assert is_asked, shown
    return re.sub(r"\x1b\[[0-9;]*m", "", before.decode()), process.returncode


# -- one of each that asks --------------------------------------------------------------------------


@pytest.fixture
def erasing(store):
    return ["erase", "@2"], "would erase"


@pytest.fixture
def sweeping(tmp_path, ask, monkeypatch):
    path = tmp_path / "old.db"
    with LongAgo().open(path) as opened, opened.open("old") as s, s.turn("hello") as t:
        t.say("done")
    monkeypatch.setenv("STATOR_STORE", str(path))
    ask("retention", "trash=90d", "--whole")
    return ["gc", "--force"], "trash"


@pytest.fixture
def restoring(tmp_path, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "files.db"))
    Path("auth.py").write_text("one\n")
    with stator.connect() as store, store.open("work") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            t.call(write, path="auth.py", text="two\n")
        with s.turn("two") as t:
            t.call(write, path="auth.py", text="three\n")
    return ["restore", "auth.py", "--at", "t1"], "would restore auth.py"


@pytest.fixture
def pushing(store, tmp_path):
    return ["push", str(tmp_path / "team.db"), "--of", "shop"], "fix-login"


@pytest.fixture
def trusting(store, tmp_path, monkeypatch):
    copied = tmp_path / "copied.db"
    shutil.copy(store, copied)
    monkeypatch.setenv("STATOR_STORE", str(copied))
    return ["trust"], "once you trust it"


@pytest.fixture
def rewinding(store):
    return ["rewind", "t1"], "would rewind"


@pytest.fixture
def setting_up(store):
    return ["init", "codex"], "create"


@pytest.fixture
def erased_there(store, tmp_path, ask, monkeypatch):
    """Another store, which erased content of a session that both have."""
    there = tmp_path / "there.db"
    assert ask("copy", str(store), str(there)).code == 0
    assert ask("erase", "@2", "--yes", "--store", str(there)).code == 0
    return there


@pytest.fixture
def pulling(erased_there):
    return ["pull", str(erased_there), "fix-login", "--erase"], "would erase"


@pytest.fixture
def importing(erased_there, tmp_path, ask):
    bundle = str(tmp_path / "there.stator")
    assert ask("export", "-o", bundle, "--store", str(erased_there)).code == 0
    return ["import", bundle, "--erase"], "would erase"


@pytest.fixture
def working(store):
    call = {"id": "c1", "tool": "Bash", "input": {"command": "touch made"}}
    plain = {"schema": "stator.workflow/1", "name": "w", "root": "/a", "calls": [call]}
    Path("w.json").write_text(json.dumps(plain))
    return ["workflow", "run", "w.json", "--effects", "run"], "touch made"


ALL = [
    "erasing", "sweeping", "restoring", "pushing", "trusting", "rewinding", "setting_up", "pulling",
    "importing", "working",
]  # fmt: skip
ACTS_IN_A_PIPE = "rewinding"
"""A rewind can be taken back: it asks on a terminal only."""


@pytest.fixture(params=ALL)
def act(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[one for one in ALL if one != ACTS_IN_A_PIPE])
def final(request):
    return request.getfixturevalue(request.param)


def logged(ask):
    """What the store and the folder hold."""
    log = ask("log", "--json", "--full")
    trash = ask("ls", "--trash", "--json", "--everywhere")
    files = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    return log.out, trash.out, files


def test_everything_is_on_the_terminal_before_the_question(act, pager):
    words, shows = act
    before, code = answered(*words, answer="n")
    assert shows in before.split(QUESTION)[0]
    assert code == 0


def test_a_preview_that_nobody_confirmed_is_an_answer_and_changes_nothing(final, ask):
    words, shows = final
    before = logged(ask)
    answer = ask(*words)
    assert (answer.code, shows in answer.out) == (0, True), answer
    assert logged(ask) == before


def test_a_dry_run_only_shows(act, ask):
    words, shows = act
    before = logged(ask)
    answer = ask(*words, "--dry-run")
    assert (answer.code, shows in answer.out) == (0, True), answer
    assert logged(ask) == before


def test_a_dry_run_and_a_yes_are_a_contradiction(act, ask):
    words, _ = act
    answer = ask(*words, "--dry-run", "--yes")
    assert (answer.code, answer.out) == (2, "")
    assert "--dry-run only shows what --yes does" in answer.err


def test_a_yes_does_it_without_asking(act, ask):
    words, _ = act
    before = logged(ask), ask("trust", "--json").out
    answer = ask(*words, "--yes")
    assert answer.code == 0, answer
    is_elsewhere = words[0] in ("push", "init")
    assert is_elsewhere or (logged(ask), ask("trust", "--json").out) != before


# -- what each says ---------------------------------------------------------------------------------


def test_a_pull_that_may_erase_does_not_say_that_it_may_not(pulling, ask):
    words, _ = pulling
    assert "--erase" not in ask(*words, "--dry-run").out
    assert "nothing of it is imported without --erase" in ask(*words[:-1], "--dry-run").out


def test_an_import_that_erases_nothing_here_does_not_ask(store, tmp_path, ask):
    bundle = str(tmp_path / "x.stator")
    ask("export", "-o", bundle)
    there = str(tmp_path / "new.db")
    answer = ask("import", bundle, "--erase", "--store", there)
    assert answer.code == 0
    assert ask("ls", "--everywhere", "--store", there, "--json").lines


def test_a_sweep_that_was_forced_says_what_it_did(sweeping, ask):
    preview = ask("gc")
    assert "it would remove 1 of 1 session" in preview.out
    assert "confirm with --yes --force" in preview.out
    done = ask("gc", "--yes", "--force")
    assert "trash 1 of 1 session" in done.out
    assert "would" not in done.out


def test_a_workflow_in_a_pipe_says_what_runs_and_what_waits(working, ask):
    words, _ = working
    answer = ask(*words[:3])
    said = " ".join(line.strip() for line in answer.lines[:2])
    assert "reads run now, the first write waits for approval" in said
    assert "nothing has run yet" not in answer.out
    assert not Path("made").exists()
