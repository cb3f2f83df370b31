"""`stator copy`: copies everything of one store into another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.other_store import open_other, open_source
from stator.surfaces.cli.render.progress import bar
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        JsonFlag,
        NoPagerFlag,
        TenantOption,
    )

EXAMPLES = """
stator copy .stator/store.db backup.db           a second store with the same sessions
stator copy .stator/store.db postgresql://db/team     into a store on a server
stator copy old.db new.db --dry-run              show what would be copied; write nothing
"""


def copy(
    source: str,
    target: str,
    /,
    *,
    dry_run: DryRunFlag = False,
    tenant: TenantOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Copy everything of one store into another.

    Sessions keep their ids, their hashes and what they say; erased content stays erased. What is there already is
    not sent again: if you interrupt the copy, or it is killed, the next one continues. At the end the heads of all
    sessions are compared. A session that both stores continued is left as it is and reported. One that was purged
    here since it was copied is purged there, too, unless it is not as it was sent, came from another store, or is held
    or driven there; then it is reported, and the exit code is 1.

    Approvals are valid only in the store in which they were given. Search indexes and notes on how far transcripts
    were read are not copied; they are made again.

    Parameters
    ----------
    source
        The store to copy: a path or a URL. It is only read.
    target
        The store to copy into. It is made if it is not there.
    """
    from stator.surfaces.cli.render.reports import sent_report

    with (
        Screen(json=json, pager=not no_pager) as screen,
        open_source(source, tenant=tenant) as opened,
        open_other(target, tenant=tenant, preview=dry_run) as other,
    ):
        with bar(screen) as progress:
            report = opened.copy_to(other, dry_run=dry_run, progress=progress)
        if json:
            screen.document("stator.copy/1", sent_report.as_json(report))
        else:
            sent_report.show(screen, report, target, ("copy", "copied"))
        return FINDING if report.findings or report.purged else OK
