"""Retries and rewinds whose process is killed, or that run beside other processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reliability.support import findings, script_environment
from stator.connect import connect
from stator.errors import Busy
from stator.runtime.branches import rewind

RETRY = """
import sys, stator
with stator.connect(sys.argv[1], project="test").open("main") as s:
    for number in (1, 2):
        with s.turn(f"ask {number}") as t:
            t.fact("n", number)
    with s.retry("t2", name="again") as t:
        t.fact("n", 22)
        print("in the middle", flush=True)
        sys.stdin.read()
"""
REWIND = """
import sys, stator
with stator.connect(sys.argv[1], project="test").open("main") as s:
    for number in range(1, 9):
        with s.turn(f"ask {number}") as t:
            t.fact("n", number)
            t.fact(f"of {number}", number)
    print("ready", flush=True)
    while True:
        s.rewind("t2")
        s.rewind(f"rewind/{len(s.reflog())}")
        print("there and back", flush=True)
"""


@pytest.fixture
def program(path):
    """Start a program on the store and wait for its first line; it is killed at the end."""
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=script_environment(),
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_retry_whose_process_was_killed_continues_under_its_name(program, path):
    process = program(RETRY)
    process.kill()
    process.wait()
    with connect(path, project="test") as store:
        assert store.read("again").status == "interrupted"
        with store.open("main") as s, s.retry("t2", name="again") as t:
            assert t.continued
            assert t.session.facts() == {"n": 22}
    assert findings(path) == []


def test_the_original_cannot_be_rewound_while_its_retry_runs(program, path):
    program(RETRY)
    with connect(path, project="test") as store, pytest.raises(Busy):
        rewind.rewind(store.port, store.context, store.read("main").id, "t1")


@pytest.mark.parametrize("words", [1, 3, 5])
def test_a_killed_rewind_is_complete_or_absent(program, path, words):
    """Tag and rewind are one transaction, so every tag of the reflog has its rewind."""
    process = program(REWIND)
    for _ in range(words):
        process.stdout.readline()
    process.kill()
    process.wait()
    with connect(path, project="test") as store:
        view = store.read("main")
        tags = [entry.key for entry in view.entries("tags")]
        assert sorted(tags) == sorted(line.tag for line in view.reflog())
        assert len(view.facts()) in (3, 9)
    assert findings(path) == []
