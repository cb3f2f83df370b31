"""`stator import`: take up the sessions of a bundle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import connect, locate, project_id
from stator.model.ids import short
from stator.surfaces.cli.gist import count, size
from stator.surfaces.cli.paint import Line, widest
from stator.surfaces.cli.progress import bar
from stator.surfaces.cli.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.bundles import Brought, Imported
    from stator.surfaces.cli.options import (
        IntoProjectOption,
        JsonFlag,
        NoPagerFlag,
        PassphraseFileOption,
        StoreOption,
    )

EXAMPLES = """
stator import fix-login.stator     then: stator show fix-login, or run the agent again
stator import fix-login.stator --dry-run         check all of it, and say what would happen
stator import fix-login.stator --project shop
"""
_FATES = {
    "new": ("ok", ""),
    "fast-forward": ("ok", "continued"),
    "fork": ("doubt", "both went on: the other one is a fork"),
    "same": ("dim", "is here already"),
    "longer here": ("dim", "is here already, and went on"),
}


def import_(
    path: str,
    /,
    *,
    project: IntoProjectOption = None,
    dry_run: bool = False,
    passphrase_file: PassphraseFileOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Take up the sessions of a bundle: same ids, same heads.

    Every commit is held against its hash before anything is seen of it; a bundle that is cut short, changed or
    hostile is refused whole. A session that is here already is continued, or left as it is; where both went on,
    the other one comes in as a fork. Nothing is overwritten, and what was erased stays erased.

    Parameters
    ----------
    path
        The file that stator export wrote.
    dry_run
        Check everything and say what would happen; write nothing.
    """
    place = locate(store)
    with (
        connect(place.url, create=not dry_run) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        with bar(screen) as progress:
            report = opened.import_bundle(
                path,
                project=_project(project),
                passphrase=lambda: _passphrase(passphrase_file),
                dry_run=dry_run,
                progress=progress,
            )
        if json:
            screen.document("stator.import/1", plain(report))
        else:
            _show(screen, report)
    return 0


def _project(given: str | None) -> str | None:
    """What a project is called, given its folder or just that."""
    if given is None or not (os.sep in given or given.startswith((".", "~"))):
        return given
    return project_id(Path(os.path.abspath(os.path.expanduser(given))))


def _passphrase(file: str | None) -> str:
    from stator.surfaces.cli import passphrases

    if file is not None:
        return passphrases.from_file(file)
    return passphrases.asked("passphrase of the bundle")


def _show(screen: Screen, report: Imported) -> None:
    does = "would take" if report.dry_run else "took"
    line = Line("✓ ", "ok").add("every hash checked", "bold")
    line.add(f" · {does} {count(report.commits, 'commit')} from {report.path}", "dim")
    screen.line(line.add(f" ({size(report.bytes)})", "dim"))
    width = max(widest((one.name for one in report.sessions), 40), 1)
    for one in report.sessions:
        screen.lines(_lines(one, width))
    if report.withheld:
        text = f"  {count(report.withheld, 'piece')} of content left out by whoever exported it"
        screen.line(Line(text, "doubt"))


def _lines(one: Brought, width: int) -> list[Line]:
    style, said = _FATES[one.fate]
    line = Line("  ").add(one.fate, style, width=14).add(one.name, "bold", width=width).add("  ")
    line.add(short(one.into), "id").add(f" {count(one.commits, 'commit')}")
    line.add(f" · @{one.seq} {one.head[:12]}", "dim").add(f" · {said}" if said else "", "dim")
    lines = [line]
    if one.moved and one.commits:
        project = one.project or "(none)"
        lines.append(Line(f"{'':16}project {one.moved} is {project} here", "dim"))
    return lines


def plain(report: Imported) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in report.__struct_fields__ if name != "sessions"},
        "sessions": [
            {name: getattr(one, name) for name in one.__struct_fields__} for one in report.sessions
        ],
    }
