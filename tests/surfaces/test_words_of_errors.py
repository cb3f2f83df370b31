"""Errors in the words of the command line: the option, the file, the store and the variable that were meant."""

from __future__ import annotations

import json
import shutil

import pytest


def test_export_onto_a_file_is_a_mistake_in_the_words_and_names_force(store, tmp_path, ask):
    path = str(tmp_path / "x.stator")
    assert ask("export", "-o", path).code == 0
    answer = ask("export", "-o", path)
    assert answer.code == 2
    assert answer.err.endswith("exists already (give another name, or replace it with --force)\n")
    assert ask("export", "-o", path, "--force").code == 0


@pytest.mark.parametrize("command", ["export", "share"])
def test_a_folder_in_place_of_a_file_is_called_one(store, tmp_path, ask, command):
    answer = ask(command, "fix-login", "-o", str(tmp_path), "--force")
    assert answer.code == 2
    assert f"{tmp_path} is a folder" in answer.err
    assert "--force" not in answer.err


def test_a_bundle_that_would_erase_names_only_the_option(store, tmp_path, ask):
    there, bundle = str(tmp_path / "there.db"), str(tmp_path / "x.stator")
    ask("copy", str(store), there)
    ask("erase", "@2", "--yes", "--store", there)
    ask("export", "-o", bundle, "--store", there)
    for words in (["import", bundle], ["pull", there, "fix-login"]):
        answer = ask(*words, "--json")
        text, document = answer.err.splitlines()
        assert answer.code == 2 or words[0] == "import"
        assert "--erase" in text
        assert "erasures=" not in text + document


def test_an_unknown_strategy_is_named_as_it_was_typed(store, ask):
    assert "unknown strategy 'bogus'" in ask("compact", "--strategy", "bogus").err


def test_replay_says_which_file_is_not_there(store, ask):
    answer = ask("replay", "fix-login", "nosuch.py:main")
    assert answer.code == 2
    assert "no file 'nosuch.py'" in answer.err


@pytest.mark.parametrize("words", [["ls", "-n", "0"], ["log", "-n", "99999"], ["sql", "x", "-n=0"]])
def test_a_number_that_no_list_takes_is_refused_by_the_name_of_its_option(store, ask, words):
    answer = ask(*words)
    assert answer.code == 2
    assert answer.err.startswith("stator: -n must be a whole number from 1 to ")
    assert ask("calls", "--last", "0").err.startswith("stator: --last must be a whole number")


def test_a_store_that_is_not_there_is_made_by_the_command_that_the_error_names(tmp_path, ask):
    for option in (["--store", "no such.db"], ["--store=no such.db"]):
        assert "create one: stator init --store 'no such.db')" in ask("ls", *option).err
    assert ask("init", "--store", "no such.db").code == 0
    assert ask("ls", "--store", "no such.db").code == 0


def test_a_damaged_store_is_looked_at_by_the_command_that_the_error_names(store, tmp_path, ask):
    shutil.copy(store, tmp_path / "work" / "damaged.db")
    with open("damaged.db", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_000)
    answer = ask("ls", "--store", "damaged.db")
    assert answer.code == 5
    assert "stator doctor --store damaged.db" in answer.err


def test_an_error_names_the_variable_that_named_the_session(store, ask, monkeypatch):
    monkeypatch.setenv("STATOR_SESSION", "nosuch")
    assert "no session 'nosuch', which $STATOR_SESSION names" in ask("log").err
    assert "$STATOR_SESSION" not in ask("log", "-s", "other").err


def test_the_trash_shows_at_most_n_and_says_that_there_is_more(store, world, ask, tmp_path):
    for number in range(3):
        with world.open(store) as opened, opened.open(f"s{number}") as s, s.turn("x"):
            pass
    ask("retention", "trash=0d", "--whole")
    ask("gc", "--max-size", "1KB", "--yes", "--force")
    whole = ask("ls", "--trash", "--everywhere", "--json").lines
    if len(whole) < 2:
        pytest.skip("nothing was old enough")
    answer = ask("ls", "--trash", "--everywhere", "-n", "1")
    assert answer.lines[-1] == "… more sessions than this one: -n 2"
    assert len(answer.lines) == 3
    assert len(ask("ls", "--trash", "--everywhere", "-n", "1", "--json").lines) == 1


def test_a_list_of_sessions_as_json_says_what_the_text_says(store, ask):
    (line,) = ask("ls", "--json").lines
    found = json.loads(line)
    assert (found["ended"], found["asked"], found["files"]) == ("in doubt", "fix the login bug", 2)
    assert ask("ls", "--status", found["ended"], "--json").lines
    assert ask("ls", "--status", found["shown"], "--json").lines
