"""The detached run that a program holds: how it is doing, what it prints, waiting for it and stopping it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stator.errors import Ambiguous, InvalidInput, NotFound
from stator.model.log.commit import Commit
from stator.model.log.shown_text import cut_short
from stator.model.records.types import CallRecord
from stator.model.sessions import detached_run as decide
from stator.model.sessions.detached_run import GRACE_S, RunInfo, Status, StopRequest
from stator.model.values.ids import short, suffix_of
from stator.runtime.base.context import Context, nap
from stator.runtime.base.ownership import require_own
from stator.runtime.facade.view import SessionView
from stator.runtime.runs import prepare, processes
from stator.runtime.runs.folder import Output, RunFiles, boot_id, folder_of
from stator.runtime.views.as_read import as_read
from stator.store.port import StorePort

LOOK_S = 0.05
"""Between looks whether a run has ended."""
TITLE_MAX = 200


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run, and what its session's log contains about it."""

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
    """A detached run: its state, what it prints, waiting for it and stopping it."""

    def __init__(
        self,
        store: StorePort,
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
        """What is recorded about the run now."""
        return self.files.read()

    @property
    def status(self) -> Status:
        """running, done, failed, stopped; or lost: its supervisor is gone, and it has no end on record."""
        return self._now()[1]

    def _now(self) -> tuple[RunInfo, Status]:
        """The lock is looked at first, so that a run which ends in between is not taken for lost."""
        live = self.files.is_live()
        info = self.files.read()
        return info, decide.shown(info, live=live)

    def standing(self) -> RunReport:
        """Everything known about the run, including its last commit and its unfinished calls."""
        info, status = self._now()
        lost = status == "lost"
        boot = boot_id()
        view = self.view
        try:
            last = next(view.log(newest_first=True, limit=1, load=False), None)
            calls = [entry.record for entry in view.entries("calls")]
        except NotFound:  # its session is gone; the run is still something to know of
            last, calls = None, []
        return RunReport(
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
        return SessionView(
            as_read(self._store, self._context), self.info.session, sleep=self._sleep
        )

    def output(self, cursor: int = 0) -> Output:
        """The output after a cursor: bytes, the next cursor, and how many earlier bytes are lost."""
        return self.files.output(cursor)

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait until the run has ended and return its status; `running` if the timeout passed first."""
        waited = 0.0
        while (status := self.status) == "running" and (timeout_s is None or waited < timeout_s):
            self._sleep(LOOK_S)
            waited += LOOK_S
        return status

    def stop(self, *, grace_s: float = GRACE_S) -> Status:
        """End it: SIGTERM to its process group, SIGKILL after the grace. A run that has ended is not changed."""
        if not 0 <= grace_s <= 86_400:
            raise InvalidInput(f"the grace must be 0 to 86,400 seconds, got {grace_s!r:.40}")
        require_own(self._store, "end a process that is recorded there")
        info, status = self._now()
        asked = StopRequest(by=self._context.principal, grace_s=grace_s)
        if status == "running" and self.files.ask(asked):
            return self.wait(grace_s + 30)
        if self.status == "lost":
            self._end_orphan(info, asked)
        return self.status

    def _end_orphan(self, info: RunInfo, asked: StopRequest) -> None:
        """End what a dead supervisor left, and put it on record; with the lock, so that no other process does."""
        with self.files.hold(self._sleep):
            number = processes.end_group(info, boot_id(), asked.grace_s, self._sleep)
            if number is not None:
                at = self._context.clock()
                self.files.write(decide.ended(info, -number, at=at, stop=asked))

    def again(self) -> None:
        """Start it again under the same id, session and command; the output continues where it was."""
        with prepare.renewed(self._store, self._context, self.files, self._sleep) as lock:
            processes.start(self.files.folder, lock)


def start_function(
    store: StorePort,
    context: Context,
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    session: str = "",
    restart: str = "no",
) -> Run:
    """Call a function in a process of its own; see `Runner.run`."""
    called = prepare.target(function, args)
    name = called["function"].partition(":")[2]
    title = cut_short(f"{name}({', '.join(map(repr, args))})", TITLE_MAX)
    command = processes.python_command(called)
    return start(
        store, context, command, session=session, restart=restart, program=name, title=title
    )


def every(store: StorePort, context: Context, session: str = "") -> list[Run]:
    """Every run of the store, or of a session; the newest first."""
    found = [
        (info.started, files)
        for files in RunFiles.all(folder_of(store)[1])
        if (info := prepare.known(files)) is not None and (not session or info.session == session)
    ]
    found.sort(key=lambda item: (-item[0], item[1].id))
    return [Run(store, context, files) for _, files in found]


def find(store: StorePort, context: Context, text: str) -> Run:
    """The run a person means."""
    digits = suffix_of(text, "run")
    folders = RunFiles.all(folder_of(store)[1])
    found = [files for files in folders if digits and files.id.endswith(digits)]
    if not found:
        raise NotFound(f"no run {text!r:.80}", hint="stator ps --all lists runs", run=text)
    if len(found) > 1:
        ids = sorted(files.id for files in found)
        raise Ambiguous(
            f"{len(ids)} runs match {text!r:.80}",
            candidates=ids,
            hint="give more digits: " + ", ".join(short(run) for run in ids[:8]),
        )
    return Run(store, context, found[0])


def start(
    store: StorePort,
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
    with prepare.prepared(store, context, command, **told) as (files, lock):
        processes.start(files.folder, lock)
    return Run(store, context, files)
