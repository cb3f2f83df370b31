"""Lines that several commands share: the full content of a commit, a call, a list of turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stator.errors import StatorError
from stator.model.log.commit import (
    CONTENT,
    DATA,
    Commit,
    Gone,
    Item,
    Large,
    gone,
    size_of,
)
from stator.model.log.delta import Put
from stator.model.values import canon
from stator.model.views.diff import CallItem
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.render import escape, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import intent, of_record, size

INDENT = "      "
_SHOWN = tuple(name for name in CONTENT if name != "key")


def contents(commit: Commit) -> Iterator[Line]:
    """Every content field of a commit, then its changes to the state."""
    for name in _SHOWN:
        item = commit.content.get(name)
        if isinstance(item, Gone):
            yield Line(f"{INDENT}{name}: ", "dim").add(gone(item.by), "doubt")
        elif isinstance(item, Large):
            yield Line(f"{INDENT}{name}: ", "dim").add(f"({size(item.size)}, not loaded)", "dim")
        elif item is not None:
            yield from _field(name, item)
    for name in commit.data_names:
        yield Line(f"{INDENT}{DATA}{escape.bounded(name)}: ", "dim").extend(
            _bytes(commit.content[DATA + name])
        )
    for op in commit.delta:
        sign, style = ("+", "added") if isinstance(op, Put) else ("-", "removed")
        if op.was and isinstance(op, Put):
            sign, style = "~", "changed"
        line = Line(f"{INDENT}{sign} {op.collection} ", style).add(f"{op.id} ", "dim")
        yield line.extend(of_record(op.record)) if isinstance(op, Put) else line


def _bytes(item: Item) -> Line:
    if isinstance(item, Gone):
        return Line(gone(item.by), "doubt")
    return Line(f"({size(size_of(item))} of bytes)", "dim")


def _field(name: str, item: bytes) -> Iterator[Line]:
    try:
        value = canon.loads(item)
    except StatorError as error:
        value = f"(unreadable: {error.what})"
    text = value if isinstance(value, str) else wire.dumps(canon.decode(item), indent=2)
    shown = escape.lines(text)
    if len(shown) == 1:
        yield Line(f"{INDENT}{name}: ", "dim").add(shown[0])
        return
    yield Line(f"{INDENT}{name}:", "dim")
    for line in shown:
        yield Line(f"{INDENT}  ").add(line)


def call_line(view: SessionView, call: CallItem) -> Line:
    """A call on one line: position, status, tool with arguments, and the cause of the status."""
    line = Line("    ").add(f"@{call.seq}", "id", width=5).add(" ")
    asked = view.commit(f"{call.session or view.id}:@{call.seq}")
    line.status(call.status, width=9).add(" ").extend(intent(asked))
    return line.add(f" — {call.cause}" if call.cause else "", "dim")


def turns_shown(turns: Sequence[int]) -> str:
    """Turns as people write them: `t3–t5, t7`."""
    spans: list[list[int]] = []
    for turn in turns:
        if spans and turn == spans[-1][1] + 1:
            spans[-1][1] = turn
        else:
            spans.append([turn, turn])
    words = [f"t{a}" if a == b else f"t{a}–t{b}" for a, b in spans]
    return ", ".join(words) or "no turn"
