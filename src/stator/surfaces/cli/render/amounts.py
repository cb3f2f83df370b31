"""Formats what was spent: tokens with cache reads apart, money, durations. What is unknown is a dash, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stator.model.calls.costs import MONEY, is_computed, plain
from stator.model.records.types import UNPRICED
from stator.surfaces.cli.render.times import span

UNKNOWN = "–"
_CACHED = "tokens:cache_read"
_SIGNS = {"usd": "$", "eur": "€", "gbp": "£"}
_MICRO = 1_000_000


def short(number: int) -> str:
    """A number in three digits: 950, 1.2 k, 164 k, 12 M."""
    amount = float(number)
    for unit in ("", " k", " M"):
        if abs(amount) < 999.5 or unit == " M":
            return f"{amount:.1f}{unit}" if unit and abs(amount) < 9.95 else f"{amount:,.0f}{unit}"
        amount /= 1000
    return str(number)


def fresh_tokens(spend: Mapping[str, int]) -> int | None:
    """Tokens without those that were read from a cache; None if no tokens were reported."""
    if "tokens" not in spend:
        return None
    return max(0, spend["tokens"] - spend.get(_CACHED, 0))


def cached_tokens(spend: Mapping[str, int]) -> int:
    """Tokens that were read from a cache."""
    return spend.get(_CACHED, 0)


def tokens(spend: Mapping[str, int]) -> str:
    """164 k"""
    found = fresh_tokens(spend)
    return UNKNOWN if found is None else short(found)


def cached(spend: Mapping[str, int]) -> str:
    """12 M; a dash if no cache was reported."""
    return short(spend[_CACHED]) if _CACHED in spend else UNKNOWN


def tokens_in_words(spend: Mapping[str, int]) -> str:
    """164 k tokens (+ 12 M cached); empty if no tokens were reported."""
    if fresh_tokens(spend) is None:
        return ""
    more = f" (+ {short(cached_tokens(spend))} cached)" if cached_tokens(spend) else ""
    return f"{tokens(spend)} tokens{more}"


def money(spend: Mapping[str, int]) -> str:
    """$9.53; `>` marks a sum that lacks unknown amounts, `~` one of which a part was computed from tokens and prices, a
    dash one of which nothing is known."""
    found = [
        _amount(unit.removeprefix(MONEY), amount)
        for unit, amount in sorted(plain(spend).items())
        if unit.startswith(MONEY)
    ]
    if not found:
        return UNKNOWN
    marks = ("> " if spend.get(UNPRICED) else "") + ("~" if is_computed(spend) else "")
    return marks + ", ".join(found)


def _amount(currency: str, micro: int) -> str:
    value = f"{micro / _MICRO:,.2f}"
    if value == "0.00" and micro:
        value = f"{micro / _MICRO:.4f}"
    sign = _SIGNS.get(currency)
    return f"{sign}{value}" if sign else f"{value} {currency}"


def total(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several spends, unit by unit."""
    added: dict[str, int] = {}
    for spend in found:
        for unit, amount in spend.items():
            added[unit] = added.get(unit, 0) + amount
    return added


def took(microseconds: int | None) -> str:
    """0.1 s, 16 s, 3 min; a dash if it is unknown."""
    if microseconds is None or microseconds < 0:
        return UNKNOWN
    if microseconds < 10_000_000:
        return f"{microseconds / _MICRO:.1f} s"
    return span(microseconds)
