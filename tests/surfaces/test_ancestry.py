"""Which processes count as agents, and what this process runs below."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stator.owner import ancestry
from stator.owner.ancestry import agent_name, ancestors

MODULES = "/usr/lib/node_modules"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("claude",), "claude"),
        (("/home/ann/.local/bin/claude", "-p", "hello"), "claude"),
        (("node", f"{MODULES}/@anthropic-ai/claude-code/cli.js"), "claude-code"),
        (("node", "--no-warnings", f"{MODULES}/@google/gemini-cli/dist/index.js"), "gemini-cli"),
        (("node", f"{MODULES}/.bin/codex"), "codex"),
        (("python3.12", "/usr/bin/aider"), "aider"),
        (("/opt/opencode/bin/opencode",), "opencode"),
        (("bun", f"{MODULES}/opencode-ai/bin/opencode"), "opencode"),
        (("-zsh",), ""),
        (("vim", "codex.py"), ""),
        (("python", "/home/ann/codex/run.py"), ""),
        (("node", "server.js", "claude"), ""),
        (("git", "commit", "-m", "claude"), ""),
        ((), ""),
    ],
)
def test_an_agent_is_known_by_its_program(words, name):
    assert agent_name(words) == name


def test_a_marked_process_above_this_one_is_found(monkeypatch):
    monkeypatch.setattr(ancestry, "ancestors", ancestors)  # not those up to this test alone
    assert ancestry.below({os.getppid(): "driver 1 (a.py)"}, {}) == "driver 1 (a.py)"


def test_this_process_itself_counts():
    assert ancestry.below({os.getpid(): "driver 1 (a.py)"}, {}) == "driver 1 (a.py)"


def test_the_ancestors_begin_with_the_process_itself_and_end_at_the_first():
    found = [process.pid for process in ancestors(os.getpid())]
    assert found[:2] == [os.getpid(), os.getppid()]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("variable", ancestry.VARIABLES)
def test_a_variable_that_agents_set_is_a_hint(variable, monkeypatch):
    monkeypatch.setattr(ancestry, "ancestors", lambda pid: iter(()))
    assert f"(${variable})" in ancestry.below({}, {variable: "1"})


def test_nothing_is_found_where_nothing_is(monkeypatch):
    monkeypatch.setattr(ancestry, "ancestors", lambda pid: iter(()))
    assert ancestry.below({}, {"PATH": "/bin"}) == ""


def test_an_agent_by_its_name_is_found_below_a_shell(tmp_path):
    """A program that is called claude starts a shell, which starts us."""
    program = tmp_path / "claude"
    program.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\nsubprocess.run(sys.argv[1:])\n"
    )
    program.chmod(0o700)
    look = "from stator.owner import ancestry; print(ancestry.below({}, {}))"
    done = subprocess.run(
        [program, "sh", "-c", f"{sys.executable} -c '{look}'; true"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("agent claude, process ")


def test_where_there_is_no_proc_the_list_of_processes_is_asked(monkeypatch):
    listed = ancestry._listed()
    assert listed[os.getpid()].parent == os.getppid()
