"""Draws a session as a graph: its turns from the newest, and at each the forks, retries and sub-agents it led to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from stator.model.views.tree import Branch, Tree, drawn
from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.times import date, hour
from stator.surfaces.cli.render.turns.fold import TurnFold

KINDS = {"child": "sub-agent", "retry": "retry", "fork": "fork", "import": "import"}


def lines(
    turns: Sequence[TurnFold],
    tree: Tree,
    session: str,
    rewound: AbstractSet[int],
    left: int,
    width: int,
    now: int,
) -> Iterator[Line]:
    """The graph, in the order of the turns that are given. `left` is the last commit of a turn that gets no end any
    more."""
    mine = next((one for one in tree.branches if one.id == session), None)
    by_turn: dict[int, list[list[tuple[str, Branch]]]] = {}
    for branch in tree.branches:
        if branch.parent == session:
            below = list(drawn(_subtree(tree, branch)))
            by_turn.setdefault(branch.turn, []).append(below)
    for turn in turns:
        if turn.is_turn:
            lost = "interrupted" if left == turn.last.seq else "open"
            status = "rewound" if turn.turn in rewound else turn.ended or lost
            yield _turn(turn, status, width, now)
        for family in by_turn.pop(turn.turn, []):
            yield from (_branch(lead, branch) for lead, branch in family)
    for turn_number in sorted(by_turn):  # those of turns that are not shown
        for family in by_turn[turn_number]:
            yield from (_branch(lead, branch) for lead, branch in family)
    if mine is not None and mine.parent:
        above = next((one for one in tree.branches if one.id == mine.parent), None)
        yield Line("o ", "dim").add(
            f"{KINDS.get(mine.kind, mine.kind)} of {above.name if above else mine.parent} at t{mine.turn}",
            "dim",
        )


def _subtree(tree: Tree, root: Branch) -> list[Branch]:
    kept = {root.id}
    for branch in tree.branches:  # each after its parent
        if branch.parent in kept:
            kept.add(branch.id)
    return [branch for branch in tree.branches if branch.id in kept]


def _turn(turn: TurnFold, status: str, width: int, now: int) -> Line:
    first = turn.first.when
    right = Line(f"{date(first, now)} {hour(first)}", "dim").add("  ").status(status)
    line = Line("* ", "bold").add(f"t{turn.turn}  ", "bold").extend(turn.prompt)
    room = max(10, width - right.width - 2)
    line = line.cut_plain(room)
    return line.add(" " * (width - line.width - right.width)).extend(right)


def _branch(lead: str, branch: Branch) -> Line:
    line = Line("│ ", "dim").add(lead or "└─ ", "dim").add(branch.name, "title")
    where = f" of t{branch.turn}" if branch.kind == "retry" else ""
    line.add(f" · {KINDS.get(branch.kind, branch.kind)}{where} · ", "dim").status(branch.status)
    line.add(f" · {count(branch.turns, 'turn')}", "dim")
    used = amounts.money(branch.spent)
    shown = used if used != amounts.UNKNOWN else amounts.tokens_in_words(branch.spent)
    line.add(f" · {shown}" if shown else "", "dim")
    line.add(" · adopted: replaces the original" if branch.goes_on else "", "ok")
    return line.add(f" · rewound {branch.rewound}×" if branch.rewound else "", "doubt")
