"""`stator pull`: copies a session of another store into this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.locations import without_secrets
from stator.model.values.ids import short
from stator.surfaces.cli.exits import OK
from stator.surfaces.cli.parts.confirm import erasing_agreed, refuse_both
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
        YesFlag,
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
    yes: YesFlag = False,
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
    If --erase would take content away here, it shows what would go, does it with --yes, and asks on a terminal.

    Parameters
    ----------
    url
        The store to pull from: a path or a URL. It is only read.
    session
        A session of that store: its name, its id or its last characters.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    options: dict[str, Any] = {
        "as_name": name or "",
        "project": into,
        "erasures": "apply" if erase else "refuse",
    }
    with (
        Screen(json=json, pager=not no_pager) as screen,
        open_source(url, tenant=tenant) as other,
        open_to_write(store) as opened,
    ):
        if erase and not (yes or dry_run):
            seen = opened.store.pull_from(other, session, **options, dry_run=True)
            if seen.imported.erased:
                _answer(screen, seen, url, name, erase=True)
                screen.flush()
                if not erasing_agreed(seen.imported.erased, json=json):
                    return OK
        with bar(screen) as progress:
            pulled = opened.store.pull_from(
                other, session, **options, dry_run=dry_run, progress=progress
            )
        _answer(screen, pulled, url, name, erase=erase)
    return OK


def _answer(screen: Screen, pulled: Pulled, url: str, name: str | None, *, erase: bool) -> None:
    if screen.json:
        screen.document("stator.pull/1", _as_json(pulled))
    else:
        _show(screen, pulled, url, name or "", erase=erase)


def _as_json(pulled: Pulled) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(pulled)
    return found


def _show(screen: Screen, pulled: Pulled, url: str, name: str, *, erase: bool) -> None:
    from stator.surfaces.cli.render.reports import bundle_report

    imported = msgspec.structs.replace(pulled.imported, path=without_secrets(url))
    bundle_report.show(screen, imported, erase=erase)
    if pulled.forked:
        line = Line("  forked        ", "ok").add(name, "bold").add("  ")
        screen.line(
            line.add(short(pulled.forked), "id").add(f" at the head of {pulled.name}", "dim")
        )
