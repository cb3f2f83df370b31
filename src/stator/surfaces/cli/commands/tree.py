"""`stator tree`: shows sessions with their forks, retries and children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from stator.model.log.query import check_limit
from stator.model.values.ids import short
from stator.model.views.tree import Branch, Tree, UnrecordedAgent, drawn
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.glance.listed import ListedSession, listed
from stator.runtime.views.tree import project_tree
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.parts.question.question_scope import scope_of
from stator.surfaces.cli.render import amounts, documents
from stator.surfaces.cli.render.lines import ENDED_STYLES, Line
from stator.surfaces.cli.render.record_line import brief, count, value_of
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import (
    ASKED_MAX,
    name_line,
    names_apart,
    prompt_beside_name,
)
from stator.surfaces.cli.render.table import Column, table

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
        WholeArgument,
    )

EXAMPLES = """
stator tree                        forks, retries and sub-agents in this project
stator tree fix-login              those of one session: its ancestors and its descendants
stator tree --project              every session of this project, also those without relatives
stator tree --json | jq .total
"""
COLUMNS = (
    Column(title="SESSION", shrinks=True, least=20),
    Column(title="CAME AS"),
    Column(title="ASKED", shrinks=True, least=16),
    Column(title="TURNS", right=True, drop=3),
    Column(title="TOKENS", right=True),
    Column(title="CACHED", right=True, drop=4),
    Column(title="COST", right=True),
    Column(title="ENDED", drop=2),
    Column(title="ID", drop=1),
)
LISTED = 100
"""Sessions that are shown unless -n says otherwise: those used last."""
UNRECORDED = 20
"""Sub-agents without a session that are listed."""
PARENTLESS = f"of {amounts.UNKNOWN}"
OWN_TURN = {"retry": 1}
"""How many turns before the one that its tree names a session's own begin."""


def tree(
    *what: WholeArgument,
    session: SessionOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show forks, retries and sub-agents, what each was asked and what it spent.

    Without a session, those of this project; a session without relatives is counted, and listed with --project. With
    one, the whole tree that it is in. A fork shares turns with its parent: they are counted once.
    """
    wanted = check_limit(LISTED if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, (), session=None, project=project, everywhere=everywhere)
        if what or session is not None:
            scope_of(opened, what, session=session, project=project, everywhere=everywhere)
            words = " ".join([*([session] if session else []), *what])
            view = opened.whole(what, session, f"stator log {words} shows it")
            found, marked = view.tree(limit=wanted), view.id
        else:
            found = project_tree(
                opened.store.as_read, scope.project or None, limit=wanted, alone=project
            )
            marked = ""
        if json:
            screen.document(documents.TREE, documents.tree(found))
            return 0
        if not found.branches and not found.alone:
            return opened.report_empty(f"no sessions in {scope.shown}")
        if not marked:
            scope.head(screen, "sessions and what came from them")
        asked = (
            f" {short(marked)}" if marked else " --project" * project + " --everywhere" * everywhere
        )
        screen.lines(_lines(opened, found, marked, asked, screen.width))
    return 0


def _lines(opened: OpenedStore, found: Tree, marked: str, asked: str, width: int) -> Iterator[Line]:
    """The tree. `asked`: how it was asked for, as a command says it."""
    reading = for_one_answer(opened.store.as_read)
    rows = [reading.session(branch.id) for branch in found.branches]
    about = {one.row.id: one for one in listed(reading, rows, opened.prices())}
    tops = [row for row in rows if row.id != marked and row.record.parent is None]
    names = dict(zip((row.id for row in tops), names_apart(tops), strict=True))
    cells = [
        _cells(lead, branch, about.get(branch.id), opened, names, here=branch.id == marked)
        for lead, branch in drawn(found.branches)
    ]
    yield from table(COLUMNS, cells, width)
    if len(found.branches) > 1:
        yield Line()
        turns = count(found.total.get("turns", 0), "turn")
        spent = _spent(found.total)
        sessions = count(len(found.branches), "session")
        once = "; shared turns counted once" if _shares_turns(found) else ""
        yield Line(f"{sessions}, {turns}{f', {spent}' if spent else ''}{once}", "dim")
    if any(one.kind == "child" and not one.parent for one in found.branches):
        yield Line(f"sub-agent {PARENTLESS}: the session that started it was not recorded", "dim")
    if found.unrecorded:
        yield from _unrecorded(opened, found.unrecorded)
    if found.alone:
        others = count(found.alone, "session")
        yield Line(f"{others} without forks, retries or sub-agents: stator tree --project", "dim")
    if found.more:
        yield Line(f"… more sessions: stator tree{asked} -n {10 * len(found.branches)}", "dim")


def _unrecorded(opened: OpenedStore, agents: Sequence[UnrecordedAgent]) -> Iterator[Line]:
    """Sub-agents that sessions name, and whose own sessions are not here."""
    yield Line()
    many = count(len(agents), "sub-agent")
    yield Line(f"{many} without a session of {'its' if len(agents) == 1 else 'their'} own here:")
    for one in agents[:UNRECORDED]:
        parent = opened.store.as_read.session(one.parent)
        line = Line("  ").add(f"{short(one.parent)}:@{one.seq}", "id").add("  ")
        line.add(one.name or short(one.session), "bold").add(f"  {one.status}  of ", "dim")
        yield line.extend(name_line(parent))
    if len(agents) > UNRECORDED:
        yield Line(f"  … {len(agents) - UNRECORDED:,} more; --json has all", "dim")


def _shares_turns(found: Tree) -> bool:
    return any(branch.kind in ("fork", "retry") for branch in found.branches)


def _cells(
    lead: str,
    branch: Branch,
    about: ListedSession | None,
    opened: OpenedStore,
    names: Mapping[str, Line],
    *,
    here: bool,
) -> list[Line | str]:
    """The cells of a session. `names`: those of several that are told apart by more than their beginnings."""
    above, _, own = branch.name.rpartition("/")
    name = own if above and branch.kind == "child" and lead else branch.name
    ended = about.ended if about is not None else ""
    is_known = bool(amounts.tokens_in_words(branch.spent))
    return [
        names.get(branch.id) or Line(lead, "dim").add(name, "title" if here else ""),
        _came(branch),
        Line(_asked(branch, about, opened), "dim"),
        f"{branch.turns:,}",
        amounts.tokens(branch.spent) if is_known else "",
        Line(amounts.cached(branch.spent) if is_known else "", "dim"),
        amounts.money(branch.spent) if branch.turns else "",
        Line(ended or amounts.UNKNOWN, ENDED_STYLES.get(ended, "dim")) if about else "",
        Line(short(branch.id), "id"),
    ]


def _came(branch: Branch) -> Line:
    """How a session came from its parent, and what became of it."""
    where = {"retry": f"retry of t{branch.turn}", "fork": f"fork at t{branch.turn}"}
    line = Line()
    if branch.kind == "child":
        of = f"of t{branch.turn}" if branch.turn else "" if branch.parent else PARENTLESS
        line.add(f"sub-agent {of}".rstrip(), "dim")
    elif branch.kind:
        line.add(where.get(branch.kind, branch.kind), "dim")
    said = (
        (f"rewound {branch.rewound}×" if branch.rewound else "", "doubt"),
        ("adopted" if branch.goes_on else "", "ok"),
        (f"replaced by {short(branch.adopted)}" if branch.adopted else "", "dim"),
    )
    for words, style in said:
        line.add(f"{', ' if line.plain and words else ''}{words}", style)
    return line


def _asked(branch: Branch, about: ListedSession | None, opened: OpenedStore) -> str:
    """What its first own turn was asked; "" if its name says that, or if it was not looked up."""
    if about is None:
        return ""
    if not branch.turn or branch.kind == "child":
        return prompt_beside_name(about, always=branch.kind == "child")
    after = branch.turn - OWN_TURN.get(branch.kind, 0)
    rows = opened.store.as_read.turns(branch.id, after=after, limit=1, prompts=True)
    began = rows[0].began if rows else None
    return brief(value_of(began, "input"), ASKED_MAX) if began is not None else ""


def _spent(spent: Mapping[str, int]) -> str:
    """What was spent: tokens, with those read from a cache apart, and money if it is known."""
    price = amounts.money(spent)
    known = (amounts.tokens_in_words(spent), price if price != amounts.UNKNOWN else "")
    return ", ".join(part for part in known if part)
