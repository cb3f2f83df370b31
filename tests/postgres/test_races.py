"""Processes that drive one session of one server at the same time: who was displaced appends nothing more."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

import stator
from postgres_server import new_tenant, shared_database
from stator.errors import StoreBusy
from stator.store.contract.drive import begin
from stator.store.postgres import open_store
from stator.store.postgres.connection import READ, TRIES_MAX, Statement

PROCESSES = 6

RACER = """
    import json, random, sys, time
    from stator.errors import LeaseLost
    from stator.model.log.commit import Draft, Upsert
    from stator.model.log.query import Holder
    from stator.model.records.types import SessionRecord
    from stator.model.values.ids import derived
    from stator.store.postgres import open_store

    url, tenant, me = sys.argv[1:]
    rng = random.Random(me)
    number = 0

    def draft(session, kind, *changes, **fields):
        global number
        number += 1
        return Draft(
            id=derived("commit", me, str(number)), session=session, kind=kind, changes=changes, **fields
        )

    made, epochs, acknowledged, refused = [], [], [], []
    with open_store(url, tenant=tenant) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(8):
            mine = SessionRecord(id=derived("session", me, str(n)), name=f"contested {n}")
            row, new = store.create([draft(mine.id, "open", Upsert("session", mine), actor="system")])
            made.append((row.id, new))
        session = row.id
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            lease = store.acquire(session, Holder(epoch=0, program=me), take=True)
            epochs.append(lease.epoch)
            try:
                for _ in range(rng.randint(1, 20)):
                    said = draft(session, "entry", output="by " + me, epoch=lease.epoch)
                    commits = store.append(session, [said])
                    acknowledged.append((commits[0].seq, commits[0].id, lease.epoch))
            except LeaseLost:
                refused.append(said.id)
    print(json.dumps([made, epochs, acknowledged, refused]), flush=True)
"""


def race(tenant: str) -> list[Any]:
    """What six processes report that create the same sessions, and then drive the last of them, at the same time."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RACER), shared_database(), tenant, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(PROCESSES)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        return [json.loads(one.communicate(timeout=60)[0]) for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_six_processes_that_create_and_displace_lose_and_double_nothing() -> None:
    """One session of each name. Seqs have no gaps, epochs grow, and nothing that was refused is in the log."""
    tenant = new_tenant()
    with open_store(shared_database(), tenant=tenant) as store:
        reports = race(tenant)
        for answers in zip(*(made for made, *_ in reports), strict=True):
            assert len({session for session, _ in answers}) == 1
            assert [new for _, new in answers].count(True) == 1
        assert len(store.heads({}, others=True)) == 8
        session = reports[0][0][-1][0]
        log = store.commits(session, limit=10_000)
        epochs = [epoch for _, taken, _, _ in reports for epoch in taken]
        landed = sorted(tuple(one) for _, _, acknowledged, _ in reports for one in acknowledged)
        refused = {one for *_, refused in reports for one in refused}
        assert len(epochs) == len(set(epochs)) > PROCESSES
        assert all(taken == sorted(taken) for _, taken, _, _ in reports)
        assert [commit.seq for commit in log] == list(range(1, len(log) + 1))
        assert all(one.prev == before.hash for before, one in pairwise(log))
        assert [(commit.seq, commit.id, commit.epoch) for commit in log[1:]] == landed
        assert [epoch for *_, epoch in landed] == sorted(epoch for *_, epoch in landed)
        assert refused
        assert not refused & {commit.id for commit in log}
        assert list(store.audit()) == []


@pytest.mark.parametrize("error", [pg.SerializationFailure, pg.DeadlockDetected])
def test_a_transaction_that_met_others_is_begun_again(error: type[psycopg.Error]) -> None:
    """So often, and then the store is busy; nothing is written twice."""
    with open_store(shared_database(), tenant=new_tenant()) as store:
        story = begin(store, "story")
        tried = 0
        fails = 3
        raises = f"DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '{error.sqlstate}'; END $$"
        send = store._connections.send

        def sometimes(link: Any, texts: Any) -> Any:
            nonlocal tried
            if any("INSERT INTO stator.log" in text for text, _ in texts) and tried < fails:
                tried += 1
                texts = [*texts[:-1], (raises, None), texts[-1]]
            return send(link, texts)

        store._connections.send = sometimes  # type: ignore[method-assign]
        story.fact("x", 1)
        assert tried == fails
        assert [commit.kind for commit in story.log] == ["open", "fact"]
        tried, fails = 0, 1000
        with pytest.raises(StoreBusy, match=str(TRIES_MAX)):
            story.fact("x", 2)
        tried = fails = 0
        assert [commit.kind for commit in story.log] == ["open", "fact"]
        story.fact("x", 3)
        assert list(store.audit()) == []


def test_a_read_that_a_server_lets_go_is_asked_again() -> None:
    """As a standby does that replays what the read would still see."""
    url = f"{shared_database()}&tenant={new_tenant()}"
    with stator.connect(url) as store:
        with store.open("s") as s, s.turn("more") as t:
            t.fact("x", 1)
        connections = store.port._connections  # type: ignore[attr-defined]
        send, let_go = connections.send, [1, 2]
        raises = "DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END $$"

        def sometimes(link: Any, texts: Any) -> Any:
            if let_go and texts[0][0] == READ:
                let_go.pop()
                texts = [*texts[:1], (raises, None), *texts[2:]]
            return send(link, texts)

        connections.send = sometimes
        assert [e.key for e in store.read("s").entries("facts")] == ["x"]
        assert not let_go


def test_two_transactions_that_wait_for_each_other_both_end() -> None:
    """The server ends one of them, and it is begun again."""
    tenant = new_tenant()
    with open_store(shared_database(), tenant=tenant) as store:
        sessions = [begin(store, f"story {n}").session for n in range(2)]
        meet = threading.Barrier(2)
        tries, ended = [0, 0], []
        lock = [Statement("session_lock", {"session": bytes.fromhex(one[2:])}) for one in sessions]

        def work(n: int) -> None:
            def locked(db: Any) -> None:
                tries[n] += 1
                db.ask(lock[n])
                if tries[n] == 1:
                    meet.wait(10)
                db.ask(lock[1 - n], commit=True)

            store._connections.write(locked)
            ended.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        assert sorted(ended) == [0, 1]
        assert sum(tries) > 2
