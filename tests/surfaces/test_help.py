"""Help, start-up and completion: fast, and never saying what the program does not do."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys

import pytest

import stator
from stator.surfaces.cli import commands
from stator.surfaces.cli.commands import examples, load
from stator.surfaces.cli.parser import app, parse
from stator.surfaces.cli.registry import COMMANDS, GROUPS, help_text
from surfaces.recorded import program


def test_the_help_lists_exactly_the_commands_there_are():
    files = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert {commands.spelled(name) for name in COMMANDS} == files
    assert set(app().resolved_commands()) - {"-h", "--help", "--version"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_help_is_the_commands_own_first_line(name):
    assert (inspect.getdoc(load(name)) or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_a_store_and_help_with_an_example(name, ask):
    signature = inspect.signature(load(name))
    assert {"json", "store", "no_pager"} <= set(signature.parameters)
    answer = ask(name, "--help")
    assert answer.code == 0
    assert COMMANDS[name] in answer.out
    assert "--json" in answer.out
    assert "--store" in answer.out
    assert f"Examples:\n  stator {name}" in answer.out
    assert ask(name, "-h").out == ask("help", name).out == answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_understood(name, monkeypatch):
    import shlex

    for line in examples(name).strip().splitlines():
        typed = line.split("  ")[0].split(" | ")[0].split(" || ")[0]
        words = shlex.split(typed.replace("3fa9…", "3f" * 32))
        assert words[0] == "stator"
        assert len(words) == 2 or parse(words[1:]) is not None


def test_the_help_fits_into_80_columns_and_names_the_groups(ask):
    answer = ask("--help")
    assert answer.code == 0
    assert answer.out == help_text() == ask().out
    assert max(map(len, answer.lines)) <= 88
    assert [line for line in answer.lines if line in GROUPS] == [
        "Ask",
        "Steer",
        "Recover",
        "Keep",
        "Connect",
    ]


def test_the_version(ask):
    assert ask("--version").out == f"stator {stator.__version__}\n"


LIGHT = {"apsw", "msgspec", "rich", "cyclopts", "attrs", "attr", "inspect", "dataclasses", "json"}


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ([], LIGHT),
        (["--help"], LIGHT),
        (["--version"], LIGHT),
        (["log"], {"rich", "cyclopts", "attrs"}),
        (["log", "-n", "3"], {"rich"}),
    ],
    ids=["import", "help", "version", "log", "log with arguments"],
)
def test_starting_loads_only_what_is_needed(words, absent, store):
    code = (
        "import sys\nfrom stator.surfaces.cli.main import main\n"
        f"words = {words!r}\nif words: main(words)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(done.stderr.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell, ask):
    answer = ask("--install-completion", shell, "--print")
    assert answer.code == 0
    assert all(name in answer.out for name in COMMANDS)


def test_completion_is_installed_where_the_shell_looks(ask, tmp_path):
    answer = ask("--install-completion", "bash")
    assert answer.code == 0
    assert list((tmp_path / "home").rglob("stator"))


def test_completion_of_an_unknown_shell_is_usage(ask):
    assert ask("--install-completion", "tcsh").code == 2


def test_the_installed_program_runs(store):
    answer = program("log", "-n", "1")
    assert answer.code == 0
    assert "pause" in answer.out


def test_the_front_door_is_not_hidden_by_the_module_behind_it():
    code = "import stator; stator.open; from stator.connect import StorePlace; stator.connect('memory:')"
    subprocess.run([sys.executable, "-c", code], check=True)
