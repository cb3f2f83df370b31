"""`stator verify`: checks that the store holds exactly what was written."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from stator.connect import locate, verify_damaged
from stator.errors import BadQuery, NotFound, SchemaChanged, StoreCorrupt
from stator.model.log.log_walk import in_words
from stator.model.log.query import Finding, VerifyReport
from stator.model.values.ids import short
from stator.runtime.views.verify import Progress, examine, holds_head
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, path_here
from stator.surfaces.cli.render.lines import Line, cells
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.facade.view import SessionView
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionArgument, StoreOption

EXAMPLES = """
stator verify                      the store and every session in it
stator verify fix-login            the store and one session's chain
stator verify fix-login --head 3fa9…   check too that a head noted earlier is still there
stator verify --json || echo "something is wrong"
"""
HEADS_MAX = 10
"""Heads that are printed for people; JSON has all of them."""
BAR_FROM = 2**22
"""Bytes of a store from which on its check shows how far it is."""
NAME_LEAST = 8
"""Cells of a name beside its head, or it is below it."""
NOT_SHOWN = "a head that you kept shows a rewritten log: --head HASH"
_HASH = re.compile(r"[0-9a-f]{64}\Z")


def verify(
    session: SessionArgument = None,
    *,
    head: str | None = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Check all database pages, indexes and commit hashes.

    Reads every session's log to its end, also past damage, and names every damaged commit by session and position.
    Exits with 1 if it finds a problem, and with 5 if nothing can be read at all. If someone cuts off the
    newest commits or rewrites the whole log, the file itself shows no trace of it: note the head that verify
    prints, and check it later with --head.

    Parameters
    ----------
    head
        The hash of a head noted earlier; it is a finding if the session no longer has it.
    """
    if head is not None and not _HASH.match(head):
        raise BadQuery("--head takes a hash of 64 hex digits", hint="stator show prints it")
    place = locate(store)
    with Screen(json=json, pager=not no_pager) as screen:
        try:
            with open_to_read(store) as opened:
                report = _examined(opened, session, head, screen)
        except (SchemaChanged, StoreCorrupt) as error:
            report = verify_damaged(place.url, error)
        if json:
            screen.document("stator.verify/1", report_as_json(place.shown, report))
        else:
            _show(screen, path_here(place.shown), report)
    return OK if report.ok else FINDING


def _examined(
    opened: OpenedStore, session: str | None, head: str | None, screen: Screen
) -> VerifyReport:
    view = _view(opened, session) if session is not None or head is not None else None
    port = opened.store.port
    with _bar(screen, opened.place.url) as progress:
        report = examine(port, view.id if view is not None else None, progress=progress)
        if view is None or head is None or holds_head(port, view.id, head):
            return report
    lost = Finding(
        what=f"the head {head[:12]}… is not in the log: it was cut off, rolled back or rewritten",
        check="head",
        session=view.id,
        name=view.name,
        hint="compare with a copy that still has it",
    )
    return msgspec.structs.replace(report, log_ok=False, damages=[*report.damages, lost])


def _view(opened: OpenedStore, session: str | None) -> SessionView:
    """The session that is named. The error about a file names the command that verifies a bundle."""
    try:
        return opened.session(session)
    except NotFound:
        if session is None or not os.path.isfile(session):
            raise
        raise BadQuery(
            f"{session!r:.80} is a file and no session",
            hint=f"a bundle is verified by: stator import {shlex.quote(session)} --dry-run",
        ) from None


def _is_small(url: str) -> bool:
    """Whether a store is a file that is verified at once."""
    try:
        return os.path.getsize(url) < BAR_FROM
    except OSError:
        return False


@contextmanager
def _bar(screen: Screen, url: str) -> Iterator[Progress]:
    """A progress callback; on a terminal it shows a line that counts commits, unless that takes no time."""
    if screen.json or not screen.colour or not screen.is_terminal or _is_small(url):
        yield lambda session, commits: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("checking pages and indexes")

        def update(session: str, commits: int) -> None:
            bar.update(task, description=f"checking {short(session)}: {commits:,} commits")

        yield update


def _show(screen: Screen, url: str, report: VerifyReport) -> None:
    """The verdict in one line, then every finding, or the heads to note."""
    screen.line(_verdict(url, report), hang=2)
    for finding in report.damages:
        screen.line(_line(finding), hang=2)
    if report.ok:
        shown = list(report.heads.items())[:HEADS_MAX]
        _heads(screen, [(head, report.names[session]) for session, head in shown])
        if more := len(report.heads) - len(shown):
            screen.line(Line(f"  … {count(more, 'more head')}: --json", "dim"))
        screen.line(Line(NOT_SHOWN, "dim"), hang=2)


def _verdict(url: str, report: VerifyReport) -> Line:
    checked = f"{count(report.sessions, 'session')}, {count(report.commits, 'commit')}"
    if report.ok:
        return (
            Line("✓ ", "ok").add("OK: ", "bold").add(f"{checked} verified").add(f" in {url}", "dim")
        )
    line = Line("✗ ", "bad")
    if report.log_ok:
        line.add("the log is intact", "bold").add(f" ({checked} verified); ")
        return line.add(f"{count(len(report.damages), 'finding')} elsewhere in {url}")
    bad = len({finding.session for finding in report.damages if finding.check in ("chain", "head")})
    line.add("the log is damaged", "bold").add(f" in {count(bad, 'session')}; ")
    return line.add(f"{checked} verified, {count(len(report.damages), 'finding')} in {url}")


def _line(finding: Finding) -> Line:
    line = Line("✗ ", "bad").add(f"{finding.check}: ", "bold")
    if finding.session:
        line.add(f"session {short(finding.session)} ")
    if finding.name:
        line.add(f"({finding.name}) ", "dim")
    last = f"..@{finding.last}" if finding.last else ""
    line.add(f"@{finding.seq}{last} " if finding.seq else "", "id").add(finding.what)
    if finding.held:
        line.add(f"; {in_words(finding.held)}")
    return line.add(f" ({finding.hint})" if finding.hint else "", "dim")


def _heads(screen: Screen, found: Sequence[tuple[str, str]]) -> None:
    """Print heads, which are copied and given to --head later, so they are never cut; their names may be. All of them
    have the name beside them, or all have it below."""
    lines = [(Line(f"  {head}", "id"), Line(f" {name}", "dim")) for head, name in found]
    widest = max((one.width + of.width for one, of in lines), default=0)
    least = max((one.width for one, _ in lines), default=0) + cells(" ") + NAME_LEAST
    is_beside = min(widest, least) <= screen.cut
    for line, of in lines:
        if is_beside:
            screen.line(line.extend(of.cut_plain(screen.cut - line.width)))
        else:
            screen.whole([line])
            screen.line(Line(" ").extend(of))


def report_as_json(url: str, report: VerifyReport) -> dict[str, Any]:
    return {
        "store": url,
        "ok": report.ok,
        "log_ok": report.log_ok,
        "sessions": report.sessions,
        "commits": report.commits,
        "heads": report.heads,
        "findings": [as_json(finding) for finding in report.damages],
    }


def as_json(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in finding.__struct_fields__}
