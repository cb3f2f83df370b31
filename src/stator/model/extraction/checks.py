"""Finds the runs of checks: of the commands that are to prove steps of the plan.

A step may be recorded before its check runs, or after. So the checks that steps name are remembered, and the lines that
ran of late. What is recorded of a check is its newest run, and which files commands wrote since, as their words say.
Where that cannot be known, the record says so, and a reader has to look for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stator.model.exchange.check_lines import RAN, checks_in, ending, tidy, written_by
from stator.model.exchange.extraction_state import (
    ExtractionState,
    HeldCall,
    KnownCheck,
    LineRun,
    WrittenFile,
)
from stator.model.exchange.items import text_id
from stator.model.exchange.shell_effects import COMMAND_MAX
from stator.model.exchange.tool_files import command_of, is_file_tool
from stator.model.extraction.evidence import ENDS, Evidence, ExtractionRule, Found
from stator.model.log.commit import Upsert
from stator.model.records.types import CheckRecord, PlanRecord, Record

CHECK_MAX = 2_000
"""Characters of a check. A longer one is not remembered."""
CHECKS_MAX = 64
"""Checks that are remembered. What is recorded of one that is given up becomes unknown."""
RAN_MAX = 64
"""Lines and parts of lines that are remembered."""
WRITTEN_MAX = 64
"""Files that commands wrote which are remembered, and which the record of a check names."""
LINE, UNREAD = "line", "unread"


def named_check(record: Record | None) -> str:
    """The check that a record names; "" if it names none that is remembered."""
    if isinstance(record, PlanRecord):
        named = tidy(record.check)
    else:
        named = record.command if isinstance(record, CheckRecord) else ""
    return named if len(named) <= CHECK_MAX else ""


def _runs_commands(tool: str) -> bool:
    return not is_file_tool(tool)


def _needs(tool: str, given: Any) -> Any:
    if given is None:
        return {UNREAD: True}
    command = command_of(given)
    return {LINE: command} if command.strip() and len(command) <= COMMAND_MAX else None


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if one.kind in ("plan", "check"):
        return _remembered(state, one)
    if one.status not in RAN:
        return None
    given = held.given if held is not None and isinstance(held.given, dict) else {}
    if held is None or given.get(UNREAD):
        return None if is_file_tool(one.tool) else _lost(state, one)
    if not (line := given.get(LINE)):
        return None
    run = _run(one, held)
    ran = _ran(state, line, run)
    wrote = _wrote(state, written_by(line, state.folder), besides=ran)
    return _found(state, (*ran, *wrote), (run.intent,))


def _run(one: Evidence, held: HeldCall) -> LineRun:
    ended = ending(one.status, one.output) or "unknown"
    # Where the exit code may be in what was erased, or another run may have begun since, it says nothing certain.
    is_sure = held.place and (one.is_whole or ended == "failed")
    return LineRun(ended if is_sure else "unknown", held.intent, one.id, held.place)


def _ran(state: ExtractionState, line: str, run: LineRun) -> list[str]:
    """The checks that a line ran, which are known from now on."""
    lines = checks_in(line, (state.folder,) if state.folder else ())
    for text in lines:
        name = text_id(text)
        known = state.ran.pop(name, None)
        state.ran[name] = known if known is not None and known.place > run.place else run
    while len(state.ran) > RAN_MAX:
        del state.ran[next(iter(state.ran))]
    # of two calls at the same time, the one that began last counts
    found = [
        text for text in lines if text in state.checks and state.checks[text].place <= run.place
    ]
    for text in found:
        state.checks[text] = _known(state, run)
    return found


def _known(state: ExtractionState, run: LineRun) -> KnownCheck:
    """What is known of a check after a run of it: what was written since that began was not checked."""
    if state.forgot >= run.place or run.ended == "unknown":
        return KnownCheck(run.place, "unknown", run.intent)
    since = (file.path for file in state.written if file.begun >= run.place)
    return KnownCheck(run.place, run.ended, run.intent, list(dict.fromkeys(since)))


def _wrote(state: ExtractionState, files: list[str], besides: list[str]) -> list[str]:
    """Note the files that a line wrote; the checks that they were not checked by. A reader sees for itself what the
    line of a check wrote."""
    state.written += [WrittenFile(path, state.begun) for path in files]
    if len(state.written) > WRITTEN_MAX:
        state.forgot = state.written[-WRITTEN_MAX - 1].begun
        del state.written[:-WRITTEN_MAX]
    found = []
    for text, check in state.checks.items():
        new = [path for path in files if path not in check.wrote]
        if not new or text in besides or check.ended != "ok":
            continue
        check.wrote = [*check.wrote, *new]
        if len(check.wrote) > WRITTEN_MAX:
            state.checks[text] = KnownCheck(check.place, "unknown", check.ran_in)
        found.append(text)
    return found


def _remembered(state: ExtractionState, one: Evidence) -> Found | None:
    """The checks that a commit names are remembered; those that ran of late are found."""
    found: list[str] = []
    also: list[str] = []
    for record in one.records:
        check = named_check(record)
        if not check or check in state.checks:
            continue
        state.checks[check] = KnownCheck()
        if isinstance(record, CheckRecord):
            state.checks[check] = KnownCheck(0, record.ended, record.ran_in, list(record.wrote))
        run = state.ran.get(text_id(check))
        if run is not None:
            state.checks[check] = _known(state, run)
            found.append(check)
            also += [run.intent, run.outcome]
    given_up = list(state.checks)[:-CHECKS_MAX]
    gone = [(check, KnownCheck(ran_in=one.id)) for check in given_up]
    for check in given_up:
        del state.checks[check]
    return _found(state, [check for check in found if check not in given_up], also, gone)


def _lost(state: ExtractionState, one: Evidence) -> Found | None:
    """A call ended whose command is not known: it may have run any check, and written any file."""
    state.ran.clear()
    state.written.clear()
    state.forgot = state.begun
    for check in state.checks:
        state.checks[check] = KnownCheck(state.checks[check].place, "unknown", one.id)
    return _found(state, state.checks, ())


def _found(
    state: ExtractionState,
    checks: Iterable[str],
    also: Iterable[str],
    gone: Iterable[tuple[str, KnownCheck]] = (),
) -> Found | None:
    known = [*((check, state.checks[check]) for check in checks), *gone]
    changes = tuple(
        Upsert(
            "checks",
            CheckRecord(command=name, ended=one.ended, ran_in=one.ran_in, wrote=list(one.wrote)),
        )
        for name, one in known
    )
    return Found(changes=changes, source="tool", also=tuple(also)) if changes else None


RULE = ExtractionRule(
    name="check", version=1, kind="check", sees=ENDS | {"plan", "check"}, find=_find, needs=_needs,
    reads=_runs_commands, only_read=True,
)  # fmt: skip
