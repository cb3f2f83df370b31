"""`stator check`: runs the checks of steps that are claimed to be done, so that they read done."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stator.errors import BadQuery, NotFound
from stator.model.calls.vocabulary import Act
from stator.model.records.types import PlanRecord
from stator.model.values.ids import short
from stator.runtime.base.ownership import require_own
from stator.runtime.facade.view import SessionView
from stator.runtime.replay.check import run_check
from stator.runtime.replay.recorded_tools import RecordedTools
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask
from stator.surfaces.cli.parts.load_function import own_environment
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        NoPagerFlag,
        RootOption,
        SessionOption,
        StoreOption,
        Text,
        YesFlag,
    )

EXAMPLES = """
stator check                       every step of the last session that is claimed to be done
stator check "tests pass"          one step
stator check -s fix-login --yes    without asking
"""


def check(
    step: Text = None,
    /,
    *,
    session: SessionOption = None,
    root: RootOption = None,
    yes: YesFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run the checks of steps that are claimed to be done.

    A step reads done only if its check, a command, succeeded after the last change of its files. The commands are
    those that the session recorded: they are shown first, and run by your shell only if you say so. Each is
    recorded as a call of the session. Exits with 1 if a step still reads claimed.

    Parameters
    ----------
    step
        The step, or a part of its name that no other has; default: every step that is claimed and names a check.
    """
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.session(session)
        steps = _chosen(view, step)
        if not steps:
            return opened.report_empty("no step that is claimed to be done names a check")
        require_own(opened.store.port, "run a command that is recorded in it")
        here = root or _folder(opened.store.context.root, view)
        hands = RecordedTools(here, environment=own_environment())
        commands = list(dict.fromkeys(record.check for record in steps))
        if not yes:
            _ask(commands, hands.root)
        for record in {record.check: record for record in steps}.values():
            run = functools.partial(hands.do, Act(kind="shell", text=record.check))
            status = run_check(
                opened.store.port, opened.store.context, view.id, record.step, record.check, run
            )
            note(f"$ {record.check}: {status}")
        wanted = {record.step for record in steps}
        found = [record for record in _steps(view) if record.step in wanted]
        if json:
            screen.document(
                "stator.check/1",
                {"session": view.id, "steps": [wire.record(record) for record in found]},
            )
        else:
            screen.lines(map(record_line.of_record, found))
    is_done = all(record.status == "done" for record in found)
    return OK if is_done else FINDING


def _ask(commands: list[str], folder: str) -> None:
    """Show the commands whole, and ask whether they may run."""
    with Screen(pager=False) as screen:
        screen.whole(Line(f"$ {command}", "bold") for command in commands)
        screen.whole([Line(f"  in {folder}", "dim")])
    if not can_ask() or not asks_yes(f"Run {count(len(commands), 'command')}?"):
        raise BadQuery("nothing was run", hint="read the commands above, then: --yes")


def _steps(view: SessionView) -> list[PlanRecord]:
    records = [entry.record for entry in view.entries("plan")[::-1]]
    found = [record for record in records if isinstance(record, PlanRecord)]
    return sorted(found, key=lambda record: record.order)


def _chosen(view: SessionView, name: str | None) -> list[PlanRecord]:
    """The steps to check, each with a check; all that are claimed if none is named."""
    steps = _steps(view)
    if name is None:
        return [step for step in steps if step.check and getattr(step, "because", "")]
    found = [step for step in steps if step.step == name] or [
        step for step in steps if name in step.step
    ]
    if len(found) != 1:
        what = f"{len(found)} steps are called" if found else "no step is called"
        raise NotFound(
            f"{what} {name!r:.80}", hint=f"stator state {short(view.id)} -c plan", session=view.id
        )
    if not found[0].check:
        raise BadQuery(
            f"the step {found[0].step!r:.80} names no check",
            hint='t.plan(step, check="pytest -q"), or record it over MCP',
        )
    return found


def _folder(root: str, view: SessionView) -> str:
    if not root:
        raise BadQuery(
            f"it is not known where the files of {view.name!r:.80} are", hint="--root FOLDER"
        )
    return root
