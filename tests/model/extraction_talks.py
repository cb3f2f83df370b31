"""Small conversations for the rules of extraction, and what is found in them."""

from __future__ import annotations

from typing import Any

from stator.model.exchange.item_commits import Drafter, DraftingState
from stator.model.exchange.items import Called, Item, Prompted, Returned
from stator.model.extraction.evidence import origin_parts
from stator.model.extraction.extractor import RULES, Extractor
from stator.model.log.commit import Draft, Upsert

SESSION = "s_" + "0" * 32


def drafter(
    rules=RULES, state: DraftingState | None = None, source: str = "claude-code"
) -> Drafter:
    state = state or DraftingState()
    return Drafter(
        SESSION, source, state, extract=Extractor(SESSION, state.extraction, rules).drafts
    )


def drafted(items: list[Item], rules=RULES) -> list[Draft]:
    made = drafter(rules)
    return [draft for item in items for draft in made.draft(item)]


def findings(items: list[Item], rule: str = "") -> list[Draft]:
    """The drafts of what is found, of one rule or of all."""
    found = [(origin_parts(draft.origin), draft) for draft in drafted(items)]
    return [draft for parts, draft in found if parts and (not rule or parts[0] == rule)]


def records(items: list[Item], rule: str = "") -> list[Any]:
    return [
        change.record
        for draft in findings(items, rule)
        for change in draft.changes
        if isinstance(change, Upsert)
    ]


def prompt(text: str = "do it", name: str = "p1") -> Prompted:
    return Prompted(id=name, at=1, content=text)


def call(
    tool: str, given: Any, output: Any = "", *, status: Any = "ok", name: str = "c1", **more: Any
) -> list[Item]:
    """A call and its result."""
    return [
        Called(id=name, at=2, tool=tool, input=given),
        Returned(id=name, at=3, tool=tool, output=output, status=status, **more),
    ]


def shell(command: str, output: str, *, name: str = "c1", status: Any = "ok") -> list[Item]:
    return call("Bash", {"command": command}, output, name=name, status=status)
