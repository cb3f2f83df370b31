"""`stator tree`: shows sessions with their forks, retries and children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.model.views.tree import Branch, Tree, drawn
from stator.runtime.views.tree import LIMIT, project_tree
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render import amounts, documents
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator tree                        the last session, its ancestors and its descendants
stator tree fix-login
stator tree --project              every session of this project
stator tree --json | jq .total
"""
"""Units that the line shows elsewhere, or that would only add noise."""


def tree(
    *what: RefsArgument,
    session: SessionOption = None,
    project: ProjectFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show forks, retries and children of sessions, and what each spent."""
    wanted = check_limit(LIMIT if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        if project and (what or session is not None):
            raise BadQuery("name a session or --project, not both")
        if project:
            found = project_tree(opened.store.as_read, opened.project or None, limit=wanted)
            marked = ""
        else:
            view = opened.whole(
                what,
                session,
                f"stator log {' '.join([*([session] if session else []), *what])} shows it",
            )
            found, marked = view.tree(limit=wanted), view.id
        if json:
            screen.document(documents.TREE, documents.tree(found))
            return 0
        if not found.branches:
            return opened.report_empty("no sessions in this project")
        screen.lines(_lines(found, marked))
    return 0


def _lines(found: Tree, marked: str) -> Iterator[Line]:
    for lead, branch in drawn(found.branches):
        yield _line(lead, branch, here=branch.id == marked)
    if len(found.branches) > 1:
        turns = count(found.total.get("turns", 0), "turn")
        spent = _spent(found.total)
        sessions = count(len(found.branches), "session")
        yield Line(
            f"{sessions}, {turns}{f', {spent}' if spent else ''}; shared turns counted once", "dim"
        )
    if found.more:
        yield Line("… more sessions; show them with -n", "dim")


def _line(lead: str, branch: Branch, *, here: bool) -> Line:
    line = Line(lead, "dim").add(branch.name, "title" if here else "").add(" ")
    line.add(short(branch.id), "id")
    if branch.turn or branch.kind:
        where = {"retry": f" of t{branch.turn}", "fork": f" at t{branch.turn}"}
        line.add(f" · {branch.kind}{where.get(branch.kind, f' in t{branch.turn}')}", "dim")
    line.add(" · ", "dim").status(branch.status).add(f" · {count(branch.turns, 'turn')}", "dim")
    spent = _spent(branch.spent)
    line.add(f" · {spent}" if spent else "", "dim")
    line.add(f" · rewound {branch.rewound}×" if branch.rewound else "", "doubt")
    line.add(" · adopted: replaces the original" if branch.goes_on else "", "ok")
    return line.add(f" · replaced by {short(branch.adopted)}" if branch.adopted else "", "dim")


def _spent(spent: Mapping[str, int]) -> str:
    """What was spent: tokens, with those read from a cache apart, and money if it is known."""
    price = amounts.money(spent)
    known = (amounts.tokens_in_words(spent), price if price != amounts.UNKNOWN else "")
    return ", ".join(part for part in known if part)
