"""`stator.toml` comes with a folder, so nothing in it may start a program by itself."""

from __future__ import annotations

import pytest

import stator
from stator.errors import InvalidInput

TRIES = {
    "check": 'check = "CMD"',
    "pager": 'pager = "CMD"',
    "hooks": '[hooks]\nstart = "CMD"\nSessionStart = ["CMD"]',
    "run": '[run]\ncommand = ["CMD"]',
    "tools": '[tools.bash]\ncommand = "CMD"',
    "include": 'include = "CMD"',
    "plugins": 'plugins = ["CMD"]\n[env]\nPATH = "CMD"',
    "store": 'store = "CMD"',
    "approval": '[[approval]]\naction = "ask"\ncommand = "CMD"',
    "a second approval": '[[approval]]\naction = "ask"\n[[approval]]\naction = "ask"\nrun = "CMD"',
    "prices": '[prices."*"]\n"command" = "CMD"',
    "prices of a command": '[prices]\ncheck = "CMD"',
}
COMMANDS = [["ls"], ["log"], ["brief"], ["approvals"], ["ingest"], ["import", "."]]


@pytest.fixture
def started(tmp_path):
    """A program, and the file it leaves when it was started."""
    mark, program = tmp_path / "started", tmp_path / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o700)
    return mark, program


@pytest.mark.parametrize("text", TRIES.values(), ids=TRIES)
def test_a_key_that_names_a_program_is_refused_and_nothing_is_started(store, ask, started, text):
    mark, program = started
    with open("stator.toml", "w", encoding="utf-8") as file:
        file.write(text.replace("CMD", str(program)) + "\n")
    with stator.connect(store) as opened, pytest.raises(InvalidInput):
        opened.open("another", agent="a")
    assert "stator.toml" in ask("doctor").out
    for words in COMMANDS:
        ask(*words)
    assert not mark.exists()


def test_the_command_for_candidates_is_started_by_none_of_these(store, ask, started):
    mark, program = started
    with open("stator.toml", "w", encoding="utf-8") as file:
        file.write(f'extract = "{program}"\n')
    for words in [*COMMANDS, ["extract"], ["extract", "--all", "--again"]]:
        assert ask(*words).code == 0
    assert not mark.exists()


def test_rules_and_prices_are_accepted(store, ask):
    with open("stator.toml", "w", encoding="utf-8") as file:
        file.write('[[approval]]\naction = "ask"\n[prices."*"]\n"tokens:in" = 3.0\n')
    with stator.connect(store) as opened, opened.open("another", agent="a"):
        pass
    assert "stator.toml" not in ask("doctor").out
