"""Completion in shells: what fits where, asked by a real bash, and installed by the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gen_man_page
import stator
from stator.surfaces.cli.commands import load
from stator.surfaces.cli.completion import SCRIPTS
from stator.surfaces.cli.registry import COMMANDS
from stator.surfaces.cli.signature_help import CommandHelp

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def fitting(ask):
    """The words that fit in the place of the last one."""

    def found(*words):
        answer = ask("--complete", *words)
        assert (answer.code, answer.err) == (0, "")
        return [line.partition("\t")[0] for line in answer.lines]

    return found


def test_commands_are_completed_with_their_summaries(ask, fitting):
    assert fitting("lo") == ["log"]
    assert set(fitting("")) == set(COMMANDS)
    assert ask("--complete", "log").out == f"log\t{COMMANDS['log']}\n"
    assert fitting("help", "lo") == ["log"]


def test_options_of_the_program_and_of_a_command_are_completed(fitting):
    assert "--help" in fitting("-")
    assert fitting("ls", "--st") == ["--status", "--store"]
    assert fitting("nothing", "--st") == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_completed(name, fitting):
    names = {name for one in CommandHelp(load(name)).options for name in one.names}
    assert set(fitting(name, "-")) == names
    assert {"--json", "--no-pager"} <= names


@pytest.mark.parametrize("words", [("log",), ("log", "-s"), ("files",), ("diff",), ("export",)])
def test_sessions_are_completed_by_name(words, store, fitting):
    with stator.connect(store, project="shop").open("fix basket"):
        pass
    assert fitting(*words, "fix") == ["fix basket", "fix-login"]
    assert fitting(*words, "fix-") == ["fix-login"]


def test_sessions_of_the_store_are_completed_where_the_project_has_none(
    tmp_path, world, fitting, monkeypatch
):
    with world.open(tmp_path / "other.db", project="elsewhere") as opened, opened.open("there"):
        pass
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "other.db"))
    assert fitting("log", "") == ["there"]


def test_names_of_files_are_left_to_the_shell(fitting):
    assert fitting("blame", "") == [":files"]
    assert fitting("export", "-o", "") == [":files"]


def test_choices_are_completed(fitting):
    assert fitting("workflow", "run", "x", "--effects", "r") == ["run"]


def test_without_a_store_nothing_is_completed_and_nothing_is_said(fitting):
    assert fitting("log", "fix") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_quotes_names(store):
    with stator.connect(store, project="shop").open("fix the basket"):
        pass
    script = ROOT / "src/stator/surfaces/cli/shells/stator.bash"
    asked = (
        f'source {script}\nstator() {{ {sys.executable} -m stator.surfaces.cli.main "$@"; }}\n'
        'try() { COMP_WORDS=(stator "$@"); COMP_CWORD=$#; _stator; printf "%s\\n" "${COMPREPLY[@]}"; }\n'
        "try reca\necho --\ntry log 'fix\\ the'\necho --\ntry log fix-"
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split("--\n") == ["recap\nrecall\n", "fix\\ the\\ basket\n", "fix-login\n"]
    assert done.stderr == ""


# -- installing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_asks_the_program(shell, ask):
    answer = ask("--install-completion", shell, "--print")
    assert answer.code == 0
    assert "--complete" in answer.out


@pytest.mark.parametrize("shell", SCRIPTS)
def test_completion_is_installed_where_the_shell_looks(shell, ask, tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    answer = ask("--install-completion", shell)
    assert answer.code == 0
    (path,) = [path for path in (tmp_path / "home").rglob("*stator*") if path.is_file()]
    assert path.read_text() == ask("--install-completion", shell, "--print").out


def test_the_shell_of_the_user_is_meant_if_none_is_named(ask, monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert "function __stator" in ask("--install-completion", "--print").out


def test_completion_of_an_unknown_shell_is_usage(ask):
    assert ask("--install-completion", "tcsh").code == 2


def test_the_manual_page_says_what_the_commands_say():
    assert gen_man_page.PAGE.read_text(encoding="utf-8") == gen_man_page.generate()


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_the_manual_page_is_laid_out_without_warnings():
    page = str(gen_man_page.PAGE)
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", page], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stderr == ""
    assert all(f"stator {name}" in done.stdout for name in COMMANDS)


def test_the_package_installs_the_manual_page_and_the_scripts(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1"},
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    shared = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert shared == {
        "share/man/man1/stator.1",
        "share/bash-completion/completions/stator",
        "share/zsh/site-functions/_stator",
        "share/fish/vendor_completions.d/stator.fish",
    }
