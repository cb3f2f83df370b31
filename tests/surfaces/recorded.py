"""A small recorded session with fixed clock and ids, and the program to ask about it."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import stator
from stator.owner import stores
from stator.runtime.base.context import Context
from stator.runtime.facade.store import Store
from stator.store.sqlite import SqliteStore, create

START = 1_794_700_800_000_000  # 2026-11-15 00:00:00 UTC


def spread(number: int) -> str:
    """32 hex digits that differ at both ends, as those of real ids do."""
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}{number * 0xD1342543DE82EF95 % 2**64:016x}"


class World:
    """A clock that moves a second each time it is read, and ids that count."""

    def __init__(self) -> None:
        self.ticks = itertools.count()
        self.ids = itertools.count(1)

    def clock(self) -> int:
        return START + 1_000_000 * next(self.ticks)

    def mint(self, kind: str) -> str:
        prefix = {"session": "s_", "turn": "t_", "call": "c_", "commit": "k_", "run": "r_"}[kind]
        return f"{prefix}{spread(next(self.ids))}"

    def open(self, path: Path, *, project: str = "shop") -> Store:
        create(str(path), stores.announced(os.environ, str(path)))
        store = SqliteStore(str(path), clock=self.clock, salts=os.urandom)
        store.ownership = stores.ownership(os.environ, str(path), store.info().id, was_found=False)
        context = Context(
            clock=self.clock,
            mint=self.mint,
            secret=lambda size: b"\x5e" * size,
            host="box",
            pid=42,
            program="demo.py",
            principal="local:ann",
            project=project,
        )
        return Store(store, context)


@stator.tool(effect="read")
def read_file(path):
    return "def login(user):\n    return check(user)\n"


@stator.tool(effect="write")
def edit_file(path, text):
    return {"bytes": len(text)}


@stator.tool(effect="read")
def run_tests(command):
    raise RuntimeError("2 failed, 11 passed")


@stator.tool(effect="write")
def pay(amount):
    raise stator.InDoubt("connection lost")


def record(store: Store, name: str = "fix-login") -> str:
    """Three turns: a fix, a change of mind after a failed test, and a payment nobody is sure of."""
    with store.open(name, agent="demo-agent") as s:
        with s.turn("fix the login bug") as t:
            t.call(read_file, path="auth.py")
            t.decide(
                "use JWT", topic="auth", why="no shared session store", over=["server sessions"]
            )
            t.plan(["write the fix", "run the tests"])
            t.call(edit_file, path="auth.py", text="return verify(user.token)")
            t.file("auth.py", "modified", why="verify the token before use")
            t.fact("test command", "pytest -q")
            t.say("The login now verifies the token.", usage={"tokens": 1200})
        with s.turn("run the tests") as t:
            t.try_call(run_tests, command="pytest -q")
            t.decide("use server sessions", topic="auth", why="JWT cannot be revoked")
            t.file("session.py", "created")
            t.dead_end("JWT with a blocklist", why="needs the store anyway")
            t.pend("rotate the keys", on="ops")
            t.say("Two tests fail.\nSwitching to sessions.")
        with s.turn("finish, and pay the invoice") as t:
            t.try_call(pay, amount=5)
            t.decide("use signed cookies", topic="auth", why="works without a store")
            t.file("session.py", "deleted")
            t.file("cookies.py", "created")
            t.fact("test command", "pytest -q tests")
        return s.id


@dataclass
class Answer:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def program(*words: str | bytes, env: dict[str, str] | None = None, **options) -> Answer:
    """Run the real program."""
    done = subprocess.run(
        [sys.executable, "-m", "stator.surfaces.cli.main", *words],
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
        **options,
    )
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return Answer(done.returncode, out, err)


def normal(text: str) -> str:
    """A screen without what differs from run to run."""
    text = re.sub(r"\b([sckr]_)[0-9a-f]{8,32}\b", r"\1…", text)
    text = re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", text)
    text = re.sub(r" · (\d+ (s|min|h|days?) ago|\d{4}-\d\d-\d\d)$", " · <when>", text, flags=re.M)
    return re.sub(r"[0-9a-f]{64}", "<hash>", text)
