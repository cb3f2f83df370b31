"""Shows what is known of a recorded session and has no place in its log yet, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stator.model.records.text import value_text
from stator.model.values.escape import visible
from stator.model.views.unplaced import EXPLAINED, Unplaced
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.times import clock, stamp

MARK = "~"
"""In place of a position."""
_FIELDS = ("kind", "session", "actor", "tool", "call", "effect", "status", "cause")


def as_json(one: Unplaced) -> dict[str, Any]:
    """One item, with null for what it does not have."""
    return {
        "id": one.id,
        "kind": one.kind,
        "tool": one.tool or None,
        "call": one.call or None,
        "status": one.status or None,
        "summary": one.summary,
        "happened": one.happened or None,
    }


def all_as_json(found: Iterable[Unplaced]) -> list[dict[str, Any]]:
    return [as_json(one) for one in found]


def explanation(found: Sequence[Unplaced]) -> Line:
    """One line that says what follows, or what came before it."""
    return Line(f"{MARK} unplaced {len(found)}: {EXPLAINED}", "dim")


def line(one: Unplaced) -> Line:
    """One item on one line, with a mark where a commit has its position."""
    made = Line().add(MARK, "dim", width=4).add(" ")
    made.add(clock(one.happened) if one.happened else "--:--:--", "dim").add(" ")
    made.add("unplaced ", "dim").add(one.kind, "dim", width=8).add(" ")
    return made.add(brief(one.summary), "dim")


def lines(found: Sequence[Unplaced]) -> Iterator[Line]:
    """Items in order, after the line that explains them; nothing without items."""
    if found:
        yield explanation(found)
        yield from map(line, found)


def in_full(one: Unplaced) -> Iterator[Line]:
    """One item with everything that is known of it."""
    yield Line(f"{MARK} ", "id").add(one.kind, "title").add(" ").add(brief(one.summary))
    when = f" · {stamp(one.happened)}" if one.happened else ""
    yield Line(f"{one.id}{when} · unplaced, {EXPLAINED}", "dim")
    yield Line()
    for name in _FIELDS:
        if value := getattr(one, name):
            yield Line(f"{name:12}", "dim").add(brief(value))
    for name in ("input", "output"):
        if (value := getattr(one, name)) is not None:
            yield Line()
            yield Line(name, "title")
            yield from (Line(f"  {visible(text)}") for text in value_text(value).splitlines())
