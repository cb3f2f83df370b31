"""kill -9 around a compaction: the agent has the old or the new view, never a mix."""

from __future__ import annotations

import pytest

from reliability.support import findings
from reliability.workers import viewed
from stator.connect import connect

STEPS = 6
"""Compactions and undos until everything is shown again."""


def talk(path) -> str:
    """A session with something to compact."""
    with connect(path, project="test") as store, store.open("main") as session:
        for number in range(8):
            with session.turn(f"prompt {number}") as turn:
                turn.decide(f"choice {number}", topic=f"topic {number}")
                turn.say(f"answer {number}")
        return session.id


@pytest.mark.parametrize("words", range(1, 9))
def test_a_driver_killed_around_a_compaction_leaves_the_old_or_the_new_view(zygote, path, words):
    session = talk(path)
    worker = zygote.start("compact_until_killed", path, "main")
    said = [worker.hear() for _ in range(STEPS + words)]
    worker.kill()
    said += worker.drain()
    zygote.end(worker)
    cycle = said[:STEPS]
    assert all(view == cycle[n % STEPS] for n, view in enumerate(said))
    with connect(path, project="test") as store:
        now = viewed(store, session)
    assert now in (said[-1], cycle[len(said) % STEPS])
    assert findings(path) == []
