"""`stator files`: lists the files that were touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.model.values.paths import outside
from stator.runtime.views.file_changes import FileChange
from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import OP_STYLES
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.turns.subject import base_of, relative

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


COLUMNS = (
    Column(title="CHANGE"),
    Column(title="FILE", shrinks=True, middle=True, least=20),
    Column(title="EDITS", right=True, drop=2),
    Column(title="TURN"),
    Column(title="AT"),
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="NOTE", shrinks=True, drop=1),
)


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
        names = opened.names() if wide else None
        base = base_of(change.path for change in found)
        rows = [_cells(change, names, base) for change in found]
        screen.lines(table(COLUMNS, rows, screen.width))
        if base:
            screen.lines(["", Line(f"paths are below {base}", "dim")])
        if not found:
            return opened.report_empty(
                "no files were touched" + (f" in the last {last} turns" if last else "")
            )
    return 0


def _cells(change: FileChange, names: Mapping[str, str] | None, base: str) -> list[Line | str]:
    owner = "" if names is None else f"{names[change.session]} {short(change.session)}"
    about = outside(change.root, change.path).strip()
    how = f"({change.how})" if change.how != "recorded" else ""
    return [
        Line(change.op, OP_STYLES.get(change.op, "")),
        relative(change.path, base),
        str(change.edits) if change.edits else "",
        f"t{change.turn}",
        Line(f"@{change.seq}", "id"),
        Line(owner, "dim"),
        Line(" ".join(part for part in (about, how) if part), "dim"),
    ]
