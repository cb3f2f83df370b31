"""`stator files`: which files were touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.runtime.views.file_changes import FileChange
from stator.surfaces.cli.parts.scope import asking, title
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import OP_STYLES
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        LastOption,
        NoPagerFlag,
        ProjectFlag,
        SessionArgument,
        StoreOption,
    )

EXAMPLES = """
stator files --last 5              files touched in the last 5 turns
stator files fix-login             ever, in that session
stator files --project --last 1    in the last turn of every session here
stator files --reads --json | jq -r .path
"""


def files(
    session: SessionArgument = None,
    *,
    last: LastOption = None,
    reads: bool = False,
    project: ProjectFlag = False,
    all: AllFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show which files were touched, with their net change.

    Net: created and then modified is created; created and then deleted is not listed at all.

    Parameters
    ----------
    reads
        Also files that were only read.
    """
    if last is not None:
        check_limit(last)
    with asking(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        wide = all or project
        if wide:
            scope = None if all else ask.project
            found = ask.store.files(last=last, reads=reads, project=scope)
        else:
            view = ask.session(session)
            found = view.files(last=last, reads=reads)
        if json:
            for change in found:
                screen.item(msgspec.to_builtins(change))
            return 0
        when = f"files of the last {last} turns" if last else "files, ever"
        if not wide:
            title(screen, view, ask.now, when)
        names = ask.names()
        paths = widest((change.path for change in found), max(20, screen.width - 44))
        for change in found:
            line = _line(change, paths)
            if wide:
                line.add(f"  {names[change.session]} {short(change.session)}", "dim")
            screen.line(line)
        if not found:
            return ask.nothing("no files were touched" + (" there" if last else ""))
    return 0


def _line(change: FileChange, paths: int) -> Line:
    line = Line().add(change.op, OP_STYLES.get(change.op, ""), width=9)
    line.add(change.path, width=paths).add("  ").add(f"t{change.turn}", width=4)
    line.add(" ").add(f"@{change.seq}", "id", width=6)
    line.add(f" {change.edits} times" if change.edits > 1 else "", "dim")
    line.add(f" in {change.root}" if change.root != "." else "", "dim")
    return line.add(f" ({change.how})" if change.how != "recorded" else "", "dim")
