"""Shows how two tries at one turn differ, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from stator.model.calls.budget import shown
from stator.model.values import canon
from stator.model.views.compare import CallPair, Comparison, Shift
from stator.surfaces.cli.render import record_line
from stator.surfaces.cli.render.lines import Line

STYLES = {"+": "added", "-": "removed", "@": "dim"}
ANSWER_LINES = 40
"""At most this many lines of the diff of two answers are shown; `--json` has all."""
SIGNS = {
    "other arguments": "~",
    "other outcome": "≈",
    "added": "+",
    "dropped": "-",
}
CALL_STYLES = {"~": "changed", "≈": "superseded", "+": "added", "-": "removed"}


def lines(found: Comparison) -> Iterator[Line]:
    """What differs, the reason first; equal calls are only counted."""
    if found.why:
        yield Line("why  ", "dim").add(found.why, "bold")
    if not found.same_prompt:
        yield Line("prompt", "title")
        yield Line("  - ", "removed").add(record_line.brief(found.a.prompt))
        yield Line("  + ", "added").add(record_line.brief(found.b.prompt))
    yield from _answer(found)
    if found.decisions:
        yield Line("different decisions", "title")
        for shift in found.decisions:
            yield from _shift(shift)
    yield from _calls(found.calls)
    units = sorted({*found.a.usage, *found.b.usage})
    if units:
        yield Line("used", "title")
    for unit in units:
        before, after = (side.usage.get(unit) for side in (found.a, found.b))
        yield Line(f"    {shown(unit, before)} → {shown(unit, after)}")


def _answer(found: Comparison) -> Iterator[Line]:
    yield Line("answer", "title")
    if not found.answer:
        yield Line("    same in both" if found.a.answer else "    no answer in either", "dim")
    for text in found.answer[2 : ANSWER_LINES + 2]:
        yield Line("  ").add(text, STYLES.get(text[:1], ""))
    more = len(found.answer) - 2 - ANSWER_LINES
    if more > 0:
        yield Line(f"    … {more} more lines; --json has all", "dim")


def _shift(shift: Shift) -> Iterator[Line]:
    line = Line("  ≈ ", "superseded").add(f"{shift.topic}: " if shift.topic else "", "bold")
    if shift.before and shift.after and shift.before != shift.after:
        line.add(shift.before).add(" → ").add(shift.after, "bold")
    else:
        line.add(shift.after or shift.before, "bold")
        line.add("" if shift.before and shift.after else f" ({shift.change})", "dim")
    yield line.add(f" — {shift.why}" if shift.why else "", "dim")
    before, after = shift.confidence
    if before != after:
        yield Line(f"      confidence {_percent(before)} → {_percent(after)}")
    for name, (old, new) in shift.factors.items():
        yield Line(f"      {name} {record_line.recorded(old)} → {record_line.recorded(new)}")


def _percent(confidence: int | None) -> str:
    return "none" if confidence is None else f"{confidence / 10:g}%"


def _calls(pairs: list[CallPair]) -> Iterator[Line]:
    counts = Counter(pair.change for pair in pairs)
    if not pairs:
        return
    yield Line("calls", "title")
    for pair in pairs:
        if pair.change != "same":
            yield _call(pair)
    if counts["same"]:
        yield Line(f"    {counts['same']} equal", "dim")


def _call(pair: CallPair) -> Line:
    sign = SIGNS[pair.change]
    line = Line(f"  {sign} ", CALL_STYLES[sign]).add(pair.tool, "bold")
    given = [record_line.arguments(side.arguments) for side in (pair.a, pair.b) if side is not None]
    line.add(f"({' → '.join(dict.fromkeys(given))}) ")
    statuses = [side.status for side in (pair.a, pair.b) if side is not None]
    for place, status in enumerate(dict.fromkeys(statuses)):
        line.add(" → " if place else "").status(status)
    same = pair.change == "other outcome" and len(set(statuses)) == 1
    line.add(", different result" if same else "")
    return line.add(f" · {pair.change}", "dim")


def as_json(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON; values in their recorded form."""
    sides = {name: _side(getattr(found, name)) for name in ("a", "b")}
    calls = [
        {
            "tool": pair.tool,
            "change": pair.change,
            **{name: _side(getattr(pair, name)) for name in ("a", "b")},
        }
        for pair in found.calls
    ]
    return {
        **sides,
        "same_prompt": found.same_prompt,
        "answer": found.answer,
        "decisions": msgspec.to_builtins(found.decisions),
        "calls": calls,
        "files": [item.key for item in found.files],
        "facts": [item.key for item in found.facts],
        "plan": [item.key for item in found.plan],
        "why": found.why,
    }


def _side(side: msgspec.Struct | None) -> dict[str, Any] | None:
    """One side; prompts and arguments in their recorded form."""
    if side is None:
        return None
    given = {name: getattr(side, name) for name in side.__struct_fields__}
    for name in ("prompt", "arguments"):
        if name in given:
            given[name] = canon.to_plain(given[name])
    return given
