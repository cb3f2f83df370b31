"""Computes what usage cost: by a user's own prices, else by the list prices that are shipped. Pure.

What a transcript itself says is never replaced. A computed amount has a unit of its own, `money:usd:computed`, so that
a sum shows that a part of it was computed. In a sum that has money, the tokens of a model that neither names are
`tokens:unpriced`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.records.types import UNPRICED
from stator.model.values.late_pattern import late

MONEY = "money:"
COMPUTED = ":computed"
"""What the unit of a computed amount ends with."""
IN, READ, WRITE, WRITE_1H, OUT = (
    f"tokens:{kind}" for kind in ("in", "cache_read", "cache_write", "cache_write_1h", "out")
)
_COLUMNS = (IN, READ, WRITE, WRITE_1H, OUT)
_MILLION = 1_000_000
_LONG_WINDOW = "[1m]"
"""What Claude Code adds to the name of a model that it runs with a longer window."""
_SNAPSHOT = late(r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|00\d|latest|default))?(?:-v\d(?::\d)?)?\Z")
"""A date or version at the end of a name, also as clouds write it: `-20251101`, `@20251101`, `-20251101-v1:0`."""

NAME_MAX = 200
"""Characters of a model's name. A longer one is no model's: names are recorded content, and prefixes are taken off one
by one."""

Spend = Mapping[str, int]
Rates = Mapping[str, int]
"""Unit → what a million of it costs, in millionths of a dollar."""


class ListPrice(msgspec.Struct, frozen=True):
    """What the list says of one model."""

    rates: dict[str, int]
    above: int = 0
    """An answer that was made from more tokens than that costs `long`; 0: all cost the same."""
    long: dict[str, int] = {}


class ListPrices:
    """The list prices that are shipped. Only the lines that are asked for are read as numbers."""

    def __init__(self, text: str) -> None:
        self.dates: dict[str, str] = {}
        """Provider → when its prices were looked up."""
        self.lines: dict[str, tuple[str, list[str]]] = {}
        """Model → its provider, and its lines."""
        self.prefixes: list[tuple[str, str]] = []
        """What may precede a model's name, with the provider whose model that must be."""
        self._found: dict[str, ListPrice | None] = {}
        provider = model = ""
        for line in text.splitlines():
            if not line or line[0] == "#":
                continue
            if line[0] == "[":
                provider, self.dates[provider], *prefixes = self._heading(line)
                self.prefixes += [(prefix, provider) for prefix in prefixes]
            elif line[0] == ">":
                self.lines[model][1].append(line)
            else:
                model = line.split(None, 1)[0]
                self.lines[model] = (provider, [line])

    def find(self, model: str) -> ListPrice | None:
        """What a model costs. Its name is matched whole, never by likeness."""
        if model not in self._found:
            name = model.strip().lower().removesuffix(_LONG_WINDOW)
            lines = self._lines_of(name, "") if len(name) <= NAME_MAX else []
            self._found[model] = _list_price(lines) if lines else None
        return self._found[model]

    def _lines_of(self, name: str, provider: str) -> list[str]:
        if name.startswith("claude-"):
            name = name.replace(".", "-")  # claude-sonnet-4.5, as several agents write it
        for one in (name, _SNAPSHOT.sub("", name)):
            of, lines = self.lines.get(one, ("", []))
            if lines and provider in ("", of):
                return lines
        for prefix, of in self.prefixes:
            if provider in ("", of) and name.startswith(prefix):
                lines = self._lines_of(name[len(prefix) :], of)
                if lines:
                    return lines
        return []

    @staticmethod
    def _heading(line: str) -> tuple[str, ...]:
        return tuple(line.strip("[]").split())


def _list_price(lines: Sequence[str]) -> ListPrice:
    rates = _rates(lines[0].split()[1:])
    if len(lines) == 1:
        return ListPrice(rates)
    _, above, *long = lines[1].split()
    return ListPrice(rates, int(above), _rates(long))


def _rates(cells: Sequence[str]) -> dict[str, int]:
    """Prices of a line; a dash means that there is no such price."""
    cells_by_unit = zip(_COLUMNS, cells, strict=True)
    return {unit: round(float(cell) * _MILLION) for unit, cell in cells_by_unit if cell != "-"}


class Prices(msgspec.Struct, frozen=True, eq=True):
    """All prices that hold where a question is asked."""

    own: Mapping[str, Mapping[str, Any]] = {}
    """Those of the user, by models as globs; they go before the others."""
    shipped: ListPrices | None = None

    def above(self, model: str) -> int:
        """From how many tokens on an answer of this model costs more; 0: never."""
        found = None if self._is_own(model) else self._listed(model)
        return found.above if found else 0

    def priced(self, usage: Spend, model: str, *, one_answer: bool = True) -> dict[str, int]:
        """Usage with its money. Where it names money itself or there is no price, it is left as it is.
        `one_answer`: whether all of it is of one answer, whose size decides about its price."""
        if not usage.get("tokens") or names_money(usage):
            return dict(usage)
        used = {unit: amount for unit, amount in usage.items() if unit != UNPRICED}
        if self._is_own(model):
            from stator.model.calls.budget import price  # few projects have prices of their own

            found = {computed(unit): n for unit, n in price(used, model, self.own).items()}
            return {**used, **found} if names_money(found) else dict(usage)
        listed = self._listed(model)
        if listed is None or not prompt_tokens(used):  # all that is said of it is what was written
            return dict(usage)
        is_long = one_answer and 0 < listed.above < prompt_tokens(used)
        return {**used, **_from_list(used, listed.long if is_long else listed.rates)}

    def _is_own(self, model: str) -> bool:
        if not self.own:
            return False
        from fnmatch import fnmatchcase  # as above

        return any(fnmatchcase(model, glob) for glob in self.own)

    def _listed(self, model: str) -> ListPrice | None:
        return self.shipped.find(model) if self.shipped and model else None


def _from_list(usage: Spend, rates: Rates) -> dict[str, int]:
    parts = {unit: usage.get(unit, 0) for unit in (IN, READ, WRITE, OUT)}
    if WRITE_1H in rates:  # it is a part of what was written to a cache
        parts[WRITE_1H] = min(usage.get(WRITE_1H, 0), parts[WRITE])
        parts[WRITE] -= parts[WRITE_1H]
    micros = sum(count * rates[unit] for unit, count in parts.items() if unit in rates)
    unpriced = sum(count for unit, count in parts.items() if unit not in rates)
    found = {computed("money:usd"): (micros + _MILLION // 2) // _MILLION}
    return {**found, UNPRICED: unpriced} if unpriced else found


def prompt_tokens(usage: Spend) -> int:
    """The tokens that an answer was made from."""
    return usage.get(IN, 0) + usage.get(READ, 0) + usage.get(WRITE, 0)


# -- amounts of money -----------------------------------------------------------------------------


def computed(unit: str) -> str:
    """The unit of the same money where it is computed; another unit as it is."""
    return f"{unit}{COMPUTED}" if unit.startswith(MONEY) else unit


def names_money(spend: Spend) -> bool:
    for unit in spend:  # noqa: SIM110  # asked of each session of a list: a generator takes three times as long
        if unit.startswith(MONEY):
            return True
    return False


def is_computed(spend: Spend) -> bool:
    """Whether a part of its money was computed."""
    return any(unit.endswith(COMPUTED) for unit in spend)


def plain(spend: Spend) -> dict[str, int]:
    """The same with one amount for each currency, whether recorded or computed, and in whatever letters."""
    found: dict[str, int] = {}
    for unit, amount in spend.items():
        name = unit.removesuffix(COMPUTED)
        name = name.lower() if name.startswith(MONEY) else name
        found[name] = found.get(name, 0) + amount
    return found


# -- sums -----------------------------------------------------------------------------------------


def added(*spends: Spend) -> dict[str, int]:
    """The sum of spends, by unit."""
    found: dict[str, int] = {}
    for spend in spends:
        for unit, amount in spend.items():
            found[unit] = found.get(unit, 0) + amount
    return found


def less(spend: Spend, other: Spend) -> dict[str, int]:
    """What was spent since another."""
    found = {unit: amount - other.get(unit, 0) for unit, amount in spend.items()}
    return {unit: amount for unit, amount in found.items() if amount}


def total(spends: Iterable[Spend]) -> dict[str, int]:
    """The sum of what was spent in several places. Where it has money, the tokens of a place that has none are without
    a price, so that the sum says that it lacks them."""
    parts = list(spends)
    if not any(map(names_money, parts)):
        return added(*parts)
    return added(*map(with_unpriced, parts))


def with_unpriced(spend: Spend) -> Spend:
    """A spend as a part of a sum with money: its tokens have no price if it has no money."""
    if not spend.get("tokens") or names_money(spend):
        return spend
    return {**spend, UNPRICED: spend["tokens"]}
