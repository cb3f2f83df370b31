"""Shows what went to another store, or would go, and what the other store does not have as it is here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from stator.locations import without_secrets
from stator.model.values.ids import short
from stator.runtime.exchange.sent import LeftThere, SentReport, SentSession
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

LISTED = 20
"""Sessions that are listed by name; the others are counted."""
_STYLES = {
    "new": "ok",
    "continued": "ok",
    "fork": "ok",
    "same": "dim",
    "longer there": "doubt",
    "diverged": "doubt",
    "refused": "bad",
}


def show(screen: Screen, report: SentReport, url: str, verb: tuple[str, str]) -> None:
    """Show a report. `url` names the other store as the user does; `verb` is what is done to sessions, and what was
    done ("push", "pushed")."""
    report = msgspec.structs.replace(report, target=without_secrets(url))
    screen.lines(_sessions(report), hang=4)
    screen.line(_summary(report, verb), hang=2)
    screen.lines(_remarks(report), hang=4)


def as_json(report: SentReport) -> dict[str, Any]:
    """The report as a document."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    return found


def _sessions(report: SentReport) -> Iterator[Line]:
    moving = [one for one in report.sessions if one.commits and one not in report.findings]
    width = max(widest((one.name for one in [*moving[:LISTED], *report.findings]), 40), 1)
    for one in moving[:LISTED]:
        yield _line(one, width)
    if len(moving) > LISTED:
        yield Line(f"  … and {count(len(moving) - LISTED, 'more session')}", "dim")
    for one in report.findings:
        yield _line(one, width)
        yield Line(f"    {_advice(one, report)}", "dim")


def _line(one: SentSession, width: int) -> Line:
    line = Line("  ").add(one.fate, _STYLES[one.fate], width=14)
    line.add(one.name, "bold", width=width).add("  ").add(short(one.session), "id")
    if one.commits or one.fate in ("new", "continued"):
        line.add(f" {count(one.commits, 'commit')}")
    for number, text in (
        (one.erasures, f"with {count(one.erasures, 'erasure')}"),
        (one.withheld, f"without {count(one.withheld, 'content field')}"),
        (one.held_back, f"{count(one.held_back, 'commit')} of an open turn stay"),
    ):
        if number:
            line.add(f" · {text}", "doubt")
    return line


def _advice(one: SentSession, report: SentReport) -> str:
    name = short(one.session)
    if one.fate == "longer there":
        return f"it was continued there; to have that here: stator pull {report.target} {name}"
    if one.fate == "diverged":
        return (
            f"both stores have new commits, nothing was overwritten; stator pull {report.target} {name} brings "
            f"theirs as a fork, stator push {report.target} --fork sends yours as one"
        )
    return f"{one.why}; {one.hint}" if one.hint else one.why


def _summary(report: SentReport, verb: tuple[str, str]) -> Line:
    fates = Counter(one.fate for one in report.sessions)
    going = sum(one.commits > 0 for one in report.sessions)
    done = f"would {verb[0]}" if report.dry_run else verb[1]
    what = f"{done} {count(report.commits, 'commit')} of {count(going, 'session')}"
    line = Line("" if report.dry_run or report.findings else "✓ ", "ok")
    line.add(what if going else f"nothing to {verb[0]}", "bold").add(f" to {report.target}", "dim")
    if fates["same"]:
        line.add(f" · {count(fates['same'], 'session')} there already", "dim")
    if report.verified:
        line.add(f" · {count(report.verified, 'head')} verified", "dim")
    return line


def _remarks(report: SentReport) -> Iterator[Line]:
    secrets = sum(one.secrets for one in report.sessions)
    withheld = sum(one.withheld for one in report.sessions)
    if withheld:
        left = "are left out" if report.dry_run else "were left out"
        text = f"  {count(withheld, 'content field')} {left}"
        yield Line(text, "doubt").add(f", among them {count(secrets, 'secret')}")
    for skipped in report.skipped:
        yield (
            Line("  skipped       ", "dim")
            .add(skipped.name, "bold")
            .add(f" · {skipped.why}", "dim")
        )
    too = " · would be purged there, too" if report.dry_run else " · and now there, too"
    for gone in report.purged_there:
        yield _purged(gone, "dim").add(too, "dim")
    for left_over in report.purged:
        why = f" ({left_over.why})" if left_over.why else ""
        yield _purged(left_over, "doubt").add(f" · still there{why}; purge it there, too", "doubt")


def _purged(one: LeftThere, style: str) -> Line:
    line = Line("  purged here   ", style).add(one.name, "bold").add("  ")
    return line.add(short(one.session), "id")
