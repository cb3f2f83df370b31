"""Shared by the reliability tests: worker processes, a store with every kind of record, and its answers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

import stator
from stator.connect import connect
from stator.errors import NotAStore, StatorError
from stator.model.log.commit import Draft, Upsert
from stator.model.log.query import CallQuery, SessionQuery
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import FactRecord, SessionRecord
from stator.runtime.views.verify import verify

HERE = Path(__file__).parent
PATIENCE_S = 60
"""How long a test waits for a worker before it gives up; no assertion depends on it."""


# -- processes ------------------------------------------------------------------------------------


class Worker:
    """A process of `reliability.workers`, seen from the test."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line
        self._rest = b""
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1

    def say(self, value: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._line.sendall(json.dumps(value).encode() + b"\n")

    def hear(self) -> Any:
        """The next value it sends, or None when it has ended."""
        while b"\n" not in self._rest:
            more = self._receive()
            if not more:
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def _receive(self) -> bytes:
        self._line.settimeout(PATIENCE_S)
        try:
            return self._line.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def drain(self) -> list[Any]:
        """Everything it sent until it ended, without a line cut by its death."""
        while more := self._receive():
            self._rest += more
        lines, _, self._rest = self._rest.rpartition(b"\n")
        return [json.loads(line) for line in lines.splitlines()]

    def result(self) -> Any:
        """The result of the task; `AssertionError` if it failed."""
        said = self.drain()
        assert said, f"worker {self.pid} died without an answer"
        assert "done" in said[-1], said[-1]
        self.wait()
        return said[-1]["done"]

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> None:
        """Wait until the process has ended and all its files are closed."""
        if self._pidfd >= 0:
            waiting = select.poll()  # select() takes no descriptor above 1,023
            waiting.register(self._pidfd, select.POLLIN)
            assert waiting.poll(PATIENCE_S * 1000), f"worker {self.pid} does not end"
            os.close(self._pidfd)
            self._pidfd = -1

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        self.kill()
        self._line.close()


class Zygote:
    """Starts workers in a millisecond each; `tasks` is the module whose functions they run."""

    def __init__(self, folder: Path, tasks: str = "reliability.workers") -> None:
        mine, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *source()])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "reliability.zygote", str(theirs.fileno()), tasks],
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd=folder,
        )
        theirs.close()
        self._control = mine
        self._workers: list[Worker] = []

    def start(self, task: str, *arguments: Any) -> Worker:
        mine, theirs = socket.socketpair()
        message = json.dumps([task, arguments], default=os.fspath).encode()
        socket.send_fds(self._control, [message], [theirs.fileno()])
        theirs.close()
        self._control.settimeout(PATIENCE_S)
        answer = b""
        while not answer.endswith(b"\n"):
            more = self._control.recv(64)
            assert more, "the zygote is gone"
            answer += more
        worker = Worker(int(answer), mine)
        self._workers.append(worker)
        return worker

    def run(self, task: str, *arguments: Any) -> Any:
        worker = self.start(task, *arguments)
        try:
            return worker.result()
        finally:
            self._workers.remove(worker)
            worker.close()

    def end(self, *workers: Worker) -> None:
        """Kill workers and forget them."""
        for worker in workers:
            worker.close()
            self._workers.remove(worker)

    def close(self) -> None:
        self.end(*list(self._workers))
        self._control.close()
        self._process.wait(PATIENCE_S)


def source() -> list[str]:
    """The folder that the package under test is imported from."""
    return [str(Path(next(iter(stator.__path__))).parent)]


def script_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *source()])}


# -- stores ---------------------------------------------------------------------------------------


@stator.tool(effect="read")
def look(path: str) -> str:
    return f"content of {path}"


@stator.tool()
def change(path: str, text: str) -> int:
    return len(text)


@stator.tool()
def fail(path: str) -> str:
    raise PermissionError(f"not allowed: {path}")


def populate(store: stator.Store, *, turns: int = 3, big: bool = True) -> str:
    """Make a session with a record in every collection a program can fill; returns its id."""
    with store.open(
        "main",
        agent="tester",
        labels={"team": "core"},
        aliases=[("hook", "foreign-1")],
        budget={"tokens": 10**9},
    ) as s:
        for number in range(1, turns + 1):
            one_turn(s, number, big=big and number % 2 == 0)
        s.tag("first", "t1")
        s.score("quality", 0.75, comment="fine")
        s.flag("look", why="odd")
        return s.id


def one_turn(s: stator.Session[Any], number: int, *, big: bool = False) -> None:
    with s.turn(f"please do task {number}") as t:
        t.say(f"doing task {number}", usage={"tokens": 10 + number})
        t.call(look, path=f"src/m{number}.py")
        t.call(change, path=f"src/m{number}.py", text="x" * number)
        t.try_call(fail, path="/etc/x")
        t.file(f"src/m{number}.py", "modified", after=f"{number:064x}", why="asked to")
        t.file("src/all.py", "modified" if number > 1 else "created", after=f"{number:064x}")
        t.decide(f"plan {number}", topic="plan", why=f"because of {number}", confidence=0.5)
        t.decide(f"aside {number}", why="no topic")
        t.fact("answer", number)
        t.fact(f"fact {number}", {"deep": [number, 1.5, b"\x00\xff", "é"]})
        t.prefer("tabs", number % 2 == 0)
        t.dead_end(f"way {number}", why="blocked")
        t.plan([f"step {number}.1", f"step {number}.2"])
        t.pend(f"later {number}")
        t.use("file", "src/all.py")
        t.note("scratch", [number])
        t.set(count=number)
        t.artifact("report", incompressible(16_384) if big else f"version {number}")


def incompressible(size: int, seed: str = "") -> str:
    """Text that stays large when it is compressed, and is the same in every run."""
    from hashlib import sha256

    blocks = (sha256(f"{seed}{n}".encode()).hexdigest() for n in range(size // 32))
    return "".join(blocks)


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a closed store."""
    for suffix in ("", "-wal", "-shm"):
        if Path(f"{source}{suffix}").exists():
            shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")
    return target


def is_made(url: str) -> bool:
    """Whether a store is there."""
    try:
        connect(url, create=False, project="test").close()
    except NotAStore:
        return False
    return True


def findings(path: Path | str) -> list[str]:
    """The findings of `verify` for a store; an error that stops it is a finding too."""
    try:
        with connect(path, create=False, project="test") as store:
            return [finding.what for finding in verify(store.port)]
    except StatorError as error:
        return [f"{error.code}: {error.what}"]


def answers(store: stator.Store) -> str:
    """Every answer a store gives about every session of it, as text that can be compared."""
    told: list[Any] = []
    for row in all_sessions(store):
        port, session = store.port, row.id
        view = store.read(session)
        told.append(("row", port.session(session)))
        told.append(("head", port.head(session)))
        told.append(("counts", port.session(session, counted=True).counts))
        told.append(("turns", port.turns(session)))
        told.append(("commits", [plain_commit(commit) for commit in view.log()]))
        told.append(("calls", port.calls(CallQuery(session=session)).rows))
        told.append(("failed", view.calls(status="failed")))
        told.append(("files", view.files(), view.files(last=2)))
        told.append(("decisions", view.decisions()))
        told.append(("diff", msgspec.to_builtins(view.diff("t0..head"), enc_hook=repr)))
        told.append(("why", view.why("src/all.py")))
        head = port.head(session).seq
        for name in COLLECTIONS:
            for at in sorted({1, head // 3, head // 2, head - 1, head}):
                told.append((name, at, port.entries(session, name, at=at)))
    told.append(("all calls", store.calls().rows))
    told.append(("touches", store.port.touches("files", "src/all.py")))
    aliased = store.port.sessions(SessionQuery(alias=("hook", "foreign-1"))).rows
    told.append(("alias", [row.id for row in aliased]))
    return "\n".join(repr(item) for item in told)


def plain_commit(commit: Any) -> Any:
    return msgspec.structs.asdict(commit)


def all_sessions(store: stator.Store) -> Iterator[Any]:
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.sessions(cursor=cursor)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def bare(path: Path | str) -> apsw.Connection:
    """A connection without our guards, to tamper with a closed store."""
    return apsw.Connection(os.fspath(path))


# -- drafts ---------------------------------------------------------------------------------------


def recorded_session(store: stator.Store, name: str) -> str:
    """Make a recorded session, which needs no lease; returns its id."""
    context = store.context
    record = SessionRecord(id=context.mint("session"), name=name, project="test", mode="recorded")
    opening = Draft(
        id=context.mint("commit"),
        session=record.id,
        kind="open",
        key="0f" * 16,
        changes=(Upsert("session", record),),
    )
    return store.port.create([opening])[0].id


def fact_draft(
    store: stator.Store, session: str, name: str, value: Any = 0, **fields: Any
) -> Draft:
    return Draft(
        id=fields.pop("id", "") or store.context.mint("commit"),
        session=session,
        kind="fact",
        changes=(Upsert("facts", FactRecord(name=name, value=value)),),
        **fields,
    )


def judge_each(
    folder: Path, cells: Iterable[Any], judged: Callable[[Path, Any], Counter[str]], name: str
) -> Counter[str]:
    """Judge a story for each of these kills, in a folder of its own; a failure names program and kills."""
    total: Counter[str] = Counter()
    for number, kills in enumerate(cells):
        where = folder / str(number)
        try:
            total += judged(where, kills)
        except AssertionError as error:
            error.add_note(f"{name}, killed at {kills}")
            raise
        shutil.rmtree(where)
    return total
