"""Tests that what hooks saw waits for its place through lost bookmarks, other processes and damaged files."""

from __future__ import annotations

import json
import os
import subprocess
import time

import pytest

import stator
from importers.hook_lines import before_tool, hook_input, lose_bookmarks, session
from importers.toy_format import ToyFormat, ToyTranscript
from stator.connect import advance, take_spools
from stator.hooks import transcript_file
from stator.hooks.hook_note import namespace
from stator.hooks.spool import exclusive
from stator.importers import registry
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.runtime.runs.processes import start_ticks
from stator.surfaces.hook import line_of

NOWHERE = (1, 1, 1)
"""A process in a pid namespace that is not this one: nobody here can tell whether it lives."""


@pytest.fixture(autouse=True)
def formats(monkeypatch):
    monkeypatch.setattr(transcript_file, "_format_of", lambda agent: ToyFormat())
    monkeypatch.setattr(registry, "load", lambda name: ToyFormat())


@pytest.fixture
def transcript(tmp_path):
    return ToyTranscript(tmp_path / "talk.jsonl")


def held(hooked):
    folder = hooked.spool / "held"
    return sorted(os.listdir(folder)) if folder.exists() else []


def landed(store):
    return [c.kind for c in session(store).log() if c.cause.startswith(NOT_TOLD)]


def test_a_write_of_an_agent_that_died_lands_though_its_bookmarks_were_lost(hooked, transcript):
    transcript.turn()
    with subprocess.Popen(["sleep", "60"]) as agent:
        process = agent.pid, start_ticks(agent.pid) or 0, namespace()
        lines = transcript.lines(hook_input("sessionStart"), before_tool("t9"))
        hooked.write(*lines, process=process)
        with stator.connect(hooked.path) as store:
            lose_bookmarks(store)
            agent.kill()
            agent.wait()
            take_spools(store.port)
            assert landed(store) == ["call"]
    assert held(hooked) == []


def test_a_write_of_an_agent_whose_process_nobody_knows_lands_after_ten_minutes(
    hooked, transcript, monkeypatch
):
    transcript.turn()
    hooked.write(*transcript.lines(hook_input("sessionStart"), before_tool("t9")), process=NOWHERE)
    with stator.connect(hooked.path) as store:
        assert landed(store) == []
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + 601 * 10**9)
        take_spools(store.port)
        assert landed(store) == ["call"]
    assert held(hooked) == []


def test_a_process_that_does_not_hold_the_lock_leaves_held_lines_alone(hooked, transcript):
    hooked.write(
        *transcript.lines(hook_input("sessionStart"), before_tool("t1"), before_tool("t2"))
    )
    with stator.connect(hooked.path) as store:
        name = session(store).id
        before = (hooked.spool / "held" / name).read_bytes()
        transcript.turn()
        with exclusive(str(hooked.spool), sleep=time.sleep) as is_mine:
            assert is_mine
            advance(store.port, name)
            assert (hooked.spool / "held" / name).read_bytes() == before
        assert "call" in [c.kind for c in session(store).log()]
        advance(store.port, name)
        assert (hooked.spool / "held" / name).read_bytes() != before


@pytest.mark.parametrize("what", ["garbage", "folder", "link", "pipe", "unknown agent", "nul"])
def test_odd_files_among_the_held_lines_keep_nothing_else_out(hooked, transcript, what, tmp_path):
    folder = hooked.spool / "held"
    folder.mkdir(parents=True, mode=0o700)
    os.chmod(hooked.spool, 0o700)
    odd = folder / "s_0123456789abcdef0123456789abcdef"
    if what == "garbage":
        odd.write_bytes(b"\x00\xff" * 1000)
    elif what == "folder":
        odd.mkdir()
    elif what == "link":
        odd.symlink_to(tmp_path / "elsewhere")
    elif what == "pipe":
        os.mkfifo(odd)
    elif what == "unknown agent":
        odd.write_bytes(hook_line("nobody"))
    else:
        odd.write_bytes(
            hook_line("cursor", {"hook_event_name": [], "conversation_id": {"a": "\0"}})
        )
    transcript.turn()
    hooked.write(*transcript.lines(hook_input("sessionStart")))
    with stator.connect(hooked.path) as store:
        result = take_spools(store.port)
        assert result.is_all
        assert "call" in [c.kind for c in session(store).log()]


def hook_line(agent, payload=None):
    return line_of(agent, "/", json.dumps(payload or {}).encode())
