"""Prepares a detached run: checks its command and its session, and puts it on record with its lock held.

A run belongs to a session and never holds its lease: the program drives the session itself, through
`stator.open()`, which finds its name in `$STATOR_SESSION`. What the run is and how it ended is in
its folder (`runs.folder`); what it did is in the session's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from stator.errors import BadText, BadType, Busy, InvalidInput, NotFound, StatorError
from stator.model.log.query import SessionRow
from stator.model.records.types import SessionRecord
from stator.model.sessions import detached_run as decide
from stator.model.sessions.detached_run import RunInfo, restarts_allowed, session_name
from stator.model.sessions.lifecycle import check_name
from stator.model.values.ids import is_id, short
from stator.runtime.base.context import Context, nap
from stator.runtime.base.first_commit import opening
from stator.runtime.base.ownership import require_named, require_own
from stator.runtime.runs import processes
from stator.runtime.runs.folder import RunFiles, boot_id, folder_of, here
from stator.runtime.views.refs import followed
from stator.store.port import StorePort

COMMAND_MAX = 1000
"""Words of a command."""


def known(files: RunFiles) -> RunInfo | None:
    """What is known of a run; None of one whose record is not there yet, or not any more."""
    try:
        return files.read()
    except NotFound:
        return None


@contextmanager
def prepared(
    store: StorePort,
    context: Context,
    command: Sequence[str],
    *,
    session: str = "",
    restart: str = "no",
    program: str = "",
    title: str = "",
) -> Iterator[tuple[RunFiles, int]]:
    """A run that is on record, with its lock held, to be started. If that fails, its record is removed."""
    require_named(store, "run a program with it")
    words = _checked(command)
    restarts_allowed(restart)
    processes.check_program(words[0], here())
    path, runs = folder_of(store)
    if getattr(store, "holds_password", False):
        raise InvalidInput(
            "the URL of the store holds a password, which would be written down for the run",
            hint="put it into ~/.pgpass or $PGPASSWORD",
        )
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
def renewed(
    store: StorePort, context: Context, files: RunFiles, sleep: Callable[[float], None] = nap
) -> Iterator[int]:
    """A run to be started again, with its lock held; `Busy` while its session is driven."""
    require_own(store, "start a command that is recorded there")
    with files.hold(sleep) as lock:
        info = files.read()
        if processes.is_child(info, boot_id()):
            raise Busy(
                f"the program of run {short(files.id)} is still running, as process {info.child}",
                hint=f"stator stop {short(files.id)}",
                run=files.id,
            )
        check_free(store, info.session, but=files.id)
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


def session_for(store: StorePort, context: Context, name: str) -> SessionRow:
    """The session a run is to drive, created if needed; no lease is taken."""
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


def check_free(store: StorePort, session: str, *, but: str = "") -> None:
    """`Busy` if the session is driven, or another run is there to drive it."""
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
        info = known(files)
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
            hint="run a function defined at the top level of a module",
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
            "arguments pass through JSON, and these would change",
            hint="pass lists rather than tuples, and dicts with text as keys",
        )
    return given
