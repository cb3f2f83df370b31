"""`stator blame`: shows which turn each line of a file comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery
from stator.runtime.views.authors.blame import TOUCHES_MAX, Blame, BlameLine, LineSource
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.parts.question.typed_path import recorded_places, with_lines
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import day

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator blame auth.py               every line, over the sessions of this project
stator blame src/auth.py:120       one line
stator blame auth.py:10-20 --json  some lines, for programs
stator blame auth.py -s fix-login  only what this session wrote
"""
NAME_WIDTH, PROMPT_WIDTH = 16, 28
Words = dict[LineSource, str]
WORDS: Words = {
    "before": "before any session",
    "between": "changed in between, not recorded",
    "since": "changed since, not recorded",
    "unknown": "not known which turn",
}


OF_ONE: Words = {**WORDS, "before": "not of this session"}
"""The same where only one session is looked at."""


def blame(
    file: str,
    /,
    *,
    session: SessionOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show which turn each line of a file comes from.

    The lines are those on disk. A line that no record explains is marked: it was there before any session, it was
    changed without a record, or a turn whose changes are not known may have written it.

    Parameters
    ----------
    file
        The file, relative to this folder or to the project's root; FILE:12 or FILE:10-20 for some of its lines.
    """
    path, wanted = with_lines(file)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, session=session, project=project, everywhere=everywhere)
        scope.expect_whole()
        found = _asked(scope, path)
        if found is None:
            what = f"{path} is not on disk, and nothing is recorded about it"
            return scope.report_empty(what, lambda wider: _asked(wider, path) is not None)
        lines = _chosen(found, wanted, file)
        if json:
            screen.document("stator.blame/1", as_json(found, lines))
            return 0
        _remark(scope, found, path)
        screen.whole(_lines(opened, lines, OF_ONE if scope.view is not None else WORDS))
    return 0


def _asked(scope: QuestionScope, path: str) -> Blame | None:
    """The first place of the path that the record knows; else one that ends so; else one that is on disk."""
    within = None if scope.view is None else scope.view.id
    elsewhere: Blame | None = None
    unrecorded: Blame | None = None
    opened = scope.opened
    for root, clean in recorded_places(path):
        found = opened.store.blame(
            clean, root=root, project=opened.project, session=within, all=scope.everywhere
        )
        if found.sessions and found.lines and not found.asked:
            return found
        if found.asked and found.lines:
            elsewhere = elsewhere or found
        elif found.lines and unrecorded is None:
            unrecorded = found
    return elsewhere or unrecorded


def _chosen(found: Blame, wanted: tuple[int, int] | None, typed: str) -> list[BlameLine]:
    if wanted is None:
        return found.lines
    lines = found.lines[wanted[0] - 1 : wanted[1]]
    if not lines:
        raise BadQuery(f"{typed!r:.80}: the file has {len(found.lines):,} lines")
    return lines


def _remark(scope: QuestionScope, found: Blame, path: str) -> None:
    if not found.sessions:
        scope.report_empty(
            "no record of this file",
            lambda wider: bool((one := _asked(wider, path)) and one.sessions),
        )
    else:
        note(f"looked in {scope.shown}")
    if found.asked:
        note(f"nothing is recorded about {found.asked}; this is {found.path}, which ends so")
    if found.others:
        note(f"more paths end so; ask about one of them: {', '.join(found.others)}")
    if not found.on_disk:
        note("it is not on disk; these are the lines that the last record left")
    if any(line.source == "unknown" for line in found.lines):
        command = shlex.join(["stator", "files", found.path])
        note(
            f"which turns wrote it: {command}; what a program's tools write is kept with s.track(contents=True)"
        )
    if found.is_cut:
        note(f"only its newest {TOUCHES_MAX:,} touches were looked at")


def _lines(opened: OpenedStore, lines: list[BlameLine], words: Words) -> Iterator[Line]:
    """One line each; what its neighbours share is repeated, because lines are cut out and searched for."""
    names = opened.names()
    digits = len(str(lines[-1].line)) if lines else 1
    for line in lines:
        yield _line(line, names, digits, words)


def _line(line: BlameLine, names: dict[str, str], digits: int, words: Words) -> Line:
    made = Line()
    if line.source == "recorded":
        made.add(day(line.at), "dim", width=11).add(names[line.session], "bold", width=NAME_WIDTH)
        made.add(f" t{line.turn}", "id", width=5).add(line.prompt, width=PROMPT_WIDTH)
    else:
        made.add("", width=11).add(words[line.source], "dim", width=NAME_WIDTH + 5 + PROMPT_WIDTH)
    return made.add(f" {line.line:>{digits}} │ ", "dim").add(line.text.removesuffix("\n"))


def as_json(found: Blame, lines: list[BlameLine]) -> dict[str, Any]:
    """A blame as JSON."""
    return {**msgspec.structs.asdict(found), "lines": [msgspec.to_builtins(line) for line in lines]}
