"""`stator files`: lists the files that were touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.model.values.paths import outside
from stator.runtime.views.file_changes import FileChange
from stator.surfaces.cli.parts.open_store import open_to_read, title
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
stator files fix-login             all files that session touched
stator files --project --last 1    in the last turn of every session of this project
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
    """List the files a session touched, with their net change.

    Net change: a file created and then modified is listed as created; one created and then deleted is not
    listed.

    Parameters
    ----------
    reads
        Include files that were only read.
    """
    if last is not None:
        check_limit(last)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        wide = all or project
        if wide:
            scope = None if all else opened.project
            found = opened.store.files(last=last, reads=reads, project=scope)
        else:
            view = opened.session(session)
            found = view.files(last=last, reads=reads)
        if json:
            for change in found:
                screen.item(msgspec.to_builtins(change))
            return 0
        when = f"files of the last {last} turns" if last else "all files"
        if not wide:
            title(screen, view, opened.now, when)
        names = opened.names()
        paths = widest((change.path for change in found), max(20, screen.width - 44))
        for change in found:
            line = _line(change, paths)
            if wide:
                line.add(f"  {names[change.session]} {short(change.session)}", "dim")
            screen.line(line)
        if not found:
            return opened.report_empty(
                "no files were touched" + (f" in the last {last} turns" if last else "")
            )
    return 0


def _line(change: FileChange, paths: int) -> Line:
    line = Line().add(change.op, OP_STYLES.get(change.op, ""), width=9)
    line.add(change.path, width=paths).add("  ").add(f"t{change.turn}", width=4)
    line.add(" ").add(f"@{change.seq}", "id", width=6)
    line.add(f" {change.edits} edits" if change.edits > 1 else "", "dim")
    line.add(outside(change.root, change.path), "dim")
    return line.add(f" ({change.how})" if change.how != "recorded" else "", "dim")
