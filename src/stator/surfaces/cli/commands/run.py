"""`stator run`: runs a program with its own session, in the foreground or detached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stator.connect import connect
from stator.errors import BadQuery, InvalidInput
from stator.model.log.shown_text import without_secrets
from stator.model.sessions import detached_run as decide
from stator.model.values.ids import short
from stator.runtime.facade import run as runs
from stator.runtime.facade.run import Run
from stator.runtime.facade.store import Store
from stator.runtime.runs import prepare
from stator.surfaces.cli.commands.ps import as_json
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
stator run --detach -- python agent.py          afterwards: stator attach, stator ps
stator run -- python agent.py --fast            in the foreground, recorded too
stator run -d --session fix-login -- ./agent    in this session, created if missing
stator run -d --restart on-failure:3 -- ./agent
stator run --repeat 3fa91c07                    the same program in the same session
"""


def run(
    *command: Command,
    detach: DetachFlag = False,
    session: RunSessionOption = None,
    restart: str | None = None,
    repeat: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run a program with its own session, in the foreground or detached.

    Sets $STATOR_STORE and $STATOR_SESSION for the program, so that stator.open() drives the session, and
    $STATOR_RUN. In the foreground the exit code is the program's. The last 2 MB of its output are kept for
    stator attach.

    Parameters
    ----------
    restart
        When to restart the program: no (the default), on-failure (at most 5 times) or on-failure:N.
    repeat
        Start this ended run again, with the command that was recorded.
    """
    with connect(store) as opened, Screen(json=json, pager=False) as screen:
        if repeat is not None:
            if command or session is not None or restart is not None:
                raise BadQuery(
                    "--repeat takes no command, --session or --restart: it uses the recorded ones"
                )
            found = opened.attach(repeat)
            note(f"running again: {without_secrets(decide.title(found.info))}")
            info = _start_again(opened, found, detach=detach, json=json)
        else:
            found, info = _start_new(
                opened, list(command), session or "", restart or "no", detach=detach, json=json
            )
        if json:
            screen.document("stator.run/1", as_json(found.standing()))
        elif detach:
            screen.lines(_started(found.info))
    return 0 if detach or info is None else decide.exit_code(info)


def _start_new(
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
        return found, _in_foreground(found, json=json)


def _start_again(store: Store, run: Run, *, detach: bool, json: bool) -> RunInfo | None:
    if detach:
        run.again()
        return None
    with prepare.renewed(store.port, store.context, run.files):
        return _in_foreground(run, json=json)


def _in_foreground(run: Run, *, json: bool) -> RunInfo:
    """Supervise the program in this process, and pass its output on unchanged."""

    def show(data: bytes) -> None:
        if not json:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def ready(problem: str | None) -> None:
        if problem is not None:
            raise InvalidInput(f"cannot run the program: {problem}")

    return Supervisor(run.files, echo=show, stdin=None).run(ready)


def _started(info: RunInfo) -> list[Line]:
    line = Line(short(info.id), "id").add(" ").status("running").add(f" · {info.name} ", "bold")
    return [
        line.add(short(info.session), "id").add(f" · pid {info.child}", "dim"),
        Line(f"  stator attach {short(info.id)} · stator stop {short(info.id)}", "dim"),
    ]
