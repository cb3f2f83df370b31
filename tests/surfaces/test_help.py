"""Help and start-up time."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys

import pytest

import stator
from stator.surfaces.cli import commands
from stator.surfaces.cli.commands import examples, load
from stator.surfaces.cli.parser import app, parse
from stator.surfaces.cli.program_help import help_text
from stator.surfaces.cli.registry import COMMANDS, EVERYDAY, GROUPS
from surfaces.recorded import program


def test_the_help_lists_every_command():
    files = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert {commands.python_name(name) for name in COMMANDS} == files
    assert set(app().resolved_commands()) - {"-h", "--help", "--version"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_help_is_the_commands_own_first_line(name):
    assert (inspect.getdoc(load(name)) or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json_a_store_and_help_with_an_example(name, ask):
    signature = inspect.signature(load(name))
    store = "source" if name == "copy" else "store"  # it names both of its stores
    assert {"json", store, "no_pager"} <= set(signature.parameters)
    answer = ask(name, "--help")
    assert answer.code == 0
    assert COMMANDS[name] in answer.out
    assert "--json" in answer.out
    assert ("SOURCE" if name == "copy" else "--store") in answer.out
    assert f"\n  stator {name}" in answer.out.partition("Examples:")[2]
    assert ask(name, "-h").out == ask("help", name).out == answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_can_be_parsed(name, monkeypatch):
    for line in examples(name).strip().splitlines():
        typed = line.split("  ")[0].split(" | ")[0].split(" || ")[0]
        words = shlex.split(typed.replace("3fa9…", "3f" * 32))
        assert words[0] == "stator"
        assert len(words) <= 2 or parse(words[1:]) is not None


def test_the_help_explains_the_everyday_commands_and_names_all_others(ask):
    answer = ask("--help")
    assert answer.code == 0
    assert answer.out == help_text() == ask("help").out
    assert max(map(len, answer.lines)) <= 80
    everyday = [name for names in EVERYDAY.values() for name in names]
    assert 12 <= len(everyday) <= 16
    for name in everyday:
        assert any(line.startswith(f"  {name} ") for line in answer.lines)
    others = answer.out.partition("stator --help --all\n")[2].partition("\n\n")[0]
    named = re.sub(r"\([^)]*\)", "", others).split()  # without the words that some are explained by
    assert sorted(named + everyday) == sorted([*COMMANDS, *GROUPS])


def test_the_help_of_one_command_is_found_either_way_round(ask):
    assert ask("--help", "log").out == ask("log", "--help").out
    assert ask("--help", "lgo").code == 2


def test_the_whole_help_fits_into_80_columns_and_names_the_groups(ask):
    answer = ask("--help", "--all")
    assert answer.code == 0
    assert answer.out == help_text(everything=True) == ask("help", "--all").out
    assert max(map(len, answer.lines)) <= 80
    assert [line for line in answer.lines if line in GROUPS] == [
        "Ask",
        "Steer",
        "Recover",
        "Keep",
        "Connect",
    ]


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("name", [*COMMANDS, ""])
def test_no_line_of_the_help_is_wider_than_the_terminal(name, columns, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = ask(*([name] if name else []), "--help")
    assert max(map(len, answer.lines)) <= columns


def test_help_text_is_not_read_as_markup_or_emoji(ask, monkeypatch):
    written = """Erase :phone: and [bold]this[/bold].

    Parameters
    ----------
    call
        Such as facts:phone: or [red]that[/red].
    """
    monkeypatch.setattr(load("erase"), "__doc__", written)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = ask("erase", "--help").out
    assert "Erase :phone: and [bold]this[/bold]." in shown
    assert "Such as facts:phone: or [red]that[/red]." in shown


def test_a_paragraph_of_the_help_is_wrapped_once(ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = ask("import", "--help").lines
    prose = lines[lines.index("") + 1 : lines.index("Options:")]
    short = [n for n, line in enumerate(prose[:-1]) if line and len(line) < 40 and prose[n + 1]]
    assert not short


def test_a_long_example_continues_on_the_next_line_as_a_shell_reads_it():
    from stator.surfaces.cli.command_help import example_lines

    line = "stator search 'two words' --tool bash --path tests/ --since 30d --not retry"
    assert example_lines(line, 50) == [
        "  stator search 'two words' --tool bash --path \\",
        "      tests/ --since 30d --not retry",
    ]


def test_the_version(ask):
    assert ask("--version").out == f"stator {stator.__version__}\n"


LIGHT = {"apsw", "msgspec", "rich", "cyclopts", "attrs", "attr", "inspect", "dataclasses", "json"}


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ([], LIGHT),
        (["--help"], LIGHT),
        (["--help", "--all"], LIGHT),
        (["--version"], LIGHT),
        (["log"], {"rich", "cyclopts", "attrs"}),
    ],
    ids=["import", "help", "all help", "version", "log"],
)
def test_starting_loads_only_what_is_needed(words, absent, store):
    code = (
        "import sys\nfrom stator.surfaces.cli.main import main\n"
        f"words = {words!r}\nif words: main(words)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(done.stderr.split())


HEAVY = {"rich", "cyclopts", "attrs", "attr", "shutil", "secrets", "difflib", "subprocess"}
UNUSED = {"typing_extensions", "inspect", "ast", "dis", "tokenize", "dataclasses", "html"}
"""What msgspec or a class would load, and no answer needs."""
PARSER = {"cyclopts", "attrs", "attr"}
LOADED = (
    "import sys\nfrom stator.surfaces.cli.main import main\nmain(sys.argv[1:])\n"
    "print(*sorted(sys.modules), file=sys.stderr)"
)


@pytest.mark.parametrize(
    "typed",
    [
        "", "status --json", "ls --all", "ls --status paused -n 3 --json", "log t1",
        "log --limit=3 --kind call --kind outcome", "diff t1..t2", "diff --json",
    ],
)  # fmt: skip
def test_the_first_questions_load_neither_parser_nor_colours_when_piped(typed, store):
    loaded = modules(typed)
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | UNUSED)


@pytest.mark.parametrize(
    "typed",
    [
        "show head", "state t1 --json", "files last", "calls --limit 3", "decisions last", "evicted last",
        "why README.md", "brief --max-tokens 500", "recap last", "search word --limit 3", "tree last", "reflog last",
        "artifact --json", "du --json", "sql 'select 1' --json", "blame README.md",
    ],
)  # fmt: skip
def test_asking_commands_with_arguments_load_neither_parser_nor_colours_when_piped(typed, store):
    loaded = modules(typed)
    assert not {name.partition(".")[0] for name in loaded} & (PARSER | {"rich"})


@pytest.mark.parametrize("typed", ["ls --all", "log -n 3", "diff t1..t2", "show head"])
def test_asking_commands_load_no_parser_on_a_terminal(typed, store):
    ours, theirs = os.openpty()
    try:
        loaded = modules(typed, stdout=theirs, TERM="xterm", PAGER="cat")
    finally:
        os.close(theirs)
        os.close(ours)
    assert not {name.partition(".")[0] for name in loaded} & PARSER


@pytest.mark.parametrize("typed", ["ls --all", "log -n 3", "diff t1..t2"])
def test_the_first_questions_load_no_rules_for_shortening_a_transcript(typed, store):
    loaded = modules(typed)
    assert not loaded & {"stator.model.window.compaction", "stator.model.window.messages"}


def modules(typed: str, stdout: int = subprocess.DEVNULL, **environ: str) -> set[str]:
    """The modules that are loaded once a command has run."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *shlex.split(typed)],
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=True, env=os.environ | environ,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())


def test_diff_loads_neither_dialects_nor_what_imports_transcripts(store):
    code = (
        "import sys\nfrom stator.surfaces.cli.main import main\nmain(['diff'])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unwanted = ("exchange.item_commits", "window.dialects", "runtime.ingest", "importers", "hooks")
    loaded = [name for name in done.stderr.split() if any(part in name for part in unwanted)]
    assert not [name for name in loaded if name.startswith("stator.")]


def test_a_list_of_sessions_loads_nothing_that_drives_or_reads_one(store):
    code = (
        "import sys\nfrom stator.surfaces.cli.main import main\nmain(['ls'])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unwanted = ("facade.view", "facade.session", "driving", "views.diff", "sandbox", "extraction")
    loaded = [name for name in done.stderr.split() if any(part in name for part in unwanted)]
    assert not [name for name in loaded if name.startswith("stator.")]


def test_the_installed_program_runs(store):
    answer = program("log", "-n", "1")
    assert answer.code == 0
    assert "pause" in answer.out


def test_stator_connect_is_the_function_after_its_module_is_imported():
    code = "import stator; stator.open; from stator.connect import StorePlace; stator.connect('memory:')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "stator", "--version"], capture_output=True, text=True, check=True
    )
    assert stator.__version__ in done.stdout
