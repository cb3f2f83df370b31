"""`stator.open` in a loop: one connection for each store and process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import pytest

import stator
from stator.errors import Busy


@pytest.fixture
def path(tmp_path, monkeypatch):
    found = tmp_path / "agent.db"
    monkeypatch.setenv("STATOR_STORE", str(found))
    return found


def spoken(name: str) -> stator.Session[object]:
    with stator.open(name) as s, s.turn("hello") as t:
        t.say("good morning")
    return s


def files_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_sessions_opened_one_after_the_other_hold_no_more_files_open(path):
    spoken("first")
    before = files_open()
    for n in range(30):
        spoken(f"session {n}")
    assert files_open() <= before


def test_a_store_that_a_program_forgets_without_closing_it_closes_its_files(tmp_path):
    gc.collect()
    before = files_open()
    for n in range(5):
        forgotten = stator.connect(tmp_path / f"{n}.db")
        with forgotten.open("work") as s, s.turn("hello") as t:
            t.say("good morning")
    del forgotten, s, t
    gc.collect()
    assert files_open() <= before


def test_a_session_that_was_left_can_be_asked_after_others_were_opened(path):
    first = spoken("first")
    spoken("second")
    assert len(first.turns()) == 1


def test_a_file_put_in_the_place_of_another_is_another_store(path, tmp_path):
    program = (
        "import pathlib, stator\n"
        "def spoken(name):\n"
        "    with stator.open(name) as s, s.turn('hello') as t: t.say('good morning')\n"
        "spoken('first')\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "for one in folder.glob('agent.db*'): one.rename(folder / f'old-{one.name}')\n"
        "spoken('second')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stderr=subprocess.DEVNULL)
    with stator.connect(path) as store:
        assert [row.record.name for row in store.sessions().rows] == ["second"]


def test_one_session_is_not_driven_twice_by_threads_of_a_process(path):
    refused: list[Busy] = []

    def drive() -> None:
        try:
            spoken("first")
        except Busy as error:
            refused.append(error)

    with stator.open("first"):
        thread = threading.Thread(target=drive)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_a_forked_child_opens_the_store_for_itself(path):
    spoken("first")
    program = (
        "import os, stator\n"
        "with stator.open('first') as s, s.turn('here') as t: t.say('1')\n"
        "if (child := os.fork()) == 0:\n"
        "    with stator.open('second') as s, s.turn('there') as t: t.say('2')\n"
        "    os._exit(0)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program]).returncode == 0
    with stator.connect(path) as store:
        assert store.read("second").counts.turns == 1
