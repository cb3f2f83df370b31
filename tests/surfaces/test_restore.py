"""`stator diff --patch` and `stator restore`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import stator
from surfaces.recorded import program
from surfaces.test_terminal import on_terminal

SECRET = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"
HOSTILE = "\x1b]0;pwned\x07 \u202e line\r\n"


@stator.tool(files="path")
def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(text.encode())


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A session of two turns in the working folder."""
    path = tmp_path / "files.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    Path("auth.py").write_text("one\n")
    with stator.connect(path) as store, store.open("work") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            t.call(write, path="auth.py", text="two\n")
        with s.turn("two") as t:
            t.call(write, path="src/new.py", text=HOSTILE)
            t.call(write, path="notes.env", text=SECRET)
    return path


def test_git_apply_accepts_the_patch(work, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "auth.py").write_text("one\n")
    subprocess.run(["git", "init", "-q"], cwd=other, check=True)
    found = program("diff", "t0..t2", "--patch")
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=other,
        input=found.out.encode(),
        check=True,
    )
    assert (other / "auth.py").read_text() == "two\n"
    assert (other / "src/new.py").read_bytes() == HOSTILE.encode()
    assert not (other / "notes.env").exists()


def test_a_patch_without_recorded_content_says_why(work, ask):
    assert "# notes.env: added; not kept: secret" in ask("diff", "t2", "--patch").lines


def test_a_patch_on_a_terminal_is_escaped(work):
    shown = on_terminal("diff", "t2", "--patch", rows=60)
    assert "\\x1b]0;pwned\\x07 \\u202e line" in shown
    assert "\x1b]0;" not in shown


def test_a_patch_as_json_has_every_file_with_its_patch_or_the_reason(work, ask):
    found = json.loads(ask("diff", "t0..t2", "--patch", "--json").out)
    assert found["schema"] == "stator.patch/1"
    assert {file["path"]: (file["change"], file["reason"]) for file in found["files"]} == {
        "auth.py": ("changed", ""),
        "notes.env": ("added", "not kept: secret"),
        "src/new.py": ("added", ""),
    }


def test_a_patch_of_a_range_without_changes_says_so(work, ask):
    found = ask("diff", "t1..t1", "--patch")
    assert (found.code, found.out) == (0, "")
    assert "no file changed" in found.err


def test_restore_is_a_dry_run_first(work, ask):
    found = ask("restore", "auth.py", "--at", "t0")
    assert found.code == 0
    assert "would restore auth.py +1 -1" in found.out
    assert "-two\n+one\n" in found.out
    assert Path("auth.py").read_text() == "two\n"


def test_restore_writes_the_file_and_shows_how_to_undo(work, ask):
    found = ask("restore", "auth.py", "src/new.py", "--at", "t0", "--apply")
    assert found.code == 0
    assert (Path("auth.py").read_text(), Path("src/new.py").exists()) == ("one\n", False)
    undo = next(line for line in found.lines if line.startswith("undo: stator "))
    assert ask(*undo.split()[2:]).code == 0
    assert Path("auth.py").read_text() == "two\n"
    assert Path("src/new.py").read_bytes() == HOSTILE.encode()


def test_the_undo_command_works_from_any_folder_and_last_session(work, ask, monkeypatch):
    with stator.connect(work) as store, store.open("another"):
        pass
    monkeypatch.chdir("src")
    found = ask("restore", "../auth.py", "--at", "work:t0", "--apply")
    undo = next(line for line in found.lines if line.startswith("undo: stator "))
    assert ask(*undo.split()[2:]).code == 0
    assert Path("../auth.py").read_text() == "two\n"


def test_restore_in_another_project_writes_nothing_by_mistake(work, ask, tmp_path, monkeypatch):
    other = tmp_path / "elsewhere"
    (other / ".stator").mkdir(parents=True)
    (other / ".stator" / "project").write_text("another\n")
    (other / "auth.py").write_text("not of that session\n")
    monkeypatch.chdir(other)
    found = ask("restore", "auth.py", "-s", "work", "--at", "t0", "--apply")
    assert found.code == 1
    assert "another project" in found.err
    assert (other / "auth.py").read_text() == "not of that session\n"


def test_paths_are_relative_to_the_current_folder(work, ask, monkeypatch):
    monkeypatch.chdir("src")
    assert "would delete src/new.py" in ask("restore", "new.py", "--at", "t1").out


def test_a_file_the_session_did_not_write_is_refused_with_exit_1(work, ask):
    Path("mine.txt").write_text("mine")
    found = ask("restore", "mine.txt", "auth.py", "--at", "t0", "--apply", "--force")
    assert found.code == 1
    assert "refused mine.txt: this session did not write it" in found.out
    assert Path("auth.py").read_text() == "two\n"


def test_a_file_edited_by_another_program_is_refused(work, ask):
    Path("auth.py").write_text("by hand\n")
    found = ask("restore", "auth.py", "--at", "t0", "--apply")
    assert found.code == 1
    assert "refused auth.py +1 -1: changed since the session left it" in found.out
    assert "restore with --yes --force" in found.out
    assert ask("restore", "auth.py", "--at", "t0", "--apply", "--force").code == 0
    assert Path("auth.py").read_text() == "one\n"


def test_a_secret_on_disk_is_not_shown(work, ask):
    found = ask("restore", "--all", "--at", "t0")
    assert "refused notes.env: what is there now cannot be kept: secret" in found.out
    assert "wJalrXUtnFEMI" not in found.out


def test_no_undo_is_shown_for_content_that_could_not_be_recorded(work, ask):
    found = ask("restore", "notes.env", "--at", "t0", "--apply", "--force")
    assert "deleted notes.env: what is there now cannot be kept: secret" in found.out
    assert "undo" not in found.out


def test_restore_all_skips_protected_files(work, ask):
    with stator.connect(work) as store:
        store.contribute("work").file("/etc/passwd", "modified")
    found = ask("restore", "--all", "--at", "t0", "--apply", "--force")
    assert found.code == 1
    assert "refused /etc/passwd" in found.out
    assert Path("auth.py").read_text() == "one\n"
    assert not os.path.exists("notes.env")


def test_restore_as_json_lists_each_file(work, ask):
    found = json.loads(ask("restore", "auth.py", "--at", "t0", "--apply", "--json").out)
    assert (found["schema"], found["applied"]) == ("stator.restore/1", True)
    assert found["seq"] == found["snapshot"] + 1
    (file,) = found["files"]
    assert (file["path"], file["action"], file["patch"]["added"]) == ("auth.py", "write", 1)


@pytest.mark.parametrize("words", [["auth.py"], ["--at", "t0"], ["a", "--all", "--at", "t0"]])
def test_restore_without_files_or_position_is_a_usage_error(work, ask, words):
    assert ask("restore", *words).code == 2
