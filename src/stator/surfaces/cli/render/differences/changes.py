"""Draws the net changes between two states: decisions and files first, each change on one line with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stator.model.records.tables import COLLECTIONS, NOT_DIFFED
from stator.model.records.text import setting_value, unproved
from stator.model.records.types import (
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
from stator.surfaces.cli.render.evicted_words import in_words
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.turns.subject import base_of, net, relative

SIGNS = {"added": "+", "changed": "~", "superseded": "≈", "removed": "-"}
FIRST = ("decisions", "files", "plan", "revisions")
"""What a person asks about before anything else."""
LAST = ("tags", "settings")
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


class LineCount(NamedTuple):
    """How many lines a file gained and lost."""

    added: int = 0
    removed: int = 0
    edits: int = 0
    """Above 1: these are the sums of so many edits; what is different in the end is not recorded."""


LineCounts = Mapping[tuple[str, str], LineCount]
"""By the root and path of a file."""
UNCOUNTED = LineCount()
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
    from stator.surfaces.cli.render.evictions import kind_of  # loads how views shrink

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
    known = [counts.get((one.root, one.path), UNCOUNTED) if one else UNCOUNTED for one in touched]
    base = base_of(one.path for one in touched if one)
    yield Line("files", "title").add(f"  {' · '.join(_totals(known, base))}", "dim")
    rows = [_file(*row, base) for row in zip(items, touched, known, strict=True)]
    shown = table(FILE_COLUMNS, rows, width - len(INDENT) - 2, titled=False)
    for item, line in zip(items, shown, strict=True):
        yield _signed(item).extend(line)


def _totals(known: Sequence[LineCount], base: str) -> Iterator[str]:
    """How many files there are, by how many lines they differ, and the folder that they are in."""
    yield record_line.count(len(known), "file")
    counted = [one for one in known if one.added or one.removed]
    if counted:
        total = net(sum(one.added for one in counted), sum(one.removed for one in counted))
        unknown = len(known) - len(counted)
        yield f"{total} in {len(counted)} of them" if unknown else total
    if base:
        yield f"below {base}"


def _signed(item: DiffItem) -> Line:
    return Line(INDENT).add(f"{SIGNS[item.change]} ", item.change)


def _touched(item: DiffItem) -> FileRecord | None:
    """The record that says what was done to a file; None if it was erased."""
    records = (item.touch, item.after, item.before)
    return next((one for one in records if isinstance(one, FileRecord)), None)


def _file(
    item: DiffItem, record: FileRecord | None, known: LineCount, base: str
) -> list[Line | str]:
    if record is None:
        gone = record_line.of_record(item.after or item.before or Record())
        return [gone, "", "", "", Line(f"@{item.seq}", "id")]
    notes = f" from {relative(record.from_path, base)}" if record.from_path else ""
    notes += f" ({record.how})" if record.how != "recorded" else ""
    notes += f", sums of {known.edits} edits" if known.edits > 1 else ""
    is_counted = known.added or known.removed
    return [
        relative(record.path, base),
        Line(_became(item, record) + notes, "dim"),
        Line(f"+{known.added:,}", "added") if is_counted else "",
        Line(f"−{known.removed:,}", "removed") if is_counted else "",
        Line(f"@{item.seq}", "id"),
    ]


def _became(item: DiffItem, record: FileRecord) -> str:
    """What became of a file from the one state to the other, in the word that goes with its sign."""
    if record.op == "renamed" and item.change != "removed":
        return record.op
    words = {"added": "created", "removed": "deleted" if item.after is not None else "not there"}
    return words.get(item.change, "modified")


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
