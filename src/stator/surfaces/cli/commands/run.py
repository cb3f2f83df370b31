"""`stator run`: a program with a session of its own, here or detached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stator.connect import connect
from stator.errors import BadQuery, InvalidInput
from stator.model.sessions import detached_run as decide
from stator.model.values.ids import short
from stator.runtime.facade import run as runs
from stator.runtime.facade.run import Run
from stator.runtime.facade.store import Store
from stator.runtime.runs import prepare
from stator.surfaces.cli.commands.ps import plain
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.supervisor import Supervisor

if TYPE_CHECKING:
    from stator.model.sessions.detached_run import RunInfo
    from stator.surfaces.cli.options import (
        Command,
        DetachFlag,
        JsonFlag,
        NoPagerFlag,
        RunSessionOption,
        StoreOption,
    )

EXAMPLES = """
stator run --detach -- python agent.py          then: stator attach, stator ps
stator run -- python agent.py --fast            in the foreground, on record all the same
stator run -d --session fix-login -- ./agent    in a session there is, or is to be
stator run -d --restart on-failure:3 -- ./agent
stator run --again 3fa91c07                     once more: same program, same session
"""


def run(
    *command: Command,
    detach: DetachFlag = False,
    session: RunSessionOption = None,
    restart: str | None = None,
    again: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run a program with a session of its own, here or detached.

    The program finds its store and session in $STATOR_STORE and $STATOR_SESSION, so that stator.open()
    drives it, and its run in $STATOR_RUN. In the foreground the exit code is the program's. What it
    prints is kept, up to 2 MB, for stator attach.

    Parameters
    ----------
    restart
        no (the default), on-failure (5 times at most) or on-failure:N.
    again
        A run that has ended, to be started again; its command is the one on record.
    """
    with connect(store) as opened, Screen(json=json, pager=False) as screen:
        if again is not None:
            if command or session is not None or restart is not None:
                raise BadQuery("a run that is started again has its command, session and policy")
            found = opened.attach(again)
            note(f"again: {decide.title(found.info)}")
            info = _again(opened, found, detach=detach, json=json)
        else:
            found, info = _new(
                opened, list(command), session or "", restart or "no", detach=detach, json=json
            )
        if json:
            screen.document("stator.run/1", plain(found.standing()))
        elif detach:
            screen.lines(_started(found.info))
    return 0 if detach or info is None else decide.exit_code(info)


def _new(
    store: Store, command: list[str], session: str, restart: str, *, detach: bool, json: bool
) -> tuple[Run, RunInfo | None]:
    if detach:
        started = runs.start(store.port, store.context, command, session=session, restart=restart)
        return started, None
    with prepare.prepared(store.port, store.context, command, session=session, restart=restart) as (
        files,
        _,
    ):
        found = Run(store.port, store.context, files)
        return found, _here(found, json=json)


def _again(store: Store, run: Run, *, detach: bool, json: bool) -> RunInfo | None:
    if detach:
        run.again()
        return None
    with prepare.renewed(store.port, store.context, run.files):
        return _here(run, json=json)


def _here(run: Run, *, json: bool) -> RunInfo:
    """Be the supervisor, and pass on what the program prints as it is: it was started here."""

    def show(data: bytes) -> None:
        if not json:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def ready(problem: str | None) -> None:
        if problem is not None:
            raise InvalidInput(f"cannot run it: {problem}")

    return Supervisor(run.files, echo=show, stdin=None).run(ready)


def _started(info: RunInfo) -> list[Line]:
    line = Line(short(info.id), "id").add(" ").status("running").add(f" · {info.name} ", "bold")
    return [
        line.add(short(info.session), "id").add(f" · pid {info.child}", "dim"),
        Line(f"  stator attach {short(info.id)} · stator stop {short(info.id)}", "dim"),
    ]
