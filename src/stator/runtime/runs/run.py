"""Detached runs: starting a program under a supervisor, finding it again, waiting for it, stopping it.

A run belongs to a session and never holds its lease: the program drives the session itself, through
`stator.open()`, which finds its name in `$STATOR_SESSION`. What the run is and how it ended stands in
its folder (`runfiles`); what it did stands in the session's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from stator.errors import Ambiguous, BadText, BadType, Busy, InvalidInput, NotFound, StatorError
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow
from stator.model.records.types import CallRecord, SessionRecord
from stator.model.sessions import detached_run as decide
from stator.model.sessions.detached_run import (
    GRACE_S,
    RunInfo,
    Status,
    Stop,
    restarts_allowed,
    session_name,
)
from stator.model.sessions.lifecycle import check_name
from stator.model.values.ids import is_id, short, suffix_of
from stator.runtime.base.context import Context, nap
from stator.runtime.base.first_commit import opening
from stator.runtime.facade.view import SessionView
from stator.runtime.runs import processes
from stator.runtime.runs.folder import (
    Output,
    RunFiles,
    boot_id,
    folder_of,
    here,
)
from stator.runtime.views.refs import followed
from stator.store import port

LOOK_S = 0.05
"""Between looks whether a run has ended."""
COMMAND_MAX = 1000
"""Words of a command."""
TITLE_MAX = 200


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands, and what its session's log says of it."""

    info: RunInfo
    status: Status
    cause: str
    """Why it ended, or why it is lost."""
    orphaned: bool
    """It is lost, and its program runs on."""
    last: Commit | None
    """The session's last commit."""
    unfinished: list[CallRecord]
    """Calls without an outcome."""


class Run:
    """A detached run, found again: how it stands, what it prints, waiting for it and stopping it."""

    def __init__(
        self,
        store: port.StorePort,
        context: Context,
        files: RunFiles,
        sleep: Callable[[float], None] = nap,
    ) -> None:
        self._store = store
        self._context = context
        self._sleep = sleep
        self.files = files
        self.id = files.id

    @property
    def info(self) -> RunInfo:
        """What is on record about it, now."""
        return self.files.read()

    @property
    def status(self) -> Status:
        """running, done, failed, stopped; or lost: nobody watches over it, and it has no end on record."""
        return self._now()[1]

    def _now(self) -> tuple[RunInfo, Status]:
        """The lock is looked at first, so that a run which ends in between is not taken for lost."""
        live = self.files.is_live()
        info = self.files.read()
        return info, decide.shown(info, live=live)

    def standing(self) -> Standing:
        """Everything there is to know of it, in one look: also its last commit and what it left unfinished."""
        info, status = self._now()
        lost = status == "lost"
        boot = boot_id()
        view = self.view
        try:
            last = next(view.log(newest_first=True, limit=1, load=False), None)
            calls = [entry.record for entry in view.entries("calls")]
        except NotFound:  # its session is gone; the run is still something to know of
            last, calls = None, []
        return Standing(
            info=info,
            status=status,
            cause=decide.lost_cause(info, boot) if lost else info.cause,
            orphaned=lost and processes.is_child(info, boot),
            last=last,
            unfinished=[
                record
                for record in calls
                if isinstance(record, CallRecord) and record.status == "started"
            ],
        )

    @property
    def view(self) -> SessionView:
        """Its session."""
        return SessionView(self._store, self.info.session, sleep=self._sleep)

    def output(self, cursor: int = 0) -> Output:
        """What it printed from a cursor on: bytes, the next cursor, and how much before it is gone."""
        return self.files.output(cursor)

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait until it does not run any more; the status then, `running` if the time was up."""
        waited = 0.0
        while (status := self.status) == "running" and (timeout_s is None or waited < timeout_s):
            self._sleep(LOOK_S)
            waited += LOOK_S
        return status

    def stop(self, *, grace_s: float = GRACE_S) -> Status:
        """End it: SIGTERM to its process group, SIGKILL after the grace. One that has ended stays as it is."""
        if not 0 <= grace_s <= 86_400:
            raise InvalidInput(f"a grace is 0 to 86,400 seconds, got {grace_s!r:.40}")
        info, status = self._now()
        asked = Stop(by=self._context.principal, grace_s=grace_s)
        if status == "running" and self.files.ask(asked):
            return self.wait(grace_s + 30)
        if self.status == "lost":
            self._end_orphan(info, asked)
        return self.status

    def _end_orphan(self, info: RunInfo, asked: Stop) -> None:
        """End what a dead supervisor left, and put it on record; with the lock, so that nobody else does."""
        with self.files.hold(self._sleep):
            number = processes.end_group(info, boot_id(), asked.grace_s, self._sleep)
            if number is not None:
                at = self._context.clock()
                self.files.write(decide.ended(info, -number, at=at, stop=asked))

    def again(self) -> None:
        """Start it again under the same id, session and command; the output goes on where it was."""
        with renewed(self) as lock:
            processes.start(self.files.folder, lock)


def start_function(
    store: port.StorePort,
    context: Context,
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    session: str = "",
    restart: str = "no",
) -> Run:
    """Call a function in a process of its own; see `Runner.run`."""
    called = target(function, args)
    name = called["function"].partition(":")[2]
    title = f"{name}({', '.join(map(repr, args))})"[:TITLE_MAX]
    command = processes.python_command(called)
    return start(
        store, context, command, session=session, restart=restart, program=name, title=title
    )


def every(store: port.StorePort, context: Context, session: str = "") -> list[Run]:
    """Every run of the store, or of a session; the newest first."""
    found = [
        (info.started, files)
        for files in RunFiles.all(folder_of(store)[1])
        if (info := _known(files)) is not None and (not session or info.session == session)
    ]
    found.sort(key=lambda item: (-item[0], item[1].id))
    return [Run(store, context, files) for _, files in found]


def _known(files: RunFiles) -> RunInfo | None:
    """What is known of a run; None of one whose record is not there yet, or not any more."""
    try:
        return files.read()
    except NotFound:
        return None


def find(store: port.StorePort, context: Context, text: str) -> Run:
    """The run a person means."""
    digits = suffix_of(text, "run")
    folders = RunFiles.all(folder_of(store)[1])
    found = [files for files in folders if digits and files.id.endswith(digits)]
    if not found:
        raise NotFound(f"no run {text!r:.80}", hint="stator ps --all lists runs", run=text)
    if len(found) > 1:
        ids = sorted(files.id for files in found)
        raise Ambiguous(
            f"{len(ids)} runs answer to {text!r:.80}",
            candidates=ids,
            hint="give more digits: " + ", ".join(short(run) for run in ids[:8]),
        )
    return Run(store, context, found[0])


# -- starting -------------------------------------------------------------------------------------


def start(
    store: port.StorePort,
    context: Context,
    command: Sequence[str],
    *,
    session: str = "",
    restart: str = "no",
    program: str = "",
    title: str = "",
) -> Run:
    """Run a command under a supervisor of its own; return when it has really started."""
    told = {"session": session, "restart": restart, "program": program, "title": title}
    with prepared(store, context, command, **told) as (files, lock):
        processes.start(files.folder, lock)
    return Run(store, context, files)


@contextmanager
def prepared(
    store: port.StorePort,
    context: Context,
    command: Sequence[str],
    *,
    session: str = "",
    restart: str = "no",
    program: str = "",
    title: str = "",
) -> Iterator[tuple[RunFiles, int]]:
    """A run that is on record, with its lock held, for whoever starts it. If that fails, it never was."""
    words = _checked(command)
    restarts_allowed(restart)
    processes.check_program(words[0], here())
    path, runs = folder_of(store)
    run = context.mint("run")
    row = session_for(store, context, session or session_name([program] if program else words, run))
    check_free(store, row.id)
    files = RunFiles.create(runs, run)
    info = RunInfo(
        id=run,
        session=row.id,
        name=row.record.name,
        command=words,
        cwd=here(),
        store=path,
        title=title,
        restart=restart,
        by=context.principal,
        host=context.host,
        boot=boot_id(),
        started=context.clock(),
        head=store.head(row.id).seq,
    )
    try:
        with files.hold(nap) as lock:
            files.write(info)
            yield files, lock
    except StatorError:
        files.discard()
        raise


@contextmanager
def renewed(run: Run) -> Iterator[int]:
    """A run that begins anew, with its lock held, for whoever starts it; `Busy` while its session is driven."""
    store, context, files = run._store, run._context, run.files
    with files.hold(run._sleep) as lock:
        info = files.read()
        if processes.is_child(info, boot_id()):
            raise Busy(
                f"the program of run {short(run.id)} runs on, as process {info.child}",
                hint=f"stator stop {short(run.id)}",
                run=run.id,
            )
        check_free(store, info.session, but=run.id)
        ready = decide.anew(
            info,
            store=folder_of(store)[0],
            by=context.principal,
            host=context.host,
            boot=boot_id(),
            at=context.clock(),
        )
        files.write(ready)
        try:
            yield lock
        except StatorError as error:
            files.write(decide.unstarted(ready, error.what, at=context.clock()))
            raise


def _checked(command: Sequence[str]) -> list[str]:
    words = list(command)
    if not words or not words[0]:
        raise InvalidInput("there is no command to run", hint="stator run -- python agent.py")
    if len(words) > COMMAND_MAX or any("\0" in word for word in words):
        raise InvalidInput(f"a command has at most {COMMAND_MAX} words, and no NUL in any")
    try:
        "".join([*words, here()]).encode()
    except UnicodeEncodeError:
        raise BadText("the command or the folder is not text in UTF-8") from None
    return words


def session_for(store: port.StorePort, context: Context, name: str) -> SessionRow:
    """The session a run is to drive, made if there is none of that name; nobody's lease is taken."""
    if is_id(name, "session"):
        return store.session(name)
    record = SessionRecord(
        id=context.mint("session"),
        name=check_name(name),
        project=context.project,
        created=context.clock(),
    )
    row, _ = store.create([opening(context, record)])
    return followed(store, row)


def check_free(store: port.StorePort, session: str, *, but: str = "") -> None:
    """`Busy` if somebody drives the session, or another run is there to do so."""
    row = store.session(session)
    holder = row.holder
    if holder is not None and holder.live:
        raise Busy(
            f"session {row.record.name!r:.80} is driven by {holder.program} (pid {holder.pid})",
            hint="wait for it, stop it, or name another session",
            holder=holder,
            session=session,
        )
    for files in RunFiles.all(folder_of(store)[1]):
        info = _known(files)
        if info is None or info.session != session or files.id == but:
            continue
        if decide.shown(info, live=files.is_live()) == "running":
            raise Busy(
                f"session {row.record.name!r:.80} is driven by run {short(files.id)}",
                hint=f"stator attach {short(files.id)}, or stator stop {short(files.id)}",
                session=session,
                run=files.id,
            )


# -- functions ------------------------------------------------------------------------------------


def target(function: Callable[..., Any], args: Sequence[Any]) -> dict[str, Any]:
    """How another process finds a function and what to call it with; `BadType` where it could not."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    loaded = processes.module_of(module) if module else None
    if not name or "<" in name or _named(loaded, name) is not function:
        raise BadType(
            f"another process could not find {name or type(function).__name__!r:.80} by its name",
            hint="run a function that stands at the top level of a module",
        )
    file = getattr(loaded, "__file__", None) if module == "__main__" else ""
    if file is None:
        raise BadType(
            f"{name} is in the main program, which has no file that could be run again",
            hint="put it into a module",
        )
    return {
        "function": f"{module}:{name}",
        "main": processes.whole(file) if file else "",
        "path": processes.import_path(),
        "args": _plain(args),
    }


def _named(module: Any, name: str) -> Any:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _plain(args: Sequence[Any]) -> list[Any]:
    """Arguments as they will arrive; refused if they would arrive as something else."""
    given = list(args)
    try:
        arrives = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise BadType(f"arguments pass through JSON: {error}", hint="pass plain data") from None
    if arrives != given:
        raise BadType(
            "arguments pass through JSON, and these would change on the way",
            hint="pass lists rather than tuples, and dicts with text as keys",
        )
    return given
