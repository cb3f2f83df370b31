"""`stator rewind`: returns a session to an earlier state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from stator.errors import BadPosition
from stator.model.values.ids import short
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.rewind import Rewound
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.parts.confirm import agreed, can_ask, refuse_both
from stator.surfaces.cli.parts.open_store import open_to_read, open_to_write
from stator.surfaces.cli.render.detail import call_line, turns_shown
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        JsonFlag,
        NoPagerFlag,
        PlaceArgument,
        SessionOption,
        StoreOption,
        YesFlag,
    )

LISTED_MAX = 50
"""Calls that are named of a long way."""
EXAMPLES = """
stator rewind t3                   to the end of turn 3
stator rewind t3 --dry-run         show what that would do
stator rewind t3 --yes             without asking
stator rewind rewind/1             return to where the first rewind started
stator rewind fix-login:@42
"""


def rewind(
    *what: PlaceArgument,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Return a session to an earlier state; the log keeps everything.

    Name the position to return to: t3, @42, a tag. Nothing outside the store is undone: files on disk and the effects
    of calls stay. On a terminal it shows what would change, and asks; a rewind can be taken back.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if can_ask() and not (dry_run or yes or json):
        with open_to_read(store) as opened:
            rewinding.refuse_recorded(opened.named(what, session)[0].record)
        shown = rewind(*what, dry_run=True, session=session, store=store, no_pager=True)
        if not agreed("Rewind?", json=json):
            note("nothing was changed")
            return shown
    with (
        open_to_read(store) if dry_run else open_to_write(store) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        view, ref = opened.named(what, session)
        if ref is None or ".." in ref:
            raise BadPosition("rewind needs one position", hint="stator rewind t3")
        if not dry_run:
            rewinding.refuse_recorded(view.record)
        do = opened.store.contribute(view.id).rewind
        found = rewinding.foresee(opened.store.port, view.id, ref) if dry_run else do(ref)
        if json:
            document = {**msgspec.to_builtins(found), "dry_run": dry_run}
            screen.document("stator.rewind/1", document)
        else:
            screen.lines(_lines(view, found, dry=dry_run), hang=4)
    return 0


def _lines(view: SessionView, found: Rewound, *, dry: bool) -> Iterator[Line]:
    line = Line(found.name, "bold").add(" ").add(short(found.session), "id").add(": ")
    line.add("would rewind" if dry else "rewound", "doubt" if dry else "")
    yield line.add(f" to {_place(found)}, from @{found.start}")
    if found.turns:
        yield Line(
            f"  no longer in the state: {turns_shown(found.turns)} (still in the log)", "dim"
        )
    if found.again:
        yield Line(f"  in the state again: {turns_shown(found.again)}", "dim")
    if found.effects:
        yield Line("  not undone: these calls happened, or may have happened", "doubt")
        shown = found.effects if found.is_whole else found.effects[-LISTED_MAX:]
        yield from (call_line(view, call) for call in shown)
        if not found.is_whole:
            yield Line(
                f"    and more before them; each: stator calls {short(found.session)}", "dim"
            )
    name = short(found.session)
    yield Line(
        f"  files on disk are unchanged; restore them: stator restore --everything --at {name}:@{found.end}"
    )
    if not dry:
        yield Line(f"  undo: stator rewind {name}:{found.tag}")


def _place(found: Rewound) -> str:
    at = f"@{found.end}"
    return at if found.shown == at else f"{found.shown} ({at})"
