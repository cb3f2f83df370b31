"""The tasks of worker processes that hold locks, or make code of their own process drop SQLite's."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reliability.support import fact_draft
from stator.connect import connect
from stator.errors import StatorError
from stator.locks import LockFile
from stator.store.sqlite.append import Appender


def read_all(path: str) -> None:
    """Read every file of a store, as a tool does that searches a project."""
    for file in Path(path).parent.rglob("*"):
        if file.is_file():
            file.read_bytes()


def copy_all(path: str) -> None:
    """Copy every file of a store."""
    for file in sorted(Path(path).parent.glob(Path(path).name + "*")):
        shutil.copy(file, file.parent.parent / f"copy of {file.name}")


def query(path: str) -> None:
    """Read a store with the standard library's SQLite."""
    other = sqlite3.connect(path)
    other.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    other.close()


STRAYS: dict[str, Callable[[str], None]] = {"read": read_all, "copy": copy_all, "sqlite3": query}


# -- locks ----------------------------------------------------------------------------------------


def hold_byte(talk: Any, path: str, byte: int, how: str) -> None:
    """Hold a byte until told, as this release does (`ofd`) or as 0.5 did (`posix`)."""
    if how == "posix":
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    else:
        file = LockFile(path)
        assert file.lock(byte)
    talk.say("held")
    talk.hear()


def sees_posix_conflict(talk: Any, path: str, byte: int) -> bool:
    """Whether a process of 0.5 finds a byte locked."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, byte)
    except OSError:
        return True
    return False


def is_locked(talk: Any, path: str, byte: int) -> bool:
    """What another process sees of a byte."""
    return LockFile(path).is_locked(byte)


def hold_with_child(talk: Any, path: str, byte: int) -> None:
    """Hold a byte, and leave a forked child behind that outlives this process; send the child's pid."""
    file = LockFile(path)
    assert file.lock(byte)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"x")  # its own code runs, so its copies are closed
        while True:
            signal.pause()
    os.read(reading, 1)
    talk.say(child)
    talk.hear()


# -- drivers --------------------------------------------------------------------------------------


def drive_and_stray(talk: Any, path: str, kind: str) -> str:
    """Drive a session while a tool of this process reads the store's files; then record a fact."""
    with (
        connect(path, project="test") as store,
        store.open("main") as session,
        session.turn() as turn,
    ):
        STRAYS[kind](path)
        talk.say("strayed")
        talk.hear()
        return turn.fact("after", True)


def drive_with_child(talk: Any, path: str, how: str) -> None:
    """Drive a session, and leave a forked child behind that outlives this process; send the child's pid."""
    store = connect(path, project="test")
    store.open("main").turn()
    reading, writing = os.pipe()

    def linger() -> None:
        os.write(writing, b"x")
        while True:
            signal.pause()

    if how == "fork":
        pid = os.fork()
        if pid == 0:
            linger()
    else:
        child = multiprocessing.get_context("fork").Process(target=linger)
        child.start()
        pid = child.pid or 0
    os.read(reading, 1)
    talk.say(pid)
    talk.hear()


def drive_and_end_child(talk: Any, path: str) -> None:
    """Drive a session, fork a child that ends at once, and wait."""
    store = connect(path, project="test")
    store.open("main").turn()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    talk.say("child ended")
    talk.hear()


# -- writing --------------------------------------------------------------------------------------


def pause_inside_write(talk: Any, path: str, session: str, kind: str) -> list[str]:
    """Append, stop inside the transaction after a stray read, go on when told; returns what was acknowledged."""
    store = connect(path, project="test")
    first = store.port.append(session, [fact_draft(store, session, "first")])[0].id
    _stop_inside(talk, lambda: STRAYS[kind](path) if kind else None)
    second = store.port.append(session, [fact_draft(store, session, "second")])[0].id
    return [first, second]


def drive_and_pause_inside_write(talk: Any, path: str) -> None:
    """Drive a session, and stop inside the transaction that records a fact."""
    store = connect(path, project="test")
    turn = store.open("main").turn()
    _stop_inside(talk, lambda: None)
    turn.fact("inside", True)


def _stop_inside(talk: Any, stray: Callable[[], None]) -> None:
    append = Appender.append_request

    def stop(self: Appender, db: Any, request: Any) -> Any:
        Appender.append_request = append  # type: ignore[method-assign]
        done = append(self, db, request)
        stray()
        talk.say("inside")
        talk.hear()
        return done

    Appender.append_request = stop  # type: ignore[method-assign]


def append_one(talk: Any, path: str, session: str, busy_s: float) -> str:
    """Append once, waiting at most that long for other writers; the id, or the code of the error."""
    from stator.store.sqlite import connection

    connection.BUSY_SECONDS = connection.OPEN_S = busy_s
    with connect(path, project="test") as store:
        try:
            return str(store.port.append(session, [fact_draft(store, session, "other")])[0].id)
        except StatorError as error:
            return error.code


def append_among_strays(talk: Any, path: str, session: str, count: int) -> list[str]:
    """Append, opening the store again and again, while a thread reads every file of it without a pause."""
    ended = threading.Event()

    def stray() -> None:
        while not ended.is_set():
            for suffix in ("", "-wal", "-shm", "-lease"):
                try:
                    with open(path + suffix, "rb") as file:
                        file.read()
                except FileNotFoundError:
                    continue

    thread = threading.Thread(target=stray)
    thread.start()
    ids: list[str] = []
    try:
        while len(ids) < count:
            with connect(path, project="test", durability="relaxed") as store:
                for n in range(20):
                    draft = fact_draft(store, session, f"fact {n}", "x" * 2000)
                    ids.append(store.port.append(session, [draft])[0].id)
    finally:
        ended.set()
        thread.join()
    return ids


def read_among_strays(talk: Any, path: str, session: str) -> list[list[str]]:
    """Read a log twice in one snapshot: before and after a stray read of the files and the writes of others."""
    store = connect(path, project="test")
    told = []
    port: Any = store.port
    with port._reading() as db:
        for _ in range(2):
            rows = db.execute("SELECT hex(id), hex(body) FROM log ORDER BY k").fetchall()
            told.append([repr(row) for row in rows])
            if len(told) == 1:
                db.execute(
                    "PRAGMA shrink_memory"
                )  # so that the second time is not answered from memory
                read_all(path)
                talk.say("strayed")
                talk.hear()
    return told


def write_much(talk: Any, path: str, session: str, pages: int) -> int:
    """Append until the log was folded into the file and begun again; returns how many commits that took."""
    with connect(path, project="test", durability="relaxed") as store:
        for n in range(pages):
            draft = fact_draft(store, session, f"fact {n % 7}", os.urandom(6000).hex())
            store.port.append(session, [draft])
    return pages


def contribute(talk: Any, path: str, count: int) -> list[str]:
    """Contribute facts to a session that another process drives."""
    with connect(path, project="test") as store:
        act = store.contribute("main")
        return [act.fact(f"other {n}", n) for n in range(count)]


def append_until_killed(talk: Any, path: str) -> None:
    """Drive a session, send the ids of what was acknowledged, and wait to be killed."""
    store = connect(path, project="test")
    turn = store.open("main").turn()
    talk.say([turn.fact(f"fact {n}", n) for n in range(5)])
    talk.hear()
