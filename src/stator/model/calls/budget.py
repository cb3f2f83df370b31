"""Computes budgets: parses amounts as people write them, applies limits and prices usage.

Whole units only: tokens, calls, turns, seconds, and money in millionths of a currency (`money:usd`).
What has no price is counted in `tokens:unpriced`, so that an incomplete sum of money is distinguishable from
a complete one: unknown is never 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from stator.errors import BadBudget, InvalidInput
from stator.model.calls.approval import read_policy
from stator.model.records.types import UNPRICED
from stator.model.sessions.lifecycle import check_budget

MICRO = 1_000_000
AMOUNT_MAX = 2**53 - 1
UNKNOWN = "unknown"
WRITE, WRITE_1H = "tokens:cache_write", "tokens:cache_write_1h"
"""What was written to a cache, and how much of that is kept for an hour."""
LIST = "list"
"""The key under `prices` that says whether list prices are used."""

PriceTable = Mapping[str, Mapping[str, Any]]
"""Model (a glob) → `currency` (usd) and, by unit of usage, its price for a million."""
PriceFunction = Callable[[Mapping[str, int], str], "Mapping[str, int] | None"]
"""From usage and model to money in millionths, such as {"money:usd": 1200}; None if unknown."""

_NAMES = {"token": "tokens", "call": "calls", "turn": "turns", "second": "seconds"}
_TIMES = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600, "hours": 3600, "d": 86_400}
_SCALE = {"": 1, "k": 1000, "m": 1_000_000}
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_AMOUNT = re.compile(
    rf"(?P<op>\+?)(?P<number>{_NUMBER})(?P<scale>[kKM]?)\s*(?P<unit>(?:money:)?[A-Za-z]+)\Z"
)
_SETTING = re.compile(
    rf"(?P<unit>(?:money:)?[A-Za-z]+)\s*(?P<op>\+?)=\s*(?P<number>{_NUMBER}|none)(?P<scale>[kKM]?)\Z"
)
_BARE = re.compile(rf"\+?(?:{_NUMBER})[kKM]?\Z")
_TIME = re.compile(r"(?P<op>\+?)(?P<parts>(?:\d+\s*[dhms]\s*)+)\Z")


class Amount(msgspec.Struct, frozen=True):
    """One change to a budget: set a limit, raise it, or take it away."""

    unit: str
    value: int
    op: Literal["set", "add", "clear"] = "set"


class Breach(msgspec.Struct, frozen=True):
    """A limit that is used up."""

    unit: str
    limit: int
    spent: int
    session: str = ""
    """Whose limit it is: the session's own, or that of the session it is a child of."""

    def __str__(self) -> str:
        return f"{shown(self.unit, self.spent)} of {shown(self.unit, self.limit)} spent"


# -- amounts --------------------------------------------------------------------------------------


def parse_amount(text: str) -> Amount:
    """`+2usd`, `50k tokens`, `3 turns`, `1h30m`, `2.50eur`, `tokens=100000`, `calls=none`; else `BadBudget`."""
    trimmed = text.strip()
    if match := _TIME.match(trimmed):
        parts = re.findall(r"(\d+)\s*([dhms])", match["parts"])
        return _amount("seconds", Decimal(sum(int(n) * _TIMES[u] for n, u in parts)), match["op"])
    match = _AMOUNT.match(trimmed) or _SETTING.match(trimmed)
    if match is None:
        raise _not_an_amount(text)
    word = match["unit"]
    unit, size = _unit(word)
    if match["number"] == "none":
        return Amount(unit, 0, "clear")
    number = Decimal(match["number"].replace(",", "")) * _SCALE[match["scale"].lower()]
    return _amount(unit, number * size, match["op"])


def _unit(word: str) -> tuple[str, int]:
    """What a word counts, and how many of that one of it is."""
    lower = word.lower()
    if lower in _NAMES or lower in _NAMES.values():
        return _NAMES.get(lower, lower), 1
    if lower in _TIMES:
        return "seconds", _TIMES[lower]
    currency = lower.removeprefix("money:")
    if len(currency) != 3:
        raise BadBudget(
            f"unknown unit {word!r:.40}",
            path="$.unit",
            hint="tokens, calls, turns, seconds (or 1h30m), or a currency such as usd",
        )
    return f"money:{currency}", MICRO


def _amount(unit: str, value: Decimal, op: str) -> Amount:
    if value != value.to_integral_value() or not 0 < value <= AMOUNT_MAX:
        raise BadBudget(
            f"{value.normalize():f} {unit.removeprefix('money:')} is not an amount",
            path=f"$.{unit}",
            hint="whole units above 0; money to the millionth",
        )
    return Amount(unit, int(value), "add" if op else "set")


def _not_an_amount(text: str) -> BadBudget:
    return BadBudget(
        f"not an amount: {text!r:.60}",
        path="$.amount",
        hint="such as +2usd, 50k tokens, 3 turns, 1h30m, tokens=100000, calls=none",
    )


def parse_amounts(words: Sequence[str]) -> list[Amount]:
    """Parse amounts from command-line words: `+2usd`, `50k` `tokens`."""
    found: list[Amount] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if left and _BARE.match(word.strip()):
            word = f"{word} {left.pop(0)}"
        found.append(parse_amount(word))
    return found


def is_amount(word: str) -> bool:
    """Whether a word is an amount, or the number at the beginning of one."""
    trimmed = word.strip()
    return any(shape.match(trimmed) for shape in (_BARE, _AMOUNT, _SETTING, _TIME))


def shown(unit: str, value: int | None) -> str:
    """An amount as people read it and may write it: `2.50 usd`, `1,200 tokens`, `1h30m`, or unknown."""
    if value is None:
        return UNKNOWN
    if unit.startswith("money:"):
        whole, part = divmod(value, MICRO)
        cents = f"{part:06d}".rstrip("0").ljust(2, "0")
        return f"{whole:,}.{cents} {unit.removeprefix('money:')}"
    if unit == "seconds" and value:
        sizes = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
        parts = [
            (value // size if n == 0 else value % sizes[n - 1][1] // size, name)
            for n, (name, size) in enumerate(sizes)
        ]
        return "".join(f"{count}{name}" for count, name in parts if count)
    noun = unit[:-1] if value == 1 and unit in _NAMES.values() else unit
    return f"{value:,} {noun}"


def apply(
    budget: Mapping[str, int], amounts: Sequence[Amount], spent: Mapping[str, int]
) -> dict[str, int]:
    """The budget after these changes. Raising a limit that is not there counts from what is spent."""
    changed = dict(budget)
    for amount in amounts:
        if amount.op == "clear":
            changed.pop(amount.unit, None)
        elif amount.op == "add":
            base = changed.get(amount.unit, spent.get(amount.unit, 0))
            changed[amount.unit] = base + amount.value
        else:
            changed[amount.unit] = amount.value
    return check_budget(changed)


# -- limits ---------------------------------------------------------------------------------------


def breach(budget: Mapping[str, int], spent: Mapping[str, int], session: str = "") -> Breach | None:
    """The first limit that is used up: what was spent reaches it, so that nothing more may begin."""
    for unit in sorted(budget):
        if spent.get(unit, 0) >= budget[unit]:
            return Breach(unit, budget[unit], spent.get(unit, 0), session)
    return None


def total(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Sums by unit."""
    found: dict[str, int] = {}
    for part in parts:
        for unit, amount in part.items():
            found[unit] = found.get(unit, 0) + amount
    return found


def is_whole(spent: Mapping[str, int], unit: str) -> bool:
    """Whether an amount is all that was spent; money is not while some of what was used has no price."""
    if not unit.startswith("money:"):
        return True
    priced = any(name.startswith("money:") for name in spent)
    return not spent.get(UNPRICED) and (priced or not spent.get("tokens"))


# -- prices ---------------------------------------------------------------------------------------


def price(
    usage: Mapping[str, int], model: str, prices: PriceTable | PriceFunction
) -> dict[str, int]:
    """What to add to usage: its money, and in `tokens:unpriced` how many of its tokens have no price."""
    parts = {unit: n for unit, n in usage.items() if unit.startswith("tokens:") and n}
    hourly = min(parts.pop(WRITE_1H, 0), parts.get(WRITE, 0))
    if not parts and usage.get("tokens"):
        parts = {"tokens": usage["tokens"]}
    if isinstance(prices, Mapping):
        return _from_table(parts, hourly, model, prices)
    found = prices(usage, model)
    return {UNPRICED: sum(parts.values())} if found is None and parts else dict(found or {})


def _from_table(
    parts: dict[str, int], hourly: int, model: str, table: PriceTable
) -> dict[str, int]:
    """By the first model that fits; rounded up to the millionth, so that a sum is never too small. `hourly`: how much
    of what was written to a cache is kept there for an hour, which may have a price of its own."""
    prices = next((found for glob, found in table.items() if fnmatchcase(model, glob)), {})
    if hourly and WRITE_1H in prices:
        parts = {**parts, WRITE: parts[WRITE] - hourly, WRITE_1H: hourly}
    cost = sum(
        (count * _price(prices[unit], unit) for unit, count in parts.items() if unit in prices),
        Decimal(0),
    )
    unpriced = sum(count for unit, count in parts.items() if unit not in prices)
    found = {}
    if unpriced < sum(parts.values()):
        currency = str(prices.get("currency", "usd")).lower()
        found[f"money:{currency}"] = int(cost.to_integral_value(ROUND_CEILING))
    return {**found, UNPRICED: unpriced} if unpriced else found


def _price(value: Any, path: str) -> Decimal:
    """A price for a million units, which is the same number of millionths for one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise InvalidInput(
            f"a price must be a number, got {type(value).__name__}", path=f"$.{path}"
        )
    try:
        found = Decimal(str(value))
    except ArithmeticError:
        raise InvalidInput(f"not a price: {value!r:.40}", path=f"$.{path}") from None
    if not found.is_finite() or found < 0:
        raise InvalidInput(f"not a price: {value!r:.40}", path=f"$.{path}")
    return found


def uses_list(text: str) -> bool:
    """Whether costs are computed by the list prices that are shipped, where a policy file names no price for a model:
    `[prices]` with `list = false` says no."""
    return _price_tables(text).get(LIST) is not False


def _price_tables(text: str) -> dict[str, Any]:
    table = read_policy(text).get("prices", {})
    if not isinstance(table, dict):
        raise InvalidInput('write [prices."MODEL"], once for each model', path="$.prices")
    return table


def parse_prices(text: str) -> dict[str, dict[str, Any]]:
    """The price table of a policy file: `[prices."claude-*"]` with `"tokens:in" = 3.00`, for a million."""
    table = _price_tables(text)
    if isinstance(table.get(LIST), bool):
        del table[LIST]
    for model, prices in table.items():
        if not isinstance(prices, dict):
            raise InvalidInput("expected a table of units and prices", path=f"$.prices.{model}")
        for unit, value in prices.items():
            if unit == "currency":
                if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{3}", value):
                    raise InvalidInput(
                        "a currency code has three letters", path=f"$.prices.{model}.currency"
                    )
            elif unit == "tokens" or unit.startswith("tokens:"):
                _price(value, f"prices.{model}.{unit}")
            else:
                raise InvalidInput(
                    f"unknown unit {unit!r:.60}",
                    path=f"$.prices.{model}.{unit}",
                    hint='"tokens", "tokens:in", "tokens:out", "tokens:cache_read" or "currency"',
                )
    return table
