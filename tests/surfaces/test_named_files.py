"""A file where a session or a position is expected: `stator files auth.py`, `stator show t1 auth.py`."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

import pytest

import stator
from surfaces.recorded import program
from surfaces.test_terminal import on_terminal

HOSTILE = "\x1b]0;pwned\x07 line\n"


@stator.tool(files="path")
def write(path, data):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(data)


@pytest.fixture
def written(tmp_path, monkeypatch):
    path = tmp_path / "files.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with stator.connect(path) as store:
        with store.open("first") as s:
            s.track(contents=True)
            with s.turn("one") as t:
                t.call(write, path="src/auth.py", data=b"one\n")
            with s.turn("two") as t:
                t.call(write, path="src/auth.py", data=b"one\ntwo\n")
                t.call(write, path="logo.png", data=b"\x89PNG\0")
        with store.open("second") as s:
            s.track(contents=True)
            with s.turn("three") as t:
                t.call(write, path="src/auth.py", data=HOSTILE.encode())
                t.call(write, path="lib/auth.py", data=b"other\n")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("first:t1", "src/auth.py"),
        ("first", "t1", "auth.py"),
        ("t1", "src/auth.py", "-s", "first"),
        ("first:t1", "./src/auth.py"),
    ],
)
def test_show_prints_what_a_file_held_at_the_end_of_a_turn(words, written):
    assert program("show", *words).out == "one\n"


def test_show_prints_the_last_contents_where_no_turn_is_named(written):
    assert program("show", "first", "src/auth.py").out == "one\ntwo\n"
    assert program("show", "src/auth.py").out == HOSTILE


def test_a_file_on_a_terminal_is_escaped(written):
    shown = on_terminal("show", "second", "src/auth.py", rows=30)
    assert "\\x1b]0;pwned\\x07 line" in shown
    assert "\x1b]0;" not in shown


def test_a_file_as_json_has_its_text_or_its_bytes(written, ask):
    text = json.loads(ask("show", "first", "src/auth.py", "--json").out)
    assert (text["schema"], text["encoding"], text["content"]) == (
        "stator.file/1", "utf-8", "one\ntwo\n",
    )  # fmt: skip
    held = json.loads(ask("show", "first", "logo.png", "--json").out)
    assert b64decode(held["content"]) == b"\x89PNG\0"
    assert "no text" in ask("show", "first", "logo.png").out


def test_a_name_that_several_files_have_names_them(written, ask):
    answer = ask("show", "second", "auth.py")
    assert answer.code == 2
    assert "src/auth.py" in answer.err
    assert "lib/auth.py" in answer.err


def test_a_file_that_was_not_there_yet_is_not_found(written, ask):
    assert ask("show", "first:t1", "logo.png").code == 3
    assert ask("show", "first", "nothing.py").code == 3


def test_files_lists_the_turns_that_changed_a_file_in_every_session(written, ask):
    found = [json.loads(line) for line in ask("files", "src/auth.py", "--json").lines]
    assert [(one["path"], one["turn"], one["op"]) for one in found] == [
        ("src/auth.py", 1, "modified"),
        ("src/auth.py", 2, "modified"),
        ("src/auth.py", 1, "created"),
    ]
    assert len(ask("files", "src/auth.py", "-s", "first", "--json").lines) == 2
    assert "stator why src/auth.py" in ask("files", "src/auth.py").out


def test_files_of_a_file_that_nobody_changed_says_so(written, ask):
    answer = ask("files", "nothing.py")
    assert "no file nothing.py was changed in project shop" in answer.err


def test_diff_of_a_file_is_its_patch_over_the_session_or_the_turn_that_is_named(written, ask):
    whole = ask("diff", "first", "auth.py").out
    assert "+one\n+two\n" in whole
    assert "logo.png" not in whole
    assert "+one\n" not in ask("diff", "first", "t2", "src/auth.py").out
    assert ask("diff", "first", "t1", "logo.png").err.startswith("logo.png did not change")
    assert ask("diff", "first", "nonsense").code == 3
