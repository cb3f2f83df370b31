"""What commands show of files whose contents were not recorded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import stator
from surfaces.recorded import program

LOST = "its contents were not recorded"
REMEDY = "s.track(contents=True) records contents from now on"


@stator.tool(files="path")
def write(path, text):
    Path(path).write_text(text)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A session of two turns that records which files it writes, and not what they hold; its short id."""
    path = tmp_path / "files.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with stator.connect(path) as store, store.open("shop") as s:
        with s.turn("count cents") as t:
            t.call(write, path="basket.py", text="one\n")
            t.call(write, path="basket.py", text="one\ntwo\n")
        with s.turn("round the tax") as t:
            t.call(write, path="tax.py", text="tax\n")
    return s.id


def arguments(found):
    """The place that an answer names for the arguments of a call."""
    (line,) = [line for line in found.lines if "the call's arguments: " in line]
    return line.rpartition("stator show ")[2].split()[0]


def test_a_patch_without_contents_says_so_and_names_the_call(shop, ask):
    found = ask("diff", "shop", "t2", "--patch")
    assert found.lines[0] == f"# tax.py: added; {LOST}"
    assert found.lines[-1] == f"# {REMEDY}"
    assert "text: tax" in " ".join(ask("show", arguments(found)).out.split())


def test_every_line_about_contents_that_a_patch_lacks_is_a_comment(shop, ask):
    with stator.connect() as store, store.open("shop") as s:
        s.track(contents=True)
        with s.turn("and keep this one") as t:
            t.call(write, path="kept.py", text="kept\n")
    Path("kept.py").unlink()
    found = program("diff", "shop", "t1..t3", "--patch")
    assert f"# {REMEDY}" in found.out
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply", "-"], input=found.out.encode(), check=True)
    assert Path("kept.py").read_text() == "kept\n"


def test_a_restore_says_that_contents_were_not_recorded(shop, ask):
    found = ask("restore", "basket.py", "--at", "shop:t1")
    assert found.code == 1
    assert f"not kept basket.py: {LOST}" in found.lines
    assert REMEDY in found.lines
    assert "text: one two" in " ".join(ask("show", arguments(found)).out.split())


def test_a_call_whose_contents_were_not_recorded_says_how_they_are(shop, ask):
    place = arguments(ask("diff", "shop", "t2", "--patch"))
    shown = ask("show", place).out
    assert f"tax.py  ({LOST})" in shown
    assert REMEDY in shown


def test_files_of_a_session_say_why_no_lines_are_counted(shop, ask):
    found = ask("files", "shop")
    assert found.lines[-2:] == ["lines are not counted: contents were not recorded", REMEDY]


def test_files_of_a_session_say_of_how_many_no_lines_are_counted(shop, ask):
    with stator.connect() as store, store.open("shop") as s:
        s.track(contents=True)
        with s.turn("and keep this one") as t:
            t.call(write, path="kept.py", text="kept\n")
    found = ask("files", "shop").out
    assert "lines of 2 files are not counted: contents were not recorded" in found
    assert "not counted" not in ask("files", "shop", "t3").out


def test_a_line_that_one_of_several_turns_wrote_names_them(shop, ask):
    with stator.connect() as store, store.open("shop") as s, s.turn("again") as t:
        t.call(write, path="tax.py", text="tax\nmore\n")
    found = ask("why", "tax.py:2")
    assert found.lines[0].startswith("tax.py:2 · from one of 2 edits in 1 session")
    assert any(line.startswith(REMEDY) for line in found.lines)
    assert "text: tax more" in " ".join(ask("show", arguments(found)).out.split())


def test_the_lines_of_a_file_that_one_turn_made_are_of_that_turn(shop, ask):
    assert [line.split()[1:3] for line in ask("blame", "basket.py").lines] == [["shop", "t1"]] * 2
    assert ask("why", "tax.py:1").lines[0].startswith("tax.py:1 · from 1 edit in 1 session")
