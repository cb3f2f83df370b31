"""Shows what an import of sessions did: from a bundle, or from another store."""

from __future__ import annotations

from typing import Any

import msgspec

from stator.model.values.ids import short
from stator.runtime.bundles.report import ErasedHere, Imported, ImportedSession
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen

_FATES = {
    "new": ("ok", ""),
    "fast-forward": ("ok", "continued"),
    "fork": ("doubt", "diverged"),
    "same": ("dim", "already here"),
    "longer here": ("dim", "already here, with newer commits"),
}


def show(screen: Screen, report: Imported, *, erase: bool) -> None:
    """Show what became of each session, and what of this store it took away; `erase`: whether it may."""
    does = "would import" if report.dry_run else "imported"
    line = Line("✓ ", "ok").add("all hashes verified", "bold")
    line.add(f" · {does} {count(report.commits, 'commit')} from {report.path}", "dim")
    screen.line(line.add(f" ({size(report.bytes)})", "dim"))
    width = max(widest((one.name for one in report.sessions), 40), 1)
    for one in report.sessions:
        screen.lines(_lines(one, width))
    for gone in report.erased:
        screen.line(_erased_line(gone, report.dry_run))
    if report.erased and report.dry_run and not erase:
        screen.line(Line("  nothing of it is imported without --erase", "doubt"))
    if report.withheld:
        text = f"  {count(report.withheld, 'content field')} left out when the bundle was exported"
        screen.line(Line(text, "doubt"))


def _lines(one: ImportedSession, width: int) -> list[Line]:
    style, meaning = _FATES[one.fate]
    line = Line("  ").add(one.fate, style, width=14).add(one.name, "bold", width=width).add("  ")
    line.add(short(one.into), "id").add(f" {count(one.commits, 'commit')}")
    line.add(f" · @{one.seq} {one.head[:12]}", "dim").add(f" · {meaning}" if meaning else "", "dim")
    lines = [line]
    if one.moved and one.commits:
        project = one.project or "(none)"
        lines.append(Line(f"{'':16}project {one.moved} was imported as {project}", "dim"))
    brings = [
        count(number, what)
        for number, what in (
            (one.carried.erasures, "erasure"),
            (one.carried.children, "child session"),
            (one.carried.grants, "approval"),
            (one.carried.keeping, "hold or retention rule"),
        )
        if number
    ]
    if brings:
        idle = one.carried.grants or one.carried.keeping
        note = "; approvals, holds and retention of others have no effect here" if idle else ""
        lines.append(Line(f"{'':16}with {', '.join(brings)}{note}", "dim"))
    return lines


def _erased_line(gone: ErasedHere, dry_run: bool) -> Line:
    what = f"{count(gone.fields, 'field')} and {count(gone.records, 'record')}"
    line = Line("  ").add("would erase" if dry_run else "erased", "bad", width=14)
    line.add(gone.name, "bold").add("  ").add(short(gone.session), "id")
    return line.add(f" {what} in {count(gone.commits, 'commit')}")


def as_json(report: Imported) -> dict[str, Any]:
    """The report as a document."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    return found
