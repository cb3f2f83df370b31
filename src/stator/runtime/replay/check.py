"""Runs the check of a step as a person, and records it as a call of the step's session, so that it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stator.errors import WrongState
from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction import checks
from stator.model.extraction.evidence import seen_draft
from stator.model.extraction.extractor import Extractor
from stator.model.log.commit import Provenance
from stator.model.values.ids import retype
from stator.runtime.base.context import Context
from stator.runtime.base.plan_checks import learn
from stator.runtime.branches.open_driver import drive
from stator.runtime.branches.rerun import terms
from stator.runtime.driving.call import Calling, entered
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.tools import Tool
from stator.runtime.driving.writer import OutsideWriter
from stator.store.port import StorePort

TOOL = "check"
"""The tool that the call of a check names."""


def run_check(
    store: StorePort,
    context: Context,
    session: str,
    step: str,
    command: str,
    run: Callable[[], str],
) -> str:
    """Run a check and record the call; returns how it ended. `run` runs the command, and raises if it fails."""
    row = store.session(session)
    if row.record.mode == "recorded":
        return _beside(OutsideWriter(store, session, context, context.principal), command, run)
    if row.shown in ("active", "interrupted"):
        raise WrongState(
            f"session {row.record.name!r:.80} is {row.shown}: its program must continue or end first",
            hint="the check can be run by the program itself, as a call",
            session=session,
        )
    with (
        drive(store, context, row.record, terms(context, "run", "a check")) as driver,
        entered(OpenTurn(driver, f"check: {step}")) as turn,
    ):
        tool = Tool(lambda command: run(), name=TOOL, effect="write", attempts=1)
        return Calling(turn, tool, (), {"command": command}).drive().status


def _beside(writer: OutsideWriter, command: str, run: Callable[[], str]) -> str:
    """A call in a session that another program drives and Stator only records."""
    about: dict[str, Any] = {"tool": TOOL, "effect": "write", "attempt": 1}
    begun = writer.context.mint("commit")
    call = retype(begun, "call")
    began = writer.draft(
        "call", id=begun, call=call, status="started", input={"command": command}, **about
    )
    writer.append([began])
    status, cause, output = "ok", "", ""
    try:
        output = run()
    except TimeoutError as error:
        status, cause, output = "timeout", "timeout", str(error)
    except Exception as error:
        status, cause, output = "error", type(error).__name__, str(error)
    ended = writer.draft(
        "outcome",
        actor="tool",
        call=call,
        status=status,
        cause=cause,
        output=output,
        provenance=Provenance("tool", "verified"),
        **about,
    )
    state = ExtractionState(folder=writer.root.rstrip("/"))
    extractor = Extractor(writer.id, state, (checks.RULE,))
    learn(writer.store, extractor)
    extractor.see(seen_draft(began))
    writer.append([ended, *extractor.drafts(ended)])
    return status
