"""Lines that several commands share: the full content of a commit, a call, a list of turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
REPLACED = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"))
"""How tools name the text that an edit replaces, and the text that takes its place."""
_SHOWN = tuple(name for name in CONTENT if name != "key")
INTERNAL = ("principal", "input_hash", "output_summary")
"""Fields that say nothing to a person who reads what a commit is about."""
TOLD = tuple(name for name in _SHOWN if name not in INTERNAL)


def contents(commit: Commit) -> Iterator[Line]:
    """Every content field of a commit, then its changes to the state."""
    yield from fields(commit)
    yield from changes(commit)


def fields(commit: Commit, only: Sequence[str] = _SHOWN) -> Iterator[Line]:
    """Content fields of a commit, and data that it holds."""
    for name in only:
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


def changes(commit: Commit) -> Iterator[Line]:
    """What a commit changed in the state."""
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
    if name == "output" and isinstance(value, Mapping):
        yield from _message(name, value)
    else:
        yield from _value(name, value, INDENT)


def _message(name: str, value: Mapping[str, Any]) -> Iterator[Line]:
    """An answer of a model as its text and the calls it asked for; anything else as it is."""
    from stator.model.window.reply import dialect, requests, text_of

    if dialect(value) == "plain":
        yield from _value(name, value, INDENT)
        return
    if text := text_of(value).strip("\n"):
        yield from _value("text", text, INDENT)
    for request in requests(value):
        yield from _value(f"asks for {request.name}", request.arguments, INDENT)


def _value(name: str, value: Any, indent: str) -> Iterator[Line]:
    """A value under its name: a text as text, an object field by field, anything deeper as JSON."""
    if isinstance(value, Mapping) and value and len(indent) < len(INDENT) + 4:
        yield Line(indent).add(f"{name}:", "dim")
        old, new = _replaced(value)
        for key, inner in value.items():
            if key not in (old, new):
                yield from _value(str(key), inner, f"{indent}  ")
        for key, sign, style in ((old, "-", "removed"), (new, "+", "added")):
            if key:
                yield from (
                    Line(f"{indent}  ").add(f"{sign}{line}", style)
                    for line in escape.lines(value[key].removesuffix("\n"))
                )
        return
    shown = escape.lines(value if isinstance(value, str) else _json(value))
    if len(shown) == 1:
        yield Line(indent).add(f"{name}: ", "dim").add(shown[0])
        return
    yield Line(indent).add(f"{name}:", "dim")
    for line in shown:
        yield Line(f"{indent}  ").add(line)


def shows_edit(value: Any) -> bool:
    """Whether the arguments of a call are shown as a diff already."""
    return isinstance(value, Mapping) and any(_replaced(value))


def _replaced(value: Mapping[str, Any]) -> tuple[str, str]:
    """The two arguments of an edit that say what is replaced by what; empty if it has none."""
    for old, new in REPLACED:
        if isinstance(value.get(old), str) and isinstance(value.get(new), str):
            return old, new
    return "", ""


def _json(value: Any) -> str:
    return wire.dumps(canon.to_plain(value), indent=2)


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
