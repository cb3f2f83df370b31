"""Adds up what the commits of a turn used, with its money as far as it is named or there are prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stator.model.calls.costs import Prices, added, total
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.types import SettingRecord
from stator.surfaces.cli.render.record_line import value_of


def used_by(commits: Sequence[Commit], prices: Prices | None, model: str) -> dict[str, int]:
    """What the commits report that they used, by unit. `model`: which one answered where nothing else says so."""
    found: list[dict[str, int]] = []
    for commit in commits:
        model = _set_by(commit) or model
        usage = value_of(commit, "usage") if "usage" in commit.content else None
        if not isinstance(usage, Mapping):
            continue
        amounts = {
            str(unit): amount
            for unit, amount in usage.items()
            if isinstance(amount, int) and not isinstance(amount, bool)
        }
        if prices is not None:
            amounts = prices.priced(amounts, _named_by(commit) or model)
        found.append(amounts)
    return total(found) if prices is not None else added(*found)


def _set_by(commit: Commit) -> str:
    """The model that a commit says the agent runs with from here on."""
    records = (op.record for op in commit.delta if isinstance(op, Put))
    values = (
        one.value for one in records if isinstance(one, SettingRecord) and one.name == "model"
    )
    return next((value for value in values if isinstance(value, str)), "")


def _named_by(commit: Commit) -> str:
    """The model that an answer is of, as its agent or its provider names it."""
    if commit.kind != "entry" or commit.actor != "model":
        return ""
    said: Any = value_of(commit, "output") if not commit.tool else None
    named = commit.tool or (said.get("model") if isinstance(said, Mapping) else "")
    return named if isinstance(named, str) else ""
