"""`stator copy`, `stator push` and `stator pull`: two people, each with a home, and a store that both use."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

STATOR = [sys.executable, "-m", "stator.surfaces.cli.main"]
AGENT = """
import sys
import stator

with stator.open(sys.argv[1], agent="demo") as s, s.turn(sys.argv[2]) as t:
    t.fact("last", sys.argv[2])
    t.say("done")
print(s.id)
"""


class Person:
    """A home, with a project in it."""

    def __init__(self, root: Path) -> None:
        self.project = root / "work"
        self.project.mkdir(parents=True)
        (self.project / "agent.py").write_text(AGENT)
        self.environ = {"HOME": str(root), "PATH": os.environ["PATH"], "COLUMNS": "100"}
        self.stator("init")

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            words, cwd=self.project, env=self.environ, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def stator(self, *words: str, code: int = 0) -> str:
        return self.run(*STATOR, *words, code=code)

    def work(self, name: str, prompt: str) -> str:
        return self.run(sys.executable, "agent.py", name, prompt).strip()


@pytest.fixture
def ann(tmp_path):
    return Person(tmp_path / "ann")


@pytest.fixture
def bob(tmp_path):
    return Person(tmp_path / "bob")


@pytest.fixture
def team(tmp_path):
    return str(tmp_path / "team.db")


def test_a_push_without_yes_shows_what_would_go_and_writes_nothing(ann, team):
    ann.work("fix-login", "one")
    said = ann.stator("push", team)
    assert "would push" in said
    assert "--yes" in said
    assert not Path(team).exists()


def test_a_session_goes_from_one_person_to_the_other_and_back(ann, bob, team):
    session = ann.work("fix-login", "one")
    ann.stator("push", team, "--yes")
    assert session[-8:] in bob.stator("pull", team, "fix-login")
    bob.work("fix-login", "two")
    bob.stator("push", team, "--yes")
    assert "fast-forward" in ann.stator("pull", team, "fix-login")
    assert "two" in ann.stator("log", "fix-login")


def test_a_push_of_what_was_continued_there_says_to_pull(ann, bob, team):
    ann.work("fix-login", "one")
    ann.stator("push", team, "--yes")
    bob.stator("pull", team, "fix-login")
    bob.work("fix-login", "two")
    bob.stator("push", team, "--yes")
    said = ann.stator("push", team, "--yes", code=1)
    assert f"stator pull {team}" in " ".join(said.split())


def test_what_both_continued_is_pulled_as_a_fork_and_pushed_as_one(ann, bob, team):
    ann.work("fix-login", "one")
    ann.stator("push", team, "--yes")
    bob.stator("pull", team, "fix-login")
    bob.work("fix-login", "two")
    bob.stator("push", team, "--yes")
    ann.work("fix-login", "three")
    assert "diverged" in ann.stator("push", team, "--yes", code=1)
    assert "theirs" in ann.stator("pull", team, "fix-login", "--as", "theirs")
    assert "fork" in ann.stator("push", team, "--fork", "--yes")


def test_a_push_as_json_without_yes_is_a_preview(ann, team):
    ann.work("fix-login", "one")
    found = json.loads(ann.stator("push", team, "--json"))
    assert (found["schema"], found["dry_run"]) == ("stator.push/1", True)
    done = json.loads(ann.stator("push", team, "--json", "--yes"))
    assert (done["verified"], done["commits"]) == (1, found["commits"])


def test_a_push_of_a_project_is_named_by_its_folder(ann, team):
    ann.work("fix-login", "one")
    assert "1 session" in ann.stator("push", team, "--project", ".", "--yes")


def test_a_pull_as_json_names_the_session_that_has_it(ann, bob, team):
    session = ann.work("fix-login", "one")
    ann.stator("push", team, "--yes")
    found = json.loads(bob.stator("pull", team, "fix-login", "--json"))
    assert (found["schema"], found["session"]) == ("stator.pull/1", session)


def test_a_pull_from_a_store_that_is_not_there_is_an_error(ann, team):
    said = ann.stator("pull", team, "fix-login", code=5)
    assert "no store" in said
    assert not Path(team).exists()


def test_a_store_is_copied_and_verified(ann, tmp_path):
    ann.work("fix-login", "one")
    copied = str(tmp_path / "copy.db")
    assert "would copy" in ann.stator("copy", ".stator/store.db", copied, "--dry-run")
    assert not Path(copied).exists()
    assert "1 head verified" in ann.stator("copy", ".stator/store.db", copied)
    assert "nothing to copy" in ann.stator("copy", ".stator/store.db", copied)
    assert "OK" in ann.stator("verify", "--store", copied)


def test_a_copy_that_leaves_something_out_exits_with_a_finding(ann, tmp_path):
    ann.work("fix-login", "one")
    copied = str(tmp_path / "copy.db")
    ann.stator("copy", ".stator/store.db", copied)
    ann.run(sys.executable, "-c", _DRIVE.format(copied))
    said = ann.stator("copy", ".stator/store.db", copied, code=1)
    assert "longer there" in said


_DRIVE = """
import stator
with stator.connect({!r}).open("fix-login") as s, s.turn("there") as t:
    t.say("x")
"""


def test_on_a_terminal_a_push_asks(ann, team):
    ann.work("fix-login", "one")
    for answer in (b"n\n", b"y\n"):
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*STATOR, "push", team], cwd=ann.project, env={**ann.environ, "TERM": "xterm"},
            stdin=slave, stdout=slave, stderr=slave, close_fds=True,
        )  # fmt: skip
        os.close(slave)
        os.write(master, answer)
        assert process.wait(60) == 0
        os.close(master)
        assert Path(team).exists() == (answer == b"y\n")
