"""Files: which were changed most; of one file, which prompt each line comes from, each change, and who else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.model.log.query import SessionRow
from stator.model.records.types import LOOKS
from stator.model.views.patch import FilePatch, part_lines
from stator.runtime.views.authors.blame import BlameLine
from stator.runtime.views.authors.touched_by import (
    FileAuthors,
    TouchedIn,
    file_authors,
    turn_patch,
)
from stator.runtime.views.file_changes import most_changed
from stator.surfaces.cli.render.differences.patch import COMMENTED
from stator.surfaces.cli.render.turns.subject import base_of
from stator.surfaces.http.served import served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.projects import chosen_project, known_projects

SESSIONS = 60
"""Sessions, those used last, whose files are listed."""
COMMITS = 5000
"""Commits of each that are looked through, the newest."""
SHARED = 10
"""Files that several sessions changed, listed before the others where all projects are."""
SHOWN, MOST = 30, 200
"""Files that are listed at once, and those that are folded away behind them."""
LINES = 300
"""Lines of a file on one page."""
ROWS = 400
"""Rows of a patch."""
TEXT_MAX = 400
"""Characters of one line."""
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
UNKNOWN = {
    "before": "was there before the first record",
    "between": "changed outside the record",
    "since": "changed on disk since",
    "unknown": "not known",
}


class LineBlock(msgspec.Struct, frozen=True):
    """Lines in a row that come from one turn."""

    first: BlameLine
    lines: list[BlameLine]
    row: SessionRow | None
    words: str


class PatchRow(msgspec.Struct, frozen=True):
    """One line of a patch; number 0 if it has no number."""

    number: int
    sign: str
    text: str


def files(request: Request) -> Response:
    """The files of a project, most changed first; those of all projects, last changed first."""
    found = served(request)
    projects = known_projects(found)
    project = chosen_project(request, projects)
    rows = project.rows if project else [row for one in projects for row in one.rows]
    rows = sorted(rows, key=lambda row: -row.updated)[:SESSIONS]
    listed = most_changed(found.store.port, rows, commits=COMMITS)
    shared = [] if project else [one for one in listed if len(one.sessions) > 1]
    if project is None:
        listed.sort(key=lambda one: (-one.last.updated, one.last.id, -one.turn))
    return render(
        request,
        "files.html",
        tab="files",
        project=project,
        projects=projects,
        base=base_of([one.path for one in listed[:MOST]]) if project else "",
        shared=shared[:SHARED],
        files=listed[:SHOWN],
        folded=listed[SHOWN:MOST],
        more=max(0, len(listed) - MOST),
        looked_at=len(rows),
    )


def one_file(request: Request) -> Response:
    """Which prompt each line of a file comes from, and who touched it."""
    store = served(request).store
    path, root = request.query_params.get("path", ""), request.query_params.get("root", ".")
    if not path:
        raise HTTPException(404, "No file is named.")
    project = request.query_params.get("project")
    found = file_authors(store.as_read, store.context, path, root, project=project)
    lines = found.blame.lines if found.blame else []
    start = _number(request.query_params.get("line", "1"))
    return render(
        request,
        "file.html",
        tab="files",
        path=path,
        root=root,
        project=project,
        blame=found.blame,
        wrong=found.why_not,
        blocks=list(_blocks(found, lines[start - 1 : start - 1 + LINES])),
        start=start,
        end=min(start - 1 + LINES, len(lines)),
        total=len(lines),
        earlier=max(1, start - LINES) if start > 1 else 0,
        later=start + LINES if start + LINES <= len(lines) else 0,
        changed=_by_turn([one for one in found.touched if one.op not in LOOKS]),
        sessions=_by_session(found.touched),
        text_max=TEXT_MAX,
    )


def patch(request: Request) -> Response:
    """What one turn changed in a file."""
    asked = request.query_params
    path, root, turn = asked.get("path", ""), asked.get("root", "."), _number(asked.get("turn", ""))
    store = served(request).store
    view = store.read(asked.get("session", ""))
    made = turn_patch(store.as_read, view.id, turn, path, root)
    return render(
        request,
        "patch_rows.html" if is_fragment(request) else "patch.html",
        tab="files",
        path=path,
        root=root,
        row=view.row,
        turn=turn,
        patches=[(one, list(_rows(_text(one)))) for one in made],
        rows_max=ROWS,
        text_max=TEXT_MAX,
    )


def _by_turn(touched: Sequence[TouchedIn]) -> list[TouchedIn]:
    """The last touch of each turn, newest first."""
    return list({(one.row.id, one.turn): one for one in reversed(touched)}.values())[::-1]


def _by_session(touched: Sequence[TouchedIn]) -> list[tuple[TouchedIn, int, int]]:
    """Who touched it: the last touch of each session, how often it changed it, and how often it read it."""
    found: dict[str, tuple[TouchedIn, int, int]] = {}
    for one in touched:
        last, changes, reads = found.get(one.row.id, (one, 0, 0))
        looks = one.op in LOOKS
        found[one.row.id] = (last, changes + (not looks), reads + looks)
    return list(found.values())


def _blocks(found: FileAuthors, lines: Sequence[BlameLine]) -> Iterator[LineBlock]:
    for _, several in groupby(lines, lambda line: (line.source, line.session, line.turn)):
        block = list(several)
        first = block[0]
        yield LineBlock(first, block, found.rows.get(first.session), UNKNOWN.get(first.source, ""))


def _text(patch: FilePatch) -> str:
    """The patch of a file, or the places that are known to have changed."""
    if patch.patch:
        return patch.patch
    parts = "".join(line for part in patch.parts for line in part_lines(patch.path, part.places))
    return "".join(line.removeprefix(COMMENTED) for line in parts.splitlines(keepends=True))


def _rows(text: str) -> Iterator[PatchRow]:
    """The lines of a unified diff, with their numbers after the change."""
    new = 0
    for line in text.splitlines()[: ROWS + 2]:
        if found := _HUNK.match(line):
            new = int(found[2])
            yield PatchRow(0, "", line)
        elif line.startswith(("--- ", "+++ ", "diff ", "index ", "new file", "deleted file", "\\")):
            continue
        elif line.startswith("-"):
            yield PatchRow(0, "−", line[1:])
        elif line.startswith("+"):
            yield PatchRow(new, "+", line[1:])
            new += 1
        else:
            yield PatchRow(new, "", line[1:])
            new += 1


def _number(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 8 else 1


ROUTES = (
    Route("/files", files),
    Route("/files/of", one_file),
    Route("/files/patch", patch),
)
