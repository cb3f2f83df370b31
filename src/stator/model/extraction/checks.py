"""Finds the runs of checks: of the commands that are to prove steps of the plan.

A step may be recorded before its check runs, or after. So the checks that steps name are remembered, and the lines that
ran of late. What is recorded of a check is its newest run; where that cannot be known, the record says so, and a reader
has to look for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.model.exchange.check_lines import RAN, checks_in, ending, tidy
from stator.model.exchange.extraction_state import ExtractionState, HeldCall, LineRun
from stator.model.exchange.items import text_id
from stator.model.exchange.shell_effects import COMMAND_MAX
from stator.model.exchange.tool_files import command_of, is_file_tool
from stator.model.extraction.evidence import Evidence, ExtractionRule, Found
from stator.model.log.commit import Upsert
from stator.model.records.types import CheckRecord, PlanRecord, Record

CHECK_MAX = 2_000
"""Characters of a check. A longer one is not remembered."""
CHECKS_MAX = 64
"""Checks that are remembered. What is recorded of one that is given up becomes unknown."""
RAN_MAX = 64
"""Lines and parts of lines that are remembered."""
LINE, UNREAD = "line", "unread"


def named_check(record: Record | None) -> str:
    """The check that a record names; "" if it names none that is remembered."""
    if isinstance(record, PlanRecord):
        named = tidy(record.check)
    else:
        named = record.command if isinstance(record, CheckRecord) else ""
    return named if len(named) <= CHECK_MAX else ""


def _needs(tool: str, given: Any) -> Any:
    if is_file_tool(tool):
        return None
    if given is None:
        return {UNREAD: True}
    command = command_of(given)
    return {LINE: command} if command.strip() and len(command) <= COMMAND_MAX else None


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if one.kind in ("plan", "check"):
        return _remembered(state, one)
    if one.kind not in ("outcome", "settlement") or one.status not in RAN:
        return None
    given = held.given if held is not None and isinstance(held.given, dict) else {}
    if held is None or given.get(UNREAD):
        return None if is_file_tool(one.tool) else _lost(state, one)
    if not (line := given.get(LINE)):
        return None
    run = _run(one, held)
    lines = checks_in(line, (state.folder,) if state.folder else ())
    for text in lines:
        _note(state, text, run)
    while len(state.ran) > RAN_MAX:
        del state.ran[next(iter(state.ran))]
    # of two calls at the same time, the one that began last counts
    found = [text for text in lines if state.checks.get(text, run.place + 1) <= run.place]
    for text in found:
        state.checks[text] = run.place
    return _found((text, run) for text in found)


def _run(one: Evidence, held: HeldCall) -> LineRun:
    ended = ending(one.status, one.output) or "unknown"
    # Where the exit code may be in what was erased, or another run may have begun since, it says nothing certain.
    is_sure = held.place and (one.is_whole or ended == "failed")
    return LineRun(ended if is_sure else "unknown", held.intent, one.id, held.place)


def _note(state: ExtractionState, text: str, run: LineRun) -> None:
    name = text_id(text)
    known = state.ran.pop(name, None)
    state.ran[name] = known if known is not None and known.place > run.place else run


def _remembered(state: ExtractionState, one: Evidence) -> Found | None:
    """The checks that a commit names are remembered; those that ran of late are found."""
    runs: dict[str, LineRun] = {}
    for check in map(named_check, one.records):
        if not check or check in state.checks:
            continue
        run = state.ran.get(text_id(check))
        state.checks[check] = run.place if run is not None else 0
        if run is not None:
            runs[check] = run
    while len(state.checks) > CHECKS_MAX:
        given_up = next(iter(state.checks))
        del state.checks[given_up]
        runs[given_up] = LineRun("unknown", one.id, one.id)
    return _found(iter(runs.items()))


def _lost(state: ExtractionState, one: Evidence) -> Found | None:
    """A call ended whose command is not known: it may have run any check."""
    state.ran.clear()
    return _found((check, LineRun("unknown", one.id, one.id)) for check in state.checks)


def _found(runs: Iterator[tuple[str, LineRun]]) -> Found | None:
    each = list(runs)
    changes = tuple(
        Upsert("checks", CheckRecord(command=check, ended=run.ended, ran_in=run.intent))
        for check, run in each
    )
    also = dict.fromkeys(name for _, run in each for name in (run.intent, run.outcome))
    return Found(changes=changes, source="tool", also=tuple(also)) if changes else None


RULE = ExtractionRule(name="check", version=1, kind="check", find=_find, needs=_needs)
