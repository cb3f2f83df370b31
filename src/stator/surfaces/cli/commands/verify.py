"""`stator verify`: checks that the store holds exactly what was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery, StatorError
from stator.model.log.query import Finding
from stator.model.values.ids import short
from stator.runtime.facade.view import SessionView
from stator.runtime.views.verify import Progress, holds_head
from stator.runtime.views.verify import verify as check
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionArgument, StoreOption

EXAMPLES = """
stator verify                      the store and every session in it
stator verify fix-login            the store and one session's chain
stator verify fix-login --head 3fa9…   check too that a head noted earlier is still there
stator verify --json || echo "something is wrong"
"""
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

    Names the first bad commit of each session, and exits with 1 if it finds a problem. If someone cuts off the
    newest commits or rewrites the whole log, the file itself shows no trace of it: note the head that verify
    prints, and check it later with --head.

    Parameters
    ----------
    head
        The hash of a head noted earlier; it is a finding if the session no longer has it.
    """
    if head is not None and not _HASH.match(head):
        raise BadQuery("--head takes a hash of 64 hex digits", hint="stator show prints it")
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.session(session) if session is not None or head is not None else None
        findings: list[Finding] = []
        counted: dict[str, int] = {}
        for finding in _check(opened, view, head, counted, screen):
            findings.append(finding)
            if not json:
                screen.line(_line(finding), hang=2)
        if json:
            screen.document("stator.verify/1", _as_json(opened, findings, counted))
        else:
            _conclude(screen, opened, findings, counted)
    return FINDING if findings else OK


def _check(
    opened: OpenedStore,
    view: SessionView | None,
    head: str | None,
    counted: dict[str, int],
    screen: Screen,
) -> Iterator[Finding]:
    """Every finding; a store too damaged to read on is a finding too."""
    port = opened.store.port
    with _bar(screen) as update:

        def progress(session: str, commits: int) -> None:
            counted[session] = commits
            update(session, commits)

        try:
            yield from check(port, view.id if view is not None else None, progress=progress)
            if view is not None and head is not None and not holds_head(port, view.id, head):
                yield Finding(
                    what=f"the head {head[:12]}… is not in the log: it was cut off, rolled back or rewritten",
                    check="head",
                    session=view.id,
                    hint="compare with a copy that still has it",
                )
        except StatorError as error:
            yield Finding(
                what=error.what, check="store", hint=error.hint or "restore the store from a copy"
            )


@contextmanager
def _bar(screen: Screen) -> Iterator[Progress]:
    """A progress callback; on a terminal it shows a line that counts commits."""
    if screen.json or not screen.colour or not screen.is_terminal:
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


def _line(finding: Finding) -> Line:
    line = Line("✗ ", "bad").add(f"{finding.check}: ", "bold")
    if finding.session:
        line.add(f"session {short(finding.session)} ")
    line.add(f"@{finding.seq} " if finding.seq else "", "id").add(finding.what)
    return line.add(f" ({finding.hint})" if finding.hint else "", "dim")


def _conclude(
    screen: Screen, opened: OpenedStore, findings: list[Finding], counted: dict[str, int]
) -> None:
    checked = f"{count(len(counted), 'session')}, {count(sum(counted.values()), 'commit')}"
    if findings:
        screen.line(
            Line(count(len(findings), "finding"), "bad").add(
                f" in {checked} of {opened.place.url}", "dim"
            ),
            hang=2,
        )
        return
    screen.line(
        Line("✓ ", "ok")
        .add("OK: ", "bold")
        .add(f"{checked} verified")
        .add(f" in {opened.place.url}", "dim"),
        hang=2,
    )
    for session in list(counted)[:10]:
        _head(screen, SessionView(opened.store.port, session))


def _head(screen: Screen, view: SessionView) -> None:
    """Print a head, which is copied and given to --head later, so it is never cut."""
    head, name = Line(f"  {view.head.hash}", "id"), Line(f" head of {view.name}", "dim")
    if head.width + name.width <= screen.cut:
        screen.line(head.extend(name))
    else:
        screen.whole([head])
        screen.line(Line(" ").extend(name))


def _as_json(
    opened: OpenedStore, findings: list[Finding], counted: dict[str, int]
) -> dict[str, Any]:
    return {
        "store": opened.place.url,
        "ok": not findings,
        "sessions": len(counted),
        "commits": sum(counted.values()),
        "heads": {session: opened.store.port.head(session).hash for session in counted}
        if not findings
        else {},
        "findings": [as_json(finding) for finding in findings],
    }


def as_json(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in finding.__struct_fields__}
