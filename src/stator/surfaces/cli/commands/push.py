"""`stator push`: sends the sessions of projects to a store that others read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import project_id
from stator.locations import without_secrets
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask, refuse_both
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.parts.other_store import open_other
from stator.surfaces.cli.render.progress import bar
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.runtime.exchange.sent import SentReport
    from stator.surfaces.cli.options import (
        DryRunFlag,
        IntoOption,
        JsonFlag,
        NoPagerFlag,
        ProjectsOption,
        RedactOption,
        StoreOption,
        TenantOption,
        YesFlag,
    )

EXAMPLES = """
stator push team.db                      show what of this project would go; asks on a terminal
stator push team.db --yes                push it
stator push postgresql://db/team --of shop --of ~/code/api
stator push team.db --redact "Acme" --yes
stator push team.db --fork --yes         what both continued becomes a fork there
"""


def push(
    url: str,
    /,
    *,
    of: ProjectsOption = None,
    into: IntoOption = None,
    redact: RedactOption = None,
    fork: bool = False,
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    tenant: TenantOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Send the sessions of a project to a store that others read.

    Without --yes it shows what would go, and asks if it runs on a terminal. Secrets that the redaction rules find are
    left out, also where they were recorded before these rules, and so is content that contains a --redact text.
    Sessions keep their ids and hashes, and commits their authors; in the other store they are marked as imported.
    What is there already is not sent again: an interrupted push is continued by the next one.

    A session that is driven goes up to its last ended turn. One that was continued there is never overwritten: it is
    reported, and the exit code is 1. A project's own preferences, approvals and policies stay here.

    Parameters
    ----------
    url
        The store to push to: a path or a URL.
    fork
        Send sessions that both stores continued as forks of those that are there.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    options: dict[str, Any] = {"into": into, "redact": redact or (), "forks": fork}
    with open_to_read(store) as opened:
        options["projects"] = [_project(opened, one) for one in of or ()] or [opened.project]
        if not yes:
            with open_other(url, tenant=tenant, preview=True) as other:
                seen = opened.store.push_to(other, dry_run=True, **options)
            _answer(Screen(json=json, pager=False), seen, url)
            if json or dry_run or not _agreed(seen, url):
                return _exit_code(seen)
        with Screen(json=json, pager=not no_pager) as screen:
            with open_other(url, tenant=tenant) as other, bar(screen) as progress:
                done = opened.store.push_to(other, progress=progress, **options)
            _answer(screen, done, url)
    return _exit_code(done)


def _agreed(seen: SentReport, url: str) -> bool:
    """Ask, where there is something to push and a person who can answer."""
    if not seen.commits:
        return False
    if can_ask():
        return asks_yes(f"Push {count(seen.commits, 'commit')} to {without_secrets(url)}?")
    note("nothing was pushed; push with --yes")
    return False


def _project(opened: OpenedStore, given: str) -> str:
    """The id of a project, given its id or its folder."""
    if not (os.sep in given or given.startswith((".", "~"))):
        return given
    return project_id(Path(os.path.abspath(os.path.expanduser(given))), opened.store.port)


def _answer(screen: Screen, report: SentReport, url: str) -> None:
    from stator.surfaces.cli.render.reports import sent_report

    if screen.json:
        screen.document("stator.push/1", sent_report.as_json(report))
    else:
        sent_report.show(screen, report, url, ("push", "pushed"))
    screen.flush()


def _exit_code(report: SentReport) -> int:
    return FINDING if report.findings or report.purged else OK
