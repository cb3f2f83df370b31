"""`stator export` and `stator import` of bundles, and a session that moves to a second machine."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import stator

STATOR = [sys.executable, "-m", "stator.surfaces.cli.main"]

AGENT = """
import sys
import stator

@stator.tool(effect="read")
def look(path):
    return "some text"

@stator.tool(effect="write")
def pay(amount):
    raise TimeoutError("no answer")

with stator.open("fix-login", agent="demo") as s:
    with s.turn(sys.argv[1]) as t:
        t.call(look, path="auth.py")
        t.decide(sys.argv[1], topic="auth")
        t.file("src/auth.py", "modified")
        if sys.argv[1] == "pay":
            try:
                t.call(pay, amount=5)
            except stator.InDoubt:
                pass
    print(s.id, s.head.hash, [doubt.tool for doubt in s.in_doubt])
"""


class Machine:
    """A home, a project in it, and an agent that works there; it shares nothing with another machine."""

    def __init__(self, root: Path, project: str) -> None:
        self.project = root / project
        self.project.mkdir(parents=True)
        (self.project / "agent.py").write_text(AGENT)
        self._environ = {"HOME": str(root), "PATH": os.environ["PATH"], "COLUMNS": "100"}
        self.stator("init")

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            words,
            cwd=self.project,
            env=self._environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + (done.stderr if code else "")

    def stator(self, *words: str, code: int = 0) -> str:
        return self.run(*STATOR, *words, code=code)

    def agent(self, prompt: str) -> list[str]:
        return self.run(sys.executable, "agent.py", prompt).strip().split(" ", 2)


@pytest.fixture
def machines(tmp_path):
    return Machine(tmp_path / "one", "work/shop"), Machine(tmp_path / "two", "elsewhere/the-shop")


def test_the_same_program_continues_an_imported_session_on_another_machine(machines, tmp_path):
    first, second = machines
    session, _, _ = first.agent("pay")
    first.stator("export", "fix-login", "-o", str(tmp_path / "x.stator"))
    second.stator("import", str(tmp_path / "x.stator"))
    found = json.loads(second.stator("show", "fix-login", "--json"))
    assert (found["id"], found["head"]["hash"]) == (
        session,
        json.loads(first.stator("show", "--json"))["head"]["hash"],
    )
    second.stator("verify")
    again, _, doubts = second.agent("go on")
    assert (again, doubts) == (session, "['pay']")
    files = second.stator("files", "fix-login")
    assert "src/auth.py" in files
    second.stator("export", "-o", str(tmp_path / "y.stator"))
    assert "fast-forward" in first.stator("import", str(tmp_path / "y.stator"))
    first.stator("verify")


def test_an_import_that_would_erase_says_so_and_needs_erase(machines, tmp_path):
    first, second = machines
    session, _, _ = first.agent("begin")
    head = json.loads(first.stator("show", "--json"))["head"]
    first.stator("export", "-o", str(tmp_path / "x.stator"))
    second.stator("import", str(tmp_path / "x.stator"))
    second.stator("erase", "--all", "-s", "fix-login", "--yes")
    second.stator("export", "-o", str(tmp_path / "y.stator"))
    back = str(tmp_path / "y.stator")
    shown = first.stator("import", back, "--dry-run")
    assert "would erase" in shown
    assert "nothing of it is imported without --erase" in shown
    assert "with 1 erasure" in shown
    refusal = first.stator("import", back, code=2)
    assert "would erase" in refusal
    assert "--erase" in refusal
    found = json.loads(first.stator("import", back, "--dry-run", "--json"))
    (gone,) = found["erased"]
    assert (gone["session"], gone["name"]) == (session, "fix-login")
    assert found["sessions"][0]["carried"]["erasures"] == 1
    assert json.loads(first.stator("show", "--json"))["head"] == head
    assert "would erase" in first.stator("import", back, "--erase")
    assert json.loads(first.stator("show", "--json"))["head"] == head
    assert "erased" in first.stator("import", back, "--erase", "--yes")
    first.stator("verify")


def test_a_session_continued_on_two_machines_becomes_a_fork_on_import(machines, tmp_path):
    first, second = machines
    first.agent("begin")
    first.stator("export", "-o", str(tmp_path / "x.stator"))
    second.stator("import", str(tmp_path / "x.stator"))
    first.agent("here")
    second.agent("there")
    second.stator("export", "fix-login", "-o", str(tmp_path / "y.stator"))
    assert "· diverged" in first.stator("import", str(tmp_path / "y.stator"))
    first.stator("verify")
    assert first.stator("ls").count("fix-login") == 2


# -- the commands ---------------------------------------------------------------------------------


@pytest.fixture
def bundle(store, ask, tmp_path):
    path = tmp_path / "x.stator"
    assert ask("export", "-o", str(path)).code == 0
    return path


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Another, empty store, set in $STATOR_STORE."""
    path = tmp_path / "other.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    return path


def test_an_export_is_named_after_its_session(store, ask):
    answer = ask("export", "--json")
    name = json.loads(answer.out)["sessions"][0]["name"]
    assert Path(f"{name}.stator").exists()


@pytest.mark.parametrize("name", ["../../evil", "a/b", ".hidden", "x\n", "-rf"])
def test_a_session_name_unsafe_for_files_is_exported_under_its_id(ask, empty, name, tmp_path):
    with stator.connect(empty, project="shop") as opened, opened.open(name):
        pass
    before = {path for path in tmp_path.rglob("*") if "other.db" not in path.name}
    answer = ask("export")
    assert answer.code == 0
    (made,) = {path for path in tmp_path.rglob("*") if "other.db" not in path.name} - before
    assert made.parent == Path.cwd()
    assert made.name.startswith("s_")


def test_an_export_overwrites_a_file_only_with_force(bundle, ask):
    answer = ask("export", "-o", str(bundle))
    assert answer.code == 2
    assert "--force" in answer.err
    assert ask("export", "-o", str(bundle), "--force").code == 0


def test_an_import_creates_a_missing_store(bundle, ask, empty):
    answer = ask("import", str(bundle), "--json")
    report = json.loads(answer.out)
    assert report["schema"] == "stator.import/1"
    assert [one["fate"] for one in report["sessions"]] == ["new"]
    assert ask("verify").code == 0
    assert ask("ls", "--json").out.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "named"), [("./shop", "{here}/shop"), ("shop", "shop"), ("{here}/a/..", "{here}")]
)
def test_a_project_given_as_a_relative_folder_becomes_absolute(
    bundle, ask, empty, tmp_path, monkeypatch, given, named
):
    monkeypatch.chdir(tmp_path)
    answer = ask("import", str(bundle), "--json", "--project", given.format(here=tmp_path))
    (one,) = json.loads(answer.out)["sessions"]
    assert one["project"] == named.format(here=tmp_path)


def test_a_dry_run_of_import_writes_nothing(bundle, ask, empty):
    with stator.connect(empty):
        pass
    assert "would import" in ask("import", str(bundle), "--dry-run").out
    assert ask("ls", "--all").out == ""


def test_show_says_that_commits_came_from_a_bundle(bundle, ask, empty):
    ask("import", str(bundle))
    said = ask("show").out
    assert "from another store" in said
    assert "authors     local:" in said
    assert "import, unverified" in ask("show", "@3").out
    assert json.loads(ask("show", "@3", "--json").out)["provenance"]["source"] == "import"


def test_content_left_out_of_a_bundle_is_reported(store, ask, empty, tmp_path, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(store))
    path = str(tmp_path / "x.stator")
    assert "left out" in ask("export", "-o", path, "--no-transcript").out
    monkeypatch.setenv("STATOR_STORE", str(empty))
    assert "left out when the bundle was exported" in ask("import", path).out
    assert "(not in the bundle)" in ask("log").out
    assert ask("verify").code == 0


def test_a_damaged_bundle_is_a_finding(bundle, ask, empty):
    bundle.write_bytes(bundle.read_bytes()[:-1])
    answer = ask("import", str(bundle))
    assert answer.code == 1
    assert "digest" in answer.err


def test_a_missing_bundle_is_not_found(ask, empty):
    assert ask("import", "nowhere.stator").code == 3


def test_an_encrypted_bundle_takes_its_passphrase_from_a_file(
    store, ask, empty, tmp_path, monkeypatch
):
    monkeypatch.setenv("STATOR_STORE", str(store))
    (tmp_path / "pass").write_text("open sesame\n")
    path = str(tmp_path / "x.stator")
    assert "encrypted" in ask("export", "-o", path, "--passphrase-file", str(tmp_path / "pass")).out
    monkeypatch.setenv("STATOR_STORE", str(empty))
    monkeypatch.setattr("sys.stdin", None)
    assert "--passphrase-file" in ask("import", path).err
    (tmp_path / "wrong").write_text("open barley\n")
    assert ask("import", path, "--passphrase-file", str(tmp_path / "wrong")).code == 1
    assert ask("import", path, "--passphrase-file", str(tmp_path / "pass")).code == 0


def test_a_fixture_is_a_bundle_marked_as_a_fixture(store, ask, tmp_path):
    from stator.runtime.bundles.file import BundleReader

    path = tmp_path / "login.stator"
    assert ask("export", "--fixture", str(path)).code == 0
    with BundleReader(str(path)) as reader:
        assert reader.header.optional == ["fixture"]


def test_names_in_a_bundle_are_escaped(ask, empty, tmp_path, monkeypatch):
    with stator.connect(empty, project="shop") as opened, opened.open("a\x1b[31mred"):
        pass
    path = str(tmp_path / "x.stator")
    assert "\x1b" not in ask("export", "-o", path).out
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "third.db"))
    assert "\x1b" not in ask("import", path).out


def test_import_on_a_terminal_shows_progress_and_the_result(bundle, empty):
    master, slave = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "STATOR_STORE": str(empty), "PAGER": "cat"}
    done = subprocess.run(
        [*STATOR, "import", str(bundle)], env=environ, stdout=slave, stderr=slave, check=False
    )
    os.close(slave)
    shown = os.read(master, 100_000).decode(errors="replace")
    os.close(master)
    assert done.returncode == 0
    assert "all hashes verified" in shown
