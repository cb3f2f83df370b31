"""`stator budget`: shows or changes what a session may spend."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stator.errors import BadBudget
from stator.model.calls import budget as model
from stator.model.calls.budget import is_amount, parse_amounts, shown
from stator.model.records.types import UNPRICED
from stator.model.sessions.lifecycle import BUDGET_UNITS
from stator.runtime.driving import budgets
from stator.runtime.facade.view import SessionView
from stator.runtime.views import spend
from stator.surfaces.cli.parts.open_store import (
    OpenedStore,
    heading,
    open_to_read,
    open_to_write,
)
from stator.surfaces.cli.render.amounts import UNKNOWN
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionOption, StoreOption

EXAMPLES = """
stator budget                      limits and spending of the last session
stator budget fix-login +2usd      two dollars more
stator budget fix-login 50k tokens 3 turns
stator budget -s fix-login calls=none  remove the limit on calls
"""


def budget(
    *words: str,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show a session's budget and spending, or change the budget.

    Parameters
    ----------
    words
        A session, and amounts: +2usd, 50k tokens, 3 turns, 1h30m, tokens=100000, calls=none.
    """
    name, rest = _session(words, session)
    amounts = parse_amounts(rest)
    with (open_to_write if amounts else open_to_read)(store) as opened:
        view = opened.session(name)
        if amounts:
            context = opened.store.context
            budgets.change(opened.store.port, context, view.id, amounts, by=context.principal)
        with Screen(json=json, pager=not no_pager) as screen:
            _show(screen, view, opened)
    return 0


def _session(words: tuple[str, ...], session: str | None) -> tuple[str | None, list[str]]:
    """Split a session name, if the first word is one, from the amounts."""
    rest = list(words)
    if session is not None or not rest:
        return session, rest
    try:
        parse_amounts(rest)
    except BadBudget:
        if is_amount(rest[0]):
            raise
        return rest[0], rest[1:]
    return None, rest


def _show(screen: Screen, view: SessionView, opened: OpenedStore) -> None:
    port = opened.store.port
    limits = view.record.budget
    own, tree = budgets.spent(port, view.id), budgets.spent_tree(port, view.id)
    children = len(spend.tree(port, view.id)) - 1
    above = [limit for limit in budgets.limits(port, view.id) if limit.session != view.id]
    breach = budgets.check(port, view.id)
    if screen.json:
        found: dict[str, Any] = {
            "session": view.id,
            "name": view.name,
            "limits": limits,
            "spent": own,
            "tree": tree,
            "children": children,
            "known": {unit: model.is_whole(tree, unit) for unit in _units(limits, tree)},
            "above": [{"session": a.session, "name": a.name, "limits": a.budget} for a in above],
            "breach": None if breach is None else {"unit": breach.unit, "session": breach.session},
        }
        screen.document("stator.budget/1", found)
        return
    screen.line(heading(view, opened, "budget", room=screen.cut))
    screen.line()
    screen.line(
        Line(
            f"  {'UNIT':9}{'LIMIT':>20}{'SPENT':>20}" + (f"{'WITH CHILDREN':>22}" * bool(children)),
            "head",
        )
    )
    for unit in _units(limits, tree):
        screen.line(_line(unit, limits, own, tree if children else None))
    screen.lines(_remarks(tree))
    for limit in above:
        used = budgets.spent_tree(port, limit.session)
        for unit, most in sorted(limit.budget.items()):
            line = Line(f"  limit of its parent {limit.name}: ", "dim").add(_amount(unit, used))
            screen.line(line.add(f" of {shown(unit, most)}"))
    if breach is not None:
        more = "+2usd" if breach.unit.startswith("money:") else f"{breach.unit}=…"
        line = Line(f"budget used up: {breach}", "doubt")
        screen.line()
        screen.line(
            line.add(f"; to continue: stator budget {shlex.quote(view.name)} {more}", "dim")
        )


def _units(limits: Mapping[str, int], spent: Mapping[str, int]) -> list[str]:
    """The units to show. Money is among them, if only as unknown, as soon as tokens were used."""
    money = sorted({unit for unit in (*limits, *spent) if unit.startswith("money:")})
    if not money and spent.get("tokens"):
        money = ["money:usd"]
    return [BUDGET_UNITS[0], *money, *BUDGET_UNITS[1:]]


def _line(
    unit: str, limits: Mapping[str, int], own: Mapping[str, int], tree: Mapping[str, int] | None
) -> Line:
    line = Line().add(f"  {_noun(unit)}", "bold", width=11)
    limit = shown(unit, limits[unit]) if unit in limits else "none"
    line.add(limit, width=20, right=True)
    spent = own if tree is None else tree
    full = unit in limits and spent.get(unit, 0) >= limits[unit]
    line.add(_amount(unit, own), "bad" if full else "", width=20, right=True)
    if tree is not None:
        line.add(_amount(unit, tree), "bad" if full else "", width=22, right=True)
    return line


def _noun(unit: str) -> str:
    return "money" if unit.startswith("money:") else unit


def _amount(unit: str, spent: Mapping[str, int]) -> str:
    """What was spent: a dash if that is unknown, `>` if it is known only of some of it."""
    if unit == "tokens" and unit not in spent:  # nobody reported any
        return UNKNOWN
    if model.is_whole(spent, unit):
        return shown(unit, spent.get(unit, 0))
    return f"> {shown(unit, spent[unit])}" if spent.get(unit) else UNKNOWN


def _remarks(spent: Mapping[str, int]) -> Iterator[Line]:
    parts = [
        f"{unit.partition(':')[2].replace('_', ' ')} {amount:,}"
        for unit, amount in sorted(spent.items())
        if unit.startswith("tokens:") and unit != UNPRICED
    ]
    if parts:
        yield Line(f"  tokens: {', '.join(parts)}", "dim")
    if spent.get(UNPRICED):
        yield Line(f"  {spent[UNPRICED]:,} tokens have no known price", "doubt")
