"""The tasks of worker processes. Each gets a `Talk` first; its result is its last message.

Also a program, for the tests that run one under strace or ulimit:

    python -m reliability.workers STORE SESSION COUNT [DURABILITY]

appends COUNT facts and prints the id of each commit as soon as it is acknowledged.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import signal
import sys
import threading
import time
from hashlib import sha256
from typing import Any

import apsw

import stator
import stator.model.log.redact  # import lazily loaded modules before the fork
import stator.runtime
import stator.store.sqlite
from reliability import removals
from reliability.crash import act_when_told as act_when_told
from reliability.crash import calls_until_paused as calls_until_paused
from reliability.crash import play as play
from reliability.crash_once import run_once as run_once
from reliability.exchange_workers import copy_store as copy_store
from reliability.exchange_workers import pull_session as pull_session
from reliability.exchange_workers import push_store as push_store
from reliability.lock_workers import append_among_strays as append_among_strays
from reliability.lock_workers import append_one as append_one
from reliability.lock_workers import append_until_killed as append_until_killed
from reliability.lock_workers import contribute as contribute
from reliability.lock_workers import drive_and_end_child as drive_and_end_child
from reliability.lock_workers import drive_and_pause_inside_write as drive_and_pause_inside_write
from reliability.lock_workers import drive_and_stray as drive_and_stray
from reliability.lock_workers import drive_with_child as drive_with_child
from reliability.lock_workers import hold_byte as hold_byte
from reliability.lock_workers import hold_with_child as hold_with_child
from reliability.lock_workers import is_locked as is_locked
from reliability.lock_workers import pause_inside_write as pause_inside_write
from reliability.lock_workers import read_among_strays as read_among_strays
from reliability.lock_workers import sees_posix_conflict as sees_posix_conflict
from reliability.lock_workers import write_much as write_much
from reliability.support import fact_draft, populate
from stator.connect import connect
from stator.errors import StatorError
from stator.runtime.views.verify import verify
from stator.runtime.window.transcript import Rendering


def read_until_told(talk: Any, path: str) -> None:
    """Read the store in one transaction that stays open."""
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    db.execute("BEGIN")
    talk.say(db.execute("SELECT count(*) FROM log").get)
    talk.hear()
    db.close()


def remove(talk: Any, path: str, what: str, point: int | None) -> int:
    """Erase, expire or purge, and die before the statement with that number; returns the number of statements."""
    store = connect(path, project="test", durability="relaxed")
    passed = 0

    def count(cursor: Any, sql: str, bindings: Any) -> bool:
        nonlocal passed
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1
        return True

    port = store.port
    port._writer.open().exec_trace = count  # type: ignore[attr-defined]
    removals.REMOVALS[what](store)
    port._writer.open().exec_trace = None  # type: ignore[attr-defined]
    store.close()
    return passed


def create(talk: Any, path: str) -> str:
    """Create the store, or open the one that another process creates at the same time."""
    talk.say("ready")
    talk.hear()
    with connect(path, project="test") as store:
        return store.info().id


def write_until_killed(talk: Any, path: str, name: str, durability: str) -> None:
    """Drive a session and send the id of each commit when it is acknowledged."""
    store = connect(path, project="test", durability=durability)  # type: ignore[arg-type]
    session = store.open(name)
    talk.say(session.id)
    while True:
        with session.turn("again") as turn:
            for number in range(20):
                talk.say(turn.fact(f"fact {number}", os.getpid()))


def compact_until_killed(talk: Any, path: str, name: str) -> None:
    """Compact a session step by step and undo it, repeatedly; send each view once it is recorded."""
    store = connect(path, project="test")
    session = store.open(name)
    talk.say(viewed(store, session.id))
    while True:
        for keep in (6, 4, 2):
            session.compact(keep=keep, summary=f"all but {keep}")
            talk.say(viewed(store, session.id))
        for _ in range(3):
            session.undo_compaction()
            talk.say(viewed(store, session.id))


def viewed(store: Any, session: str) -> str:
    """The digest of the messages for a model."""
    messages = Rendering(store.port, session).current().render("anthropic")
    return sha256(json.dumps(messages).encode()).hexdigest()


def share_until_killed(talk: Any, path: str, session: str, durability: str) -> None:
    """Append to a session that other processes append to."""
    store = connect(path, project="test", durability=durability)  # type: ignore[arg-type]
    talk.say(session)
    while True:
        draft = fact_draft(store, session, f"of {os.getpid()}")
        talk.say(store.port.append(session, [draft])[0].id)


def append(talk: Any, path: str, session: str, count: int) -> list[str]:
    """Append to a session that needs no lease, at the same time as others."""
    with connect(path, project="test") as store:
        talk.say("ready")
        talk.hear()
        return [
            store.port.append(session, [fact_draft(store, session, f"{os.getpid()} {n}", n)])[0].id
            for n in range(count)
        ]


def try_to_drive(talk: Any, path: str, name: str) -> str:
    """Open a session; returns the code of the error, or an empty text."""
    try:
        with connect(path, project="test") as store, store.open(name):
            return ""
    except StatorError as error:
        return error.code


def drive_many(talk: Any, path: str, count: int) -> list[str]:
    """Append to its own session, at the same time as others."""
    with connect(path, project="test") as store:
        talk.say("ready")
        talk.hear()
        with store.open(f"of {os.getpid()}") as session, session.turn() as turn:
            return [turn.fact(f"fact {n}", n) for n in range(count)]


def hold(talk: Any, path: str, name: str) -> None:
    """Drive a session and record a fact for each message."""
    with connect(path, project="test") as store:
        session = store.open(name)
        turn = session.turn("hold it")
        talk.say(session.id)
        while (word := talk.hear()) is not None:
            try:
                talk.say({"commit": turn.fact("told", word)})
            except StatorError as error:
                talk.say({"error": error.code})


def try_open(talk: Any, path: str, name: str, busy: str) -> str:
    """Open a session that another process may hold; returns its id."""
    with (
        connect(path, project="test") as store,
        store.open(name, busy=busy) as session,  # type: ignore[arg-type]
    ):
        return session.id


# -- calls ----------------------------------------------------------------------------------------


def call_and_stop(talk: Any, path: str, effect: str, moment: str, effects: str) -> None:
    """Run one call, and stop at a point of its life to be killed."""
    store = connect(path, project="test")
    session = store.open("main")

    def stand() -> None:
        talk.say(session.id)
        talk.hear()

    @stator.tool(effect=effect, name="touch")
    def touch() -> str:
        if moment == "before the effect":
            stand()
        with open(effects, "a", encoding="utf-8") as file:
            file.write("done\n")
        if moment == "during the effect":
            stand()
        return "touched"

    turn = session.turn("touch it")
    if moment == "before the intent":
        stand()
    if moment == "before the outcome":
        write = session._driver.append

        def stop_at_outcome(drafts: Any, **how: Any) -> Any:
            if drafts[0].kind == "outcome":
                stand()
            return write(drafts, **how)

        session._driver.append = stop_at_outcome  # type: ignore[method-assign]
    turn.call(touch)
    stand()


# -- stray opens ----------------------------------------------------------------------------------


def stray(path: str, kind: str) -> None:
    """A harmless-looking open that drops every lock of this process on the file."""
    if kind == "open":
        open(path, "rb").close()
    elif kind == "copy":
        shutil.copyfile(path, path + ".copy")
    elif kind == "chmod":
        descriptor = os.open(path, os.O_RDWR)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
    elif kind == "sqlite3":
        import sqlite3

        other = sqlite3.connect(path)
        other.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        other.close()
    elif kind == "wal":
        open(path + "-wal", "rb").close()
    elif kind == "shm":
        open(path + "-shm", "rb").close()


def write_past_stray(talk: Any, path: str, kind: str, count: int) -> list[str]:
    """Acknowledge one commit, make a stray open, wait for a reader, acknowledge `count` more."""
    store = connect(path, project="test")
    session = store.open("main")
    turn = session.turn()
    ids = [turn.fact("first", 0)]
    stray(path, kind)
    talk.say("strayed")
    talk.hear()
    ids += (turn.fact(f"fact {n}", n) for n in range(count))
    talk.say(ids)
    talk.hear()
    return []


def write_past_stray_unguarded(talk: Any, path: str, kind: str, count: int) -> None:
    """The same with SQLite alone, without the guard."""
    db = apsw.Connection(path)
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    db.execute("INSERT INTO t VALUES (0)")
    stray(path, kind)
    talk.say("strayed")
    talk.hear()
    for n in range(1, count + 1):
        db.execute("INSERT INTO t VALUES (?)", (n,))
    talk.say("written")
    talk.hear()


def look(talk: Any, path: str) -> int:
    """An unrelated reader, such as a shell: opens the file, reads, closes it.

    The standard library's SQLite, when it finds no lock on the file, folds the WAL in and unlinks it; apsw's does not.
    """
    import sqlite3

    db = sqlite3.connect(path)
    found: int = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    db.close()
    return found


def lock(talk: Any, path: str) -> None:
    """Lock the whole file, as the recovery of a WAL does, until a message arrives."""
    db = apsw.Connection(path)
    db.pragma("locking_mode", "exclusive")
    db.execute("BEGIN EXCLUSIVE")
    talk.say("locked")
    talk.hear()
    db.close()


# -- other tasks ----------------------------------------------------------------------------------


def exercise(talk: Any, path: str) -> int:
    """Do everything a program does with a store, under the audit hook; returns the number of findings."""
    import conftest  # noqa: F401 - installs the hook

    with connect(path, project="test") as store:
        session = populate(store)
        with store.open("main") as again, again.turn() as turn:
            turn.fact("again", True)
        store.fork("main", "t1")
        store.read(session).diff("t1..t2")
        store.sync()
        store.port.rebuild()
        found = len(list(verify(store.port)))
    with connect(path, read_only=True, project="test") as store:
        list(store.read(session).log())
    return found


def opens_from_product(talk: Any, path: str) -> str:
    """The hook's control: code that claims to be the product's opens the database."""
    import conftest

    code = compile("open(path, 'rb').close()", os.path.join(conftest.PRODUCT, "made_up.py"), "exec")
    try:
        exec(code, {"path": path, "open": open})  # noqa: S102 - the test's own text
    except RuntimeError as error:
        return str(error)
    return ""


def without_rights(talk: Any, path: str, name: str) -> str:
    """Open and write as a user without permission."""
    _as_nobody(path)
    try:
        with connect(path, project="test") as store:
            talk.say(len(list(store.read(name).log())))
            store.open(name)
    except StatorError as error:
        talk.say(0)
        return error.code
    return "written"


def search(talk: Any, path: str, words: str) -> list[list[Any]]:
    """Search on request; returns (name, seq) of each hit."""
    with connect(path, project="test") as store:
        talk.say("ready")
        talk.hear()
        return [[hit.name, hit.seq] for hit in store.search(words, limit=1000)]


def _as_nobody(path: str) -> None:
    """Become an unprivileged user if the tests run as root."""
    # This user may not be able to read the interpreter's own folder, so what is imported late is imported now.
    for package in (stator.store, stator.runtime):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".contract." not in module.name:
                importlib.import_module(module.name)
    os.chdir(os.path.dirname(path))  # a folder that this user can read
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def erase_without_rights(talk: Any, path: str, name: str) -> bool:
    """Erase a session as a user who can write the store but not its index; returns whether it is pending."""
    _as_nobody(path)
    with connect(path, project="test") as store:
        return store.erase(store.erasing(name)).pending


def search_without_rights(talk: Any, path: str, words: str) -> list[str]:
    """Search twice as a user who cannot write there; returns the names of the hits."""
    _as_nobody(path)
    with connect(path, project="test", read_only=True) as store:
        found = [hit.name for hit in store.search(words)]
        again = [hit.name for hit in store.search(words)]
    assert found == again
    return found


def after_fork(talk: Any, path: str, name: str) -> list[str]:
    """Use a store in a forked child of the process that opened it; returns the error codes."""
    with connect(path, project="test") as store:
        session = store.open(name)
        turn = session.turn()
        read, write = os.pipe()
        if os.fork() == 0:
            codes = []
            for attempt in (
                lambda: turn.fact("child", 1),
                lambda: session.head,
                lambda: store.open("other"),
                lambda: store.sync(),
            ):
                try:
                    attempt()
                    codes.append("worked")
                except StatorError as error:
                    codes.append(error.code)
            store.close()
            os.write(write, ",".join(codes).encode())
            os._exit(0)
        os.wait()
        found = os.read(read, 4096).decode().split(",")
        turn.fact("parent", 1)
        turn.end()
        session.pause()
        return found


def interrupted(talk: Any, path: str, session: str, rounds: int) -> list[Any]:
    """Append while SIGINT arrives repeatedly; returns what each append reported."""
    told: list[Any] = []
    with connect(path, project="test") as store:
        main = threading.main_thread().ident
        assert main is not None
        over = False

        def interrupt(number: int, frame: object) -> None:
            if not over:
                raise KeyboardInterrupt

        def pester() -> None:
            while not over:
                time.sleep(0.003)
                signal.pthread_kill(main, signal.SIGINT)

        signal.signal(signal.SIGINT, interrupt)
        drafts = [fact_draft(store, session, f"{n}") for n in range(rounds)]
        thread = threading.Thread(target=pester)
        done = 0
        try:
            thread.start()
            while done < len(drafts):
                draft = drafts[done]
                try:
                    store.port.append(session, [draft])
                except KeyboardInterrupt as error:
                    told.append([draft.id, "interrupted", getattr(error, "__notes__", [])])
                else:  # an interrupt from here on is no word of the append
                    told.append([draft.id, "acknowledged", []])
                done += 1
        except KeyboardInterrupt:
            pass  # between two appends: the report is complete
        finally:
            over = True  # an assignment is one step: no interrupt can come between
            thread.join()
    return told


def threads(talk: Any, path: str, session: str, count: int, each: int) -> list[str]:
    """Many threads append through one store object."""
    ids: list[str] = []
    errors: list[str] = []
    with connect(path, project="test") as store:
        barrier = threading.Barrier(count)

        def work(number: int) -> None:
            barrier.wait()
            try:
                for n in range(each):
                    draft = fact_draft(store, session, f"{number} {n}", n)
                    ids.append(store.port.append(session, [draft])[0].id)
            except Exception as error:
                errors.append(repr(error))

        workers = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not errors, errors
    return ids


def without_descriptors(talk: Any, path: str, session: str) -> dict[str, Any]:
    """Use up the file descriptors before a store is opened and while one is open."""
    import resource

    told: dict[str, Any] = {}
    with connect(path, project="test") as store:
        store.port.append(session, [fact_draft(store, session, "before")])
        spare = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (spare, spare))
        os.close(spare)
        try:
            with connect(path, project="test") as other:
                other.read(session)
        except StatorError as error:
            told["opening"] = error.code
        try:
            told["appended"] = store.port.append(session, [fact_draft(store, session, "x")])[0].seq
        except StatorError as error:
            told["appending"] = error.code
        told["head"] = store.port.head(session).seq
    return told


def barriers_until_killed(talk: Any, path: str, session: str, durability: str) -> None:
    """Append, every tenth time with a barrier; send each acknowledged id and whether it was a barrier."""
    store = connect(path, project="test", durability=durability)  # type: ignore[arg-type]
    count = 0
    while True:
        count += 1
        barrier = count % 10 == 0
        draft = fact_draft(store, session, f"fact {count % 50}", count)
        commit = store.port.append(session, [draft], barrier=barrier)[0]
        talk.say([commit.id, barrier])


def main() -> None:
    path, session, count, *rest = sys.argv[1:]
    store = connect(path, project="test", durability=rest[0] if rest else "full")  # type: ignore[arg-type]
    for n in range(int(count)):
        try:
            commit = store.port.append(session, [fact_draft(store, session, f"fact {n}", n)])[0]
        except StatorError as error:
            print(error.code, flush=True)
        else:
            print(commit.id, flush=True)


if __name__ == "__main__":
    main()


def restore_until_killed(talk: Any, path: str, folder: str, session: str, nth: int) -> int:
    """Restore everything a session wrote; die at the nth time a file is opened, renamed or removed. Returns
    how often that happened if it survives."""
    os.chdir(folder)
    seen = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in ("open", "os.rename", "os.remove", "os.listdir", "os.mkdir"):
            seen += 1
            if seen == nth:
                os.kill(os.getpid(), signal.SIGKILL)

    with connect(path, project="test") as store:
        act = store.contribute(session)
        sys.addaudithook(count)
        act.restore(everything=True, at="t0", apply=True)
    return seen
