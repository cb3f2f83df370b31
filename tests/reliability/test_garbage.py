"""A store that was never closed is garbage one day, and its files are given back at any moment: also while the same
thread opens another store."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
import stator
from stator.store.sqlite import shared_memory

gc.disable()


def forgotten(path):
    store = stator.connect(path)
    store.open("a").pause()
    store.cycle = store  # only the collector of garbage finds it


class Collecting(shared_memory.LockFile):
    def __init__(self, *given, **options):
        gc.collect()
        super().__init__(*given, **options)
        gc.collect()


class Found(dict):
    def get(self, key):
        found = super().get(key)
        gc.collect()
        return found


first, second = sys.argv[1:]
with stator.connect(second) as store:
    store.open("a").pause()
forgotten(first)
shared_memory.LockFile = Collecting
shared_memory._open = Found(shared_memory._open)
with stator.connect(second) as store:
    with store.open("a") as s, s.turn("one") as t:
        t.say("two")
    assert store.verify().ok
print("done")
"""


@pytest.mark.parametrize("second", ["second.db", "first.db"], ids=["another", "the same"])
def test_a_store_can_be_opened_while_a_forgotten_one_is_collected(tmp_path, second):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "first.db", tmp_path / second],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
