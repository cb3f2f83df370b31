"""Tests the program that takes in what hooks queued, in the background."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import stator
from importers.hook_lines import DEAD, HookedStore, conversation_lines, hook_input, kinds, prompt
from stator.surfaces import hook


@pytest.fixture
def hooked(tmp_path):
    return HookedStore(tmp_path)


def run_ingester(hooked):
    command = [sys.executable, "-m", hook.INGESTER, str(hooked.path), str(hooked.root), "named"]
    return subprocess.run(command, env=hooked.environ, capture_output=True, check=True, timeout=60)


def test_it_takes_in_what_is_queued(hooked):
    hooked.write(*conversation_lines(), process=DEAD)
    run_ingester(hooked)
    assert hooked.lines() == []
    with stator.connect(hooked.path, read_only=True) as store:
        assert "turn_end" in kinds(store)


def test_it_ends_conversations_whose_agent_died_when_another_one_starts(hooked):
    hooked.write(hook_input("sessionStart"), prompt(), process=DEAD)
    hooked.write(hook_input("sessionStart", "c2"))
    run_ingester(hooked)
    with stator.connect(hooked.path, read_only=True) as store:
        assert kinds(store)[-1] == "pause"


def test_a_store_that_is_gone_is_no_error(hooked):
    hooked.path.unlink()
    assert run_ingester(hooked).stderr == b""


@pytest.mark.parametrize(
    ("name", "rings"),
    [("SessionStart", True), ("Stop", True), ("SessionEnd", True), ("PreToolUse", False)],
)
def test_a_hook_starts_it_when_the_transcript_holds_more(hooked, monkeypatch, name, rings):
    started = []
    monkeypatch.setattr(hook, "_start_ingester", lambda *given, **more: started.append(given))
    monkeypatch.setattr(
        hook, "_read_all", lambda: (b'{"hook_event_name": "%s"}' % name.encode(), "")
    )
    monkeypatch.setattr("stator.surfaces.hook_answer.answer", lambda *given, **more: b"")
    monkeypatch.setenv("STATOR_INGESTER", "")
    monkeypatch.chdir(hooked.root)
    hook._record(["claude-code", "--store", str(hooked.path)])
    assert bool(started) is rings


def test_it_can_be_turned_off(hooked, monkeypatch):
    monkeypatch.setattr(hook, "_start_ingester", lambda *given, **more: pytest.fail("it started"))
    monkeypatch.setattr(hook, "_read_all", lambda: (b'{"hook_event_name": "Stop"}', ""))
    monkeypatch.setenv("STATOR_INGESTER", "off")
    hook._record(["claude-code", "--store", str(hooked.path)])


def test_it_runs_by_itself_and_needs_no_terminal(hooked):
    """The agent's process group may be killed, and its terminal closed."""
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _STARTER, str(hooked.path), str(hooked.root)],
        {**os.environ, **hooked.environ, "STATOR_INGESTER": ""},
    )
    hooked.write(*conversation_lines(), process=DEAD)
    os.waitpid(pid, 0)
    run_ingester(hooked)  # waits for the other one, which holds the lock of the spool
    with stator.connect(hooked.path, read_only=True) as store:
        assert kinds(store).count("turn") == 1


_STARTER = """
import sys
from stator.surfaces import hook
hook._start_ingester(sys.argv[1], sys.argv[2], named=True)
"""
