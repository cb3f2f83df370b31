"""`stator ps`: lists runs and their status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stator.model.log.commit import Commit
from stator.model.values.ids import short
from stator.runtime.facade.run import RunReport
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import span

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        NoPagerFlag,
        StoreOption,
    )

EXAMPLES = """
stator ps                          running and lost runs
stator ps --all                    ended runs too
stator ps --json | jq -r 'select(.status == "lost") | .id'
"""
ORDER = {"lost": 0, "running": 1}
COLUMNS = (
    Column(title="RUN"),
    Column(title="STATUS"),
    Column(title="SESSION", shrinks=True, most=40, least=12),
    Column(title="FOR", right=True),
    Column(title="RESTARTS", right=True, drop=1),
    Column(title="LAST COMMIT", shrinks=True, least=16),
)


def ps(
    *,
    all: AllFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List runs and their status, lost ones first.

    A run is lost when it has no supervisor and no recorded end: the machine was restarted, or the supervisor
    was killed. Everything it committed is in its session's log.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        found = opened.store.runs()
        shown = [run.standing() for run in found if all or run.status in ORDER]
        shown.sort(key=lambda one: ORDER.get(one.status, 2))
        if json:
            for one in shown:
                screen.item(as_json(one))
        else:
            screen.lines(_lines(shown, opened.now, screen.width))
        if not shown:
            ended = len(found)
            more = f"; --all lists {count(ended, 'ended run')}" if ended else ""
            return opened.report_empty(f"no running or lost runs{more}")
    return 0


def as_json(one: RunReport) -> dict[str, Any]:
    """A run as JSON: what is recorded, and its status now."""
    info, last = one.info, one.last
    return {
        **{name: getattr(info, name) for name in info.__struct_fields__},
        "status": one.status,
        "reason": "process died" if one.status == "lost" else info.reason or None,
        "cause": one.cause or None,
        "orphaned": one.orphaned,
        "last": None
        if last is None
        else {"seq": last.seq, "at": last.at, "kind": last.kind, "turn": last.turn},
        "unfinished": [wire.record(record) for record in one.unfinished],
    }


def _lines(found: list[RunReport], now: int, width: int) -> Iterator[Line]:
    """A table of runs, with lines below each for what is wrong with it."""
    rows = list(table(COLUMNS, [_cells(one, now) for one in found], width))
    yield from rows[:1]
    for one, row in zip(found, rows[1:], strict=True):
        yield row
        yield from _remarks(one)


def _cells(one: RunReport, now: int) -> list[Line | str]:
    info = one.info
    return [
        Line(short(info.id), "id"),
        Line().status(one.status),
        Line(info.name, "bold"),
        span((info.ended or _until(one, now)) - info.started),
        Line(str(info.restarts) if info.restarts else "", "changed"),
        _last(one.last, now),
    ]


def _until(one: RunReport, now: int) -> int:
    """The last time the run is known to have been alive."""
    if one.status != "lost":
        return now
    return max(one.info.started, one.last.at if one.last is not None else 0)


def _last(commit: Commit | None, now: int) -> Line:
    if commit is None:
        return Line("no session", "dim")
    line = Line(f"@{commit.seq} ", "id").add(f"{commit.kind} ")
    line.extend(record_line.of_commit(commit).cut(40))
    return line.add(f" · {span(now - commit.at)} ago", "dim")


def _remarks(one: RunReport) -> Iterator[Line]:
    """Problems of a run: why it ended, whether its program still runs, which calls have no outcome."""
    cause = one.cause
    if one.status == "lost":
        cause += "; program still runs" if one.orphaned else ""
        if one.unfinished:
            tools = ", ".join(record.tool for record in one.unfinished[:5])
            cause += f"; {count(len(one.unfinished), 'call')} without an outcome ({tools})"
        yield Line(f"{'':11}{cause}", "doubt")
        hint = "stop" if one.orphaned else "run --repeat"
        yield Line(f"{'':11}→ stator {hint} {short(one.info.id)}", "dim")
    elif cause and one.status != "running":
        yield Line(f"{'':11}{cause}", "dim")


def ending(one: RunReport) -> Line:
    """One line that says how a run ended."""
    info = one.info
    line = Line(short(info.id), "id").add(" ").status(one.status)
    line.add(f" ({one.cause})" if one.cause else "")
    return line.add(f" after {span(info.ended - info.started)}" if info.ended else "", "dim")
