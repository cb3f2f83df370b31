"""Runs whose supervisor or program is killed at any moment: each end is known, each commit is read once."""

from __future__ import annotations

import os
import random
import signal
import sys
from functools import partial
from itertools import islice

import pytest

import stator
from stator.runtime.facade import run as runs
from waiting import eventually

ENDLESS = """
import itertools, stator

@stator.tool(effect="idempotent")
def write(n):
    return n

with stator.open() as s:
    for n in itertools.count():
        with s.turn(f"turn {n}", new=True) as t:  # what comes again is not the matter here
            t.call(write, n=n)
        print(n, flush=True)
"""


def reaches(view, target):
    return view.head.seq >= target


@pytest.mark.parametrize("kills", [4, pytest.param(300, marks=pytest.mark.slow)])
def test_each_commit_is_read_once_when_any_process_is_killed(tmp_path, kills):
    chance = random.Random(kills)
    seen: list[int] = []
    outcomes = {"lost": 0, "failed": 0}
    with stator.connect(tmp_path / "agent.db", project="shop") as store:
        command = [sys.executable, "-c", ENDLESS]
        run = runs.start(store.port, store.context, command, session="shared")
        view = run.view
        for _ in range(kills):
            target = view.head.seq + chance.randrange(40)
            eventually(partial(reaches, view, target))
            victim = chance.choice(["supervisor", "child"])
            os.kill(getattr(run.info, victim), signal.SIGKILL)
            status = eventually(lambda: run.status != "running" and run.status)
            assert status == ("lost" if victim == "supervisor" else "failed")
            outcomes[status] += 1
            standing = run.standing()
            assert standing.last is not None
            assert standing.last.seq >= target
            cursor = seen[-1] if seen else 0
            some = islice(view.tail(cursor, follow=False), chance.randrange(1, 80))
            seen += [commit.seq for commit in some]
            run.stop(grace_s=0)  # the program of a lost run may still be running
            run.again()
        run.stop(grace_s=0)
        seen += [commit.seq for commit in view.tail(seen[-1], follow=False)]
        assert seen == list(range(1, view.head.seq + 1))
        assert run.info.restarts == kills
        assert sum(outcomes.values()) == kills


PAYS_AND_DIES = """
import os, signal, stator

@stator.tool(effect="write")
def pay(n):
    with open("ledger", "a") as ledger:
        ledger.write(f"{n}\\n")

with stator.open() as s:
    for n in range(3):
        with s.turn(f"pay {n}") as t:
            t.call(pay, n=n)
if not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_killed_after_its_session_ended_does_not_pay_again_when_restarted(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "agent.db", project="shop") as store:
        command = [sys.executable, "-c", PAYS_AND_DIES]
        run = runs.start(store.port, store.context, command, restart="on-failure")
        assert run.wait() == "done"
        assert run.info.restarts == 1
    assert (tmp_path / "ledger").read_text().split() == ["0", "1", "2"]
