"""`stator budget`: what a session may spend, and has."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stator.errors import BadBudget
from stator.model.calls import budget as model
from stator.model.calls.budget import is_amount, parse_amounts, shown
from stator.model.sessions.lifecycle import BUDGET_UNITS
from stator.runtime.driving import budgets
from stator.runtime.facade.view import SessionView
from stator.runtime.views import spending
from stator.surfaces.cli.parts.scope import (
    Asking,
    asking,
    heading,
    telling,
)
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, NoPagerFlag, SessionOption, StoreOption

EXAMPLES = """
stator budget                      the last session: limits, and what is spent
stator budget fix-login +2usd      two dollars more
stator budget fix-login 50k tokens 3 turns
stator budget -s fix-login calls=none  no limit on calls any more
"""


def budget(
    *words: str,
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what a session may spend and has spent, or change it.

    Parameters
    ----------
    words
        A session, and amounts: +2usd, 50k tokens, 3 turns, 1h30m, tokens=100000, calls=none.
    """
    name, rest = _session(words, session)
    amounts = parse_amounts(rest)
    with (telling if amounts else asking)(store) as ask:
        view = ask.session(name)
        if amounts:
            context = ask.store.context
            budgets.change(ask.store.port, context, view.id, amounts, by=context.principal)
        with Screen(json=json, pager=not no_pager) as screen:
            _show(screen, view, ask)
    return 0


def _session(words: tuple[str, ...], session: str | None) -> tuple[str | None, list[str]]:
    """Whether the first word names a session or begins an amount."""
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


def _show(screen: Screen, view: SessionView, ask: Asking) -> None:
    port = ask.store.port
    limits = view.record.budget
    own, tree = budgets.spent(port, view.id), budgets.spent_tree(port, view.id)
    children = len(spending.tree(port, view.id)) - 1
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
    screen.line(heading(view, ask.now, "budget"))
    screen.line()
    screen.line(
        Line(
            f"  {'':9}{'limit':>16}{'spent':>16}" + (f"{'with children':>18}" * bool(children)),
            "dim",
        )
    )
    for unit in _units(limits, tree):
        screen.line(_line(unit, limits, own, tree if children else None))
    screen.lines(_remarks(tree))
    for limit in above:
        used = budgets.spent_tree(port, limit.session)
        for unit, most in sorted(limit.budget.items()):
            line = Line(f"  and {limit.name} above it: ", "dim").add(_amount(unit, used))
            screen.line(line.add(f" of {shown(unit, most)}"))
    if breach is not None:
        more = "+2usd" if breach.unit.startswith("money:") else f"{breach.unit}=…"
        line = Line(f"used up: {breach}", "doubt")
        screen.line()
        screen.line(line.add(f"; to go on: stator budget {shlex.quote(view.name)} {more}", "dim"))


def _units(limits: Mapping[str, int], spent: Mapping[str, int]) -> list[str]:
    """What there is to show: money is there, if only as unknown, as soon as anything has a price."""
    money = sorted({unit for unit in (*limits, *spent) if unit.startswith("money:")})
    if not money and spent.get("tokens"):
        money = ["money:usd"]
    return [BUDGET_UNITS[0], *money, *BUDGET_UNITS[1:]]


def _line(
    unit: str, limits: Mapping[str, int], own: Mapping[str, int], tree: Mapping[str, int] | None
) -> Line:
    line = Line().add(f"  {_noun(unit)}", "bold", width=11)
    limit = shown(unit, limits[unit]) if unit in limits else "-"
    line.add(limit, width=16, right=True)
    spent = own if tree is None else tree
    full = unit in limits and spent.get(unit, 0) >= limits[unit]
    line.add(_amount(unit, own), "bad" if full else "", width=16, right=True)
    if tree is not None:
        line.add(_amount(unit, tree), "bad" if full else "", width=18, right=True)
    return line


def _noun(unit: str) -> str:
    return "money" if unit.startswith("money:") else unit


def _amount(unit: str, spent: Mapping[str, int]) -> str:
    """What was spent: unknown where nothing has a price, `at least` where some of it has none."""
    if model.is_whole(spent, unit):
        return shown(unit, spent.get(unit, 0))
    return f"> {shown(unit, spent[unit])}" if spent.get(unit) else shown(unit, None)


def _remarks(spent: Mapping[str, int]) -> Iterator[Line]:
    parts = [
        f"{unit.partition(':')[2].replace('_', ' ')} {amount:,}"
        for unit, amount in sorted(spent.items())
        if unit.startswith("tokens:") and unit != model.UNPRICED
    ]
    if parts:
        yield Line(f"  tokens: {', '.join(parts)}", "dim")
    if spent.get(model.UNPRICED):
        yield Line(f"  {spent[model.UNPRICED]:,} tokens have no price that is known", "doubt")
