"""kill -9 in the middle of a long session that does not fit: the program runs again and records nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from reliability.support import findings, source
from reliability.windowed import TURNS, WINDOW
from stator.connect import connect
from stator.model.window.compaction import WINDOW as DID_NOT_FIT
from stator.runtime.window.transcript import Rendering

HERE = Path(__file__).parent


def run(path: Path, killed_at: int) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *source()])}
    command = [sys.executable, "-m", "reliability.windowed", str(path), str(killed_at)]
    return subprocess.run(command, env=environment, cwd=path.parent, check=False).returncode


def test_a_long_session_killed_in_the_middle_has_each_answer_and_each_eviction_once(path):
    assert run(path, TURNS // 2) == -signal.SIGKILL
    assert run(path, -1) == 0
    assert findings(path) == []
    with connect(path, project="test") as store:
        view = store.read("long")
        log = list(view.log())
        answers = [c for c in log if c.kind == "entry"]
        cuts = [c.inputs[0] for c in log if c.kind == "compaction" and c.status == DID_NOT_FIT]
        assert len(answers) == TURNS
        assert cuts == sorted(set(cuts))
        assert len(cuts) < TURNS / 2  # it moves in steps
        assert sum(len(c.delta) for c in log if c.kind == "compaction") < 40 * TURNS
        fresh = Rendering(store.port, view.id).current()
        fresh.render("anthropic", max_tokens=WINDOW)
        assert fresh.window == cuts[-1]
        assert sum(len(str(c.value("output", ""))) for c in log) > 1_000_000
        evicted = view.evicted()
        assert len(evicted) < 300
        for item in evicted:
            assert view.recall(item.key).status == "recallable"
        listed = [view.recall(item.key) for item in evicted if item.key.startswith("entries:")]
        assert listed
