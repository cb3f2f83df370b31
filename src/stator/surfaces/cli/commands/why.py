"""`stator why`: shows why a file changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from stator.connect import project_root
from stator.errors import InvalidInput
from stator.model.log.query import check_limit
from stator.model.values import paths
from stator.runtime.facade.view import SessionView
from stator.runtime.views.why import Reason
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import stamp

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator why auth.py                 in the last session
stator why src/auth.py --project   in every session of this project
stator why auth.py -s fix-login --json
"""
LIMIT = 50
LABELS = {
    "decision": ("decided", "bold"),
    "call": ("called", ""),
    "edit": ("", ""),
    "asked": ("asked", ""),
    "said": ("answered", ""),
}


def why(
    path: str,
    /,
    *,
    session: SessionOption = None,
    project: ProjectFlag = False,
    all: AllFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show why a file changed: edits, decisions, calls and messages.

    Turn by turn, newest first: edits of the file, decisions, and calls that name it. If a turn has no recorded
    decision, its prompt and answer are shown instead.

    Parameters
    ----------
    path
        The file, relative to this folder or to the project's root.
    """
    count = check_limit(LIMIT if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        wide = project or all
        view = None if wide else opened.session(session)
        found = _reasons(opened, view, path, None if all else opened.project, count)
        if json:
            for reason in found:
                screen.item(msgspec.to_builtins(reason))
            return 0
        if view is not None:
            title(screen, view, opened.now, f"why {path}")
        for place, ((owner, turn), reasons) in enumerate(
            groupby(found, key=lambda reason: (reason.session, reason.turn))
        ):
            if place:
                screen.line()
            screen.lines(_turn(opened, owner, turn, list(reasons), wide=wide), hang=19)
        if not found:
            return opened.report_empty(f"nothing is recorded about {path}")
    return 0


def _reasons(
    opened: OpenedStore, view: SessionView | None, path: str, project: str | None, limit: int
) -> list[Reason]:
    """Look the path up as typed, then relative to this folder, then as a whole; the first that the record knows."""
    for root, clean in _candidates(path):
        found = (
            view.why(clean, root=root, limit=limit)
            if view is not None
            else opened.store.why(clean, root=root, project=project, limit=limit)
        )
        if found:
            return found
    return []


def _candidates(path: str) -> list[tuple[str, str]]:
    root = str(project_root())
    try:
        typed = paths.split(path, root)
    except InvalidInput as error:
        raise InvalidInput(error.what, hint="stator why src/auth.py") from None
    full = os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path)))
    found = [typed, paths.split(full, root)]
    home = os.path.expanduser(paths.HOME)
    if full.startswith(home + "/"):  # an agent may have named it so
        found.append((paths.HOME, paths.HOME + full[len(home) :]))
    return list(dict.fromkeys([*found, ("/", full)]))


def _turn(
    opened: OpenedStore, session: str, turn: int, reasons: list[Reason], *, wide: bool
) -> Iterator[Line]:
    """The reasons of one turn, under its prompt."""
    view = SessionView(opened.store.as_read, session)
    asked = view.beginning(turn)
    line = Line(f"t{turn}" if turn else "before any turn", "title")
    if wide:
        line.add(f" of {opened.names()[session]}", "bold")
    if asked is not None:
        line.add(f" · {stamp(asked.when)} · ", "dim").add("prompt: ", "dim")
        line.extend(record_line.of_commit(asked))
    yield line
    undecided = not any(reason.kind == "decision" for reason in reasons)
    for reason in sorted(reasons, key=lambda reason: reason.seq):
        if reason.kind == "asked" and asked is not None:
            continue
        yield _reason(reason)
    if undecided and turn:
        yield Line("  no decision was recorded in this turn; showing its messages", "dim")


def _reason(reason: Reason) -> Line:
    label, style = LABELS.get(reason.kind, (reason.kind, ""))
    verb, _, rest = (
        reason.text.partition(" ") if reason.kind == "edit" else (label, "", reason.text)
    )
    line = Line("  ").add(f"@{reason.seq}", "id", width=6).add(" ")
    line.add(verb, record_line.OP_STYLES.get(verb, style), width=9).add(" ")
    line.add(f"{reason.topic}: " if reason.topic else "", "bold").add(record_line.brief(rest))
    return line.add(f" — {reason.detail}" if reason.detail else "", "dim")
