"""`stator pull`: copies a session of another store into this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.locations import without_secrets
from stator.model.values.ids import short
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.parts.other_store import open_source
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.progress import bar
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.exchange.pull import Pulled
    from stator.surfaces.cli.options import (
        DryRunFlag,
        EraseFlag,
        IntoOption,
        JsonFlag,
        NewNameOption,
        NoPagerFlag,
        StoreOption,
        TenantOption,
    )

EXAMPLES = """
stator pull team.db fix-login                bring it here, or continue the one that is here
stator pull team.db fix-login --name theirs    continue it in a fork called theirs
stator pull postgresql://db/team s_18149e24 --dry-run
"""


def pull(
    url: str,
    session: str,
    /,
    *,
    name: NewNameOption = None,
    into: IntoOption = None,
    erase: EraseFlag = False,
    dry_run: DryRunFlag = False,
    tenant: TenantOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Bring a session of another store here.

    It comes as a bundle of it would be imported: every commit is checked against its hash, all of it arrives or
    nothing. A session that is the beginning of the other one is continued; if both have new commits, the other one
    becomes a fork. Nothing is overwritten. What comes is marked as imported, and approvals must be given again.

    Parameters
    ----------
    url
        The store to pull from: a path or a URL. It is only read.
    session
        A session of that store: its name, its id or its last characters.
    """
    with (
        Screen(json=json, pager=not no_pager) as screen,
        open_source(url, tenant=tenant) as other,
        open_to_write(store) as opened,
    ):
        with bar(screen) as progress:
            pulled = opened.store.pull_from(
                other,
                session,
                as_name=name or "",
                project=into,
                erasures="apply" if erase else "refuse",
                dry_run=dry_run,
                progress=progress,
            )
        if json:
            screen.document("stator.pull/1", _as_json(pulled))
        else:
            _show(screen, pulled, url, name or "")
    return 0


def _as_json(pulled: Pulled) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(pulled)
    return found


def _show(screen: Screen, pulled: Pulled, url: str, name: str) -> None:
    from stator.surfaces.cli.render.reports import bundle_report

    bundle_report.show(screen, msgspec.structs.replace(pulled.imported, path=without_secrets(url)))
    if pulled.forked:
        line = Line("  forked        ", "ok").add(name, "bold").add("  ")
        screen.line(
            line.add(short(pulled.forked), "id").add(f" at the head of {pulled.name}", "dim")
        )
