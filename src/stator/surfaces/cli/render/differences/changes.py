"""Draws the net changes between two states: decisions and files first, each change on one line with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stator.model.records.tables import COLLECTIONS, NOT_DIFFED
from stator.model.records.text import setting_value, unproved
from stator.model.records.types import (
    LOOKS,
    READ_POSITION,
    DecisionRecord,
    EvictedRecord,
    FileRecord,
    PlanRecord,
    Record,
    SettingRecord,
)
from stator.model.values.canon import encode
from stator.model.views.diff import Diff, DiffItem
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.turns.subject import base_of, net, relative

SIGNS = {"added": "+", "changed": "~", "superseded": "≈", "removed": "-"}
FIRST = ("decisions", "files", "plan", "revisions")
"""What a person asks about before anything else."""
LAST = ("settings",)
TITLES = {"children": "sub-agents"}
"""What a collection is called, where that is not its own name."""
INDENT = "  "
FILE_COLUMNS = (
    Column(title="", shrinks=True, middle=True, least=20),
    Column(title=""),
    Column(title="", right=True),
    Column(title="", right=True, drop=1),
    Column(title=""),
)
LineCounts = Mapping[tuple[str, str], tuple[int, int]]
"""Lines added to a file and removed from it, by its root and path."""
_INCIDENTAL = frozenset({"order", "digest", "commit", "because", "shown_by"})
"""Fields that always change together with a more important one."""


def lines(
    found: Diff, width: int, counts: LineCounts, *, all: bool, without: str = ""
) -> Iterator[Line]:
    """The net changes of each collection. `all`: also those of bookkeeping."""
    for name in _in_order():
        items = [
            item
            for item in found.of(name)
            if (all or item.is_listed) and not _is_read_position(item)
        ]
        if not items or name == without:
            continue
        if name == "files":
            yield from _files(items, width, counts)
            continue
        yield Line(TITLES.get(name, name.replace("_", " ")), "title")
        for item in items:
            yield _line(item)


def footnotes(found: Diff, evicted: str) -> Iterator[Line]:
    """What is not listed, in numbers. `evicted`: the command that lists what left the view."""
    yield from _view_changes(found, evicted)
    passing, same = (
        sum(count for name, count in counts.items() if name not in NOT_DIFFED)
        for counts in (found.transient, found.unchanged)
    )
    parts = [
        f"{passing} added and removed again" if passing else "",
        f"{same} changed and changed back" if same else "",
        f"{record_line.count(found.read, 'file')} only read" if found.read else "",
    ]
    text = ", ".join(part for part in parts if part)
    if text:
        yield Line(f"({text})", "dim")


def _in_order() -> Iterator[str]:
    yield from FIRST
    yield from (name for name in COLLECTIONS if name not in FIRST + LAST)
    yield from LAST


def _is_read_position(item: DiffItem) -> bool:
    """Whether the item is an importer's note of how far it has read a transcript."""
    return str(getattr(item.after or item.before, "name", "")).startswith(READ_POSITION)


def _view_changes(found: Diff, command: str) -> Iterator[Line]:
    """How much left the agent's view, and how much it is shown again."""
    items = found.of("evicted")
    if not items:
        return
    from stator.surfaces.cli.render.evictions import in_words, kind_of  # loads how views shrink

    left = [item.after for item in items if item.before is None]
    again = [item.before for item in items if item.after is None]
    for words, records in (("left the agent's view", left), ("shown to the agent again", again)):
        kinds = Counter(kind_of(one) for one in records if isinstance(one, EvictedRecord))
        if kinds:
            yield Line(f"{words}: {in_words(kinds)}   {command}", "dim")


# -- files ----------------------------------------------------------------------------------------


def _files(items: Sequence[DiffItem], width: int, counts: LineCounts) -> Iterator[Line]:
    """The files that differ, with how many lines each gained and lost where the record holds what they were."""
    touched = [_touched(item) for item in items]
    known = [counts.get((one.root, one.path), (0, 0)) if one else (0, 0) for one in touched]
    base = base_of(one.path for one in touched if one)
    title = Line("files", "title")
    total = net(sum(one[0] for one in known), sum(one[1] for one in known))
    parts = [f"{len(items)} files" if len(items) > 1 else "", total if any(map(any, known)) else ""]
    parts.append(f"below {base}" if base else "")
    if about := " · ".join(part for part in parts if part):
        title.add(f"  {about}", "dim")
    yield title
    rows = [_file(*row, base) for row in zip(items, touched, known, strict=True)]
    shown = table(FILE_COLUMNS, rows, width - len(INDENT) - 2, titled=False)
    for item, line in zip(items, shown, strict=True):
        yield _signed(item).extend(line)


def _signed(item: DiffItem) -> Line:
    return Line(INDENT).add(f"{SIGNS[item.change]} ", item.change)


def _touched(item: DiffItem) -> FileRecord | None:
    """The record that says what was done to a file; None if it was erased."""
    records = (item.touch, item.after, item.before)
    return next((one for one in records if isinstance(one, FileRecord)), None)


def _file(
    item: DiffItem, record: FileRecord | None, known: tuple[int, int], base: str
) -> list[Line | str]:
    if record is None:
        gone = record_line.of_record(item.after or item.before or Record())
        return [gone, "", "", "", Line(f"@{item.seq}", "id")]
    op = "created" if item.change == "added" and record.op == "modified" else record.op
    if record.op in LOOKS and any(known):  # it was read after it was changed
        op = "modified"
    notes = f" from {relative(record.from_path, base)}" if record.from_path else ""
    notes += f" ({record.how})" if record.how != "recorded" else ""
    return [
        relative(record.path, base),
        Line(op + notes, "dim"),
        Line(f"+{known[0]:,}", "added") if any(known) else "",
        Line(f"−{known[1]:,}", "removed") if any(known) else "",
        Line(f"@{item.seq}", "id"),
    ]


# -- any other record -----------------------------------------------------------------------------


def _line(item: DiffItem) -> Line:
    """One net change: sign, name, before → after, the reason, and the commit."""
    line = _signed(item)
    before, after = item.before, item.after
    if isinstance(after, DecisionRecord):
        _decision(line, item, after)
    elif before is not None and after is not None:
        _changed(line, before, after)
    else:
        line.extend(record_line.of_record(after or before or Record()))
    why = item.why if not _has_reason(after) else ""
    return line.add(f" — {why}" if why else "", "dim").add(f"  @{item.seq}", "id")


def _has_reason(record: Record | None) -> bool:
    return bool(getattr(record, "why", ""))


def _decision(line: Line, item: DiffItem, after: DecisionRecord) -> None:
    """`auth: use JWT superseded by use cookies via use sessions — because …`"""
    if item.before is None and not item.via:
        line.extend(record_line.of_record(after))
        return
    line.add(f"{after.topic}: " if after.topic else "", "bold")
    steps = [getattr(step.record, "what", "(erased)") for step in item.via]
    if item.before is not None:
        line.add(f"{getattr(item.before, 'what', '(erased)')} superseded by ")
    line.add(after.what, "bold")
    line.add(f" via {', '.join(steps)}" if steps else "")
    line.add(f" — because {item.why}" if item.why else "", "dim")


def _changed(line: Line, before: Record, after: Record) -> None:
    """The name once, then each field that differs as before → after."""
    old, new = wire.record(before) or {}, wire.record(after) or {}
    name = next((old[key] for key in ("name", "step", "what", "path", "unit") if key in old), "")
    line.add(f"{name}: " if name else "", "bold")
    differing = [key for key in sorted({*old, *new}) if not _is_same(old.get(key), new.get(key))]
    differing = [key for key in differing if key not in _INCIDENTAL] or differing
    for place, key in enumerate(differing[:4]):
        line.add(", " if place else "")
        line.add(f"{key} " if key not in ("value", "status", "amount") else "", "dim")
        line.add(_field_text(before, key)).add(" → ").add(_field_text(after, key))
    why = unproved(after) if isinstance(after, PlanRecord) else ""
    line.add(f" — {why}" if why else "", "dim")


def _is_same(a: Any, b: Any) -> bool:
    """Whether two fields are recorded alike: true and 1 are not, although Python calls them equal."""
    return encode(a) == encode(b)


def _field_text(record: Record, key: str) -> str:
    value = getattr(record, key, None)
    if isinstance(record, SettingRecord):
        return setting_value(value, record_line.recorded)
    if key == "value" and not hasattr(record, "comment"):
        return record_line.recorded(value)
    return record_line.brief(
        value.replace("_", " ") if key == "status" and isinstance(value, str) else value
    )
