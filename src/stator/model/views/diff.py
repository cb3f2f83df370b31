"""Diff: what changed between two positions, by collection, as net change with before, after and
why.

Computed, never stored (what a commit stores is its delta). Edits in between fold away:

    created, then modified        added            X → Y → Z on one topic   X superseded by Z via Y
    modified, then deleted        removed          dropped, never known     transient, counted
    created, then deleted         transient        equal ends               unchanged, counted

Human, JSON and HTML renderings all come from the one structure here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import (
    Delta,
    Drop,
    Op,
    Put,
    Version,
    to_plain,
)
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, key_of
from stator.model.records.types import KEYLESS, DecisionRecord, Entry, FileRecord, Record

Change = Literal["added", "changed", "superseded", "removed"]
GONE_OPS = frozenset({"deleted"})


class DiffStep(msgspec.Struct, frozen=True):
    """A state in between that the net change passes over: a decision on the way from X to Z."""

    record: Record
    seq: int
    why: str = ""


class DiffItem(msgspec.Struct, frozen=True, kw_only=True):
    """One net change."""

    collection: str
    key: str
    change: Change
    before: Record | None
    after: Record | None
    seq: int
    turn: int
    why: str = ""
    via: list[DiffStep] = []


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was made in the range."""

    call: str
    tool: str
    status: str
    seq: int
    turn: int
    cause: str = ""
    effect: str = ""
    session: str = ""


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """The net change from one position to another."""

    start: str
    end: str
    items: list[DiffItem]
    delta: Delta
    calls: list[CallItem] = []
    transient: dict[str, int] = {}
    unchanged: dict[str, int] = {}
    read: int = 0

    def of(self, collection: str) -> list[DiffItem]:
        return [item for item in self.items if item.collection == collection]

    def __bool__(self) -> bool:
        return bool(self.items or self.calls)

    def __str__(self) -> str:
        """A few plain lines; `stator diff` draws the same structure better."""
        lines = [f"{self.start} → {self.end}"]
        lines += (_line(item) for item in self.items if item.collection not in BOOKKEEPING)
        lines += (f"  · {call.tool} {call.status}" for call in self.calls)
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}: nothing changed"


_SIGNS = {"added": "+", "changed": "~", "superseded": "≈", "removed": "-"}


def _line(item: DiffItem) -> str:
    """One net change in one line, its text escaped."""
    why = f" — {item.why}" if item.why else ""
    said = getattr(item.after, "what", "") or getattr(item.after, "op", "")
    what = f"{item.key}: {said}" if said else item.key
    line = f"{_SIGNS[item.change]} {item.collection} {what}{why} @{item.seq}"
    if not line.isprintable():  # recorded text may hold what a terminal would obey
        line = line.encode("unicode_escape").decode("ascii")
    return "  " + line


Before = Callable[[Version], Record | None]
"""The record that a version replaced, from before the range."""
Why = Callable[[int], str]
"""Why the commit at a seq was made."""


Known = Mapping[tuple[str, str, int], Version]
"""Versions by collection, record id and seq: an op replaced the one at its own and its `was`."""


def versions_of(commits: Iterable[Commit], known: Known) -> Iterator[Version]:
    """Every op in log order; a dropped record has the key it had, here or as it is `known`."""
    keys: dict[tuple[str, str], str] = {}
    for commit in commits:
        for n, op in enumerate(commit.delta):
            slot = (op.collection, op.id)
            if isinstance(op, Put):
                keys[slot] = key_of(COLLECTIONS[op.collection], op.record, op.id)
            elif slot not in keys:
                old = known.get((*slot, op.was))
                keys[slot] = old.key if old is not None else KEYLESS + op.id
            yield Version(commit.seq, n, commit.turn, keys[slot], op)


def before_of(known: Known) -> Before:
    """The record before a version, from the versions that are known."""

    def before(version: Version) -> Record | None:
        old = known.get(_slot(version.op))
        return old.op.record if old is not None and isinstance(old.op, Put) else None

    return before


def _slot(op: Op) -> tuple[str, str, int]:
    return op.collection, op.id, op.was


def ends_of(versions: Sequence[Version], known: Known) -> tuple[list[Entry], list[Entry]]:
    """The records that versions touched, as they were before the first and after the last version."""
    first: dict[str, Version | None] = {}
    last: dict[str, Version] = {}
    for version in versions:
        if version.op.id not in first:
            first[version.op.id] = known.get(_slot(version.op))
        last[version.op.id] = version
    return _entries(first.values()), _entries(last.values())


def _entries(versions: Iterable[Version | None]) -> list[Entry]:
    """Those that are puts, last touched first."""
    found = [
        (v.n, Entry(v.op.collection, v.op.id, v.key, v.seq, v.turn, v.op.record))
        for v in versions
        if v is not None and isinstance(v.op, Put)
    ]
    found.sort(key=lambda pair: (pair[1].seq, pair[0]), reverse=True)
    return [entry for _, entry in found]


def fold_range(
    versions: Sequence[Version],
    before: Before,
    why: Why,
    *,
    start: str,
    end: str,
    ends: tuple[Iterable[Entry], Iterable[Entry]] = ((), ()),
    calls: Sequence[CallItem] = (),
) -> Diff:
    """The diff of a range of one log, from every version in it, in log order.

    `ends` are the records at both ends of collections whose intermediate steps are not needed.
    """
    by_key: dict[tuple[str, str], list[Version]] = {}
    for version in versions:
        by_key.setdefault((version.op.collection, version.key), []).append(version)
    tally = _Tally()
    for (collection, key), touched in by_key.items():
        old = before(touched[0])
        tally.add(_net(collection, key, old, touched, why), collection)
    delta = net_delta(versions) + _compare(*ends, why, tally)
    return tally.diff(delta, start, end, calls)


def between(
    left: Iterable[Entry],
    right: Iterable[Entry],
    why: Why,
    *,
    start: str,
    end: str,
    files: FileEnds | None = None,
    calls: Sequence[CallItem] = (),
) -> Diff:
    """The diff of two states that share no range: records are matched by their natural key.

    `files` says of each file whether it was there on either side; the last op alone does not.
    """
    tally = _Tally()
    delta = _compare(left, right, why, tally, files or {})
    return tally.diff(delta, start, end, calls)


FileEnds = dict[str, tuple[bool, bool]]
"""Path → whether the file was there on the one side and on the other; only read: not listed."""


def file_ends(left: Sequence[Version], right: Sequence[Version]) -> FileEnds:
    """What two stretches from a common commit say of files: who made, changed or removed them."""
    ops: dict[str, tuple[list[str], list[str]]] = {}
    for side, versions in enumerate((left, right)):
        for version in versions:
            record = getattr(version.op, "record", None)
            if isinstance(record, FileRecord) and record.op not in ("read", "skipped"):
                ops.setdefault(version.key, ([], []))[side].append(record.op)
    ends: FileEnds = {}
    for key, sides in ops.items():
        first = next(found[0] for found in sides if found)
        before = first not in ("created", "renamed")
        there = [found[-1] not in GONE_OPS if found else before for found in sides]
        ends[key] = (there[0], there[1])
    return ends


def _compare(
    left: Iterable[Entry],
    right: Iterable[Entry],
    why: Why,
    tally: _Tally,
    files: FileEnds | None = None,
) -> Delta:
    """Count what differs between two sets of records; the delta from one to the other."""
    old = {(entry.collection, entry.key): entry for entry in left}
    new = {(entry.collection, entry.key): entry for entry in right}
    delta: Delta = []
    for slot in [*old, *(slot for slot in new if slot not in old)]:
        a, b = old.get(slot), new.get(slot)
        if a is not None and b is not None and a.record == b.record and a.id == b.id:
            continue
        if a is not None and (b is None or a.id != b.id):
            delta.append(Drop(a.collection, a.id, a.seq))
        if b is not None:
            delta.append(Put(b.collection, b.id, b.record, a.seq if a and a.id == b.id else 0))
        tally.add(_pair(slot, a, b, why, (files or {}).get(slot[1])), slot[0])
    return delta


def net_delta(versions: Sequence[Version]) -> Delta:
    """One op per record id: the last put, or a drop if the record was there before the range."""
    last: dict[tuple[str, str], tuple[Op, int]] = {}
    for version in versions:
        slot = (version.op.collection, version.op.id)
        first = last[slot][1] if slot in last else version.op.was
        last.pop(slot, None)
        last[slot] = (version.op, first)
    delta: Delta = []
    for (collection, identifier), (op, was) in last.items():
        if isinstance(op, Put):
            delta.append(Put(collection, identifier, op.record, was))
        elif was:
            delta.append(Drop(collection, identifier, was))
    return delta


class _Tally:
    """Net changes as they come, and counts of what folded away."""

    def __init__(self) -> None:
        self.items: list[DiffItem] = []
        self.transient: dict[str, int] = {}
        self.unchanged: dict[str, int] = {}
        self.read = 0

    def add(self, found: DiffItem | str, collection: str) -> None:
        if isinstance(found, DiffItem):
            self.items.append(found)
        elif found == "read":
            self.read += 1
        else:
            counts = self.transient if found == "transient" else self.unchanged
            counts[collection] = counts.get(collection, 0) + 1

    def diff(self, delta: Delta, start: str, end: str, calls: Sequence[CallItem]) -> Diff:
        order = list(COLLECTIONS)
        self.items.sort(key=lambda item: (order.index(item.collection), item.seq))
        return Diff(
            start=start,
            end=end,
            items=self.items,
            delta=delta,
            calls=list(calls),
            transient=self.transient,
            unchanged=self.unchanged,
            read=self.read,
        )


def _net(
    collection: str, key: str, old: Record | None, touched: Sequence[Version], why: Why
) -> DiffItem | str:
    """The net change of one key, or what it folded away to."""
    last = touched[-1]
    new = last.op.record if isinstance(last.op, Put) else None
    if collection == "files":
        return _net_file(key, old, touched, why)
    if old is None and new is None:
        return "transient"
    if old is not None and new is not None and _same(old, new):
        return "unchanged"
    via: list[DiffStep] = []
    change: Change = "added" if old is None else "removed" if new is None else "changed"
    if collection == "decisions" and new is not None:
        via = _via(touched[:-1], why)
        if old is not None:
            change = "superseded"
    return DiffItem(
        collection=collection,
        key=key,
        change=change,
        before=old,
        after=new,
        seq=last.seq,
        turn=last.turn,
        why=_why(new, last.seq, why),
        via=via,
    )


def _via(touched: Sequence[Version], why: Why) -> list[DiffStep]:
    return [
        DiffStep(version.op.record, version.seq, _why(version.op.record, version.seq, why))
        for version in touched
        if isinstance(version.op, Put)
    ]


def _net_file(key: str, old: Record | None, touched: Sequence[Version], why: Why) -> DiffItem | str:
    """Files know more than their records: the first op of a range says whether the file was there before."""
    records = [version.op.record for version in touched if isinstance(version.op, Put)]
    files = [record for record in records if isinstance(record, FileRecord)]
    if not files:
        return "unchanged"
    acts = [file for file in files if file.op not in ("read", "skipped")]
    if not acts:
        return "read"
    existed = acts[0].op not in ("created", "renamed")
    exists = acts[-1].op not in GONE_OPS
    if not existed and not exists:
        return "transient"
    if existed and exists and _start_digest(old, acts[0]) == acts[-1].after != "":
        return "unchanged"
    change: Change = "changed" if existed and exists else "added" if exists else "removed"
    decisive = next(
        v for v in reversed(touched) if isinstance(v.op, Put) and v.op.record is acts[-1]
    )
    return DiffItem(
        collection="files",
        key=key,
        change=change,
        before=old,
        after=acts[-1],
        seq=decisive.seq,
        turn=decisive.turn,
        why=why(decisive.seq),
    )


def _start_digest(old: Record | None, first: FileRecord) -> str:
    return first.before or (old.after if isinstance(old, FileRecord) else "")


def _pair(
    slot: tuple[str, str],
    a: Entry | None,
    b: Entry | None,
    why: Why,
    ends: tuple[bool, bool] | None,
) -> DiffItem | str:
    if a is not None and b is not None and _same(a.record, b.record):
        return "unchanged"
    last = b or a
    assert last is not None
    change: Change | str = "added" if a is None else "removed" if b is None else "changed"
    if slot[0] == "decisions" and change == "changed":
        change = "superseded"
    if slot[0] == "files":
        change = _pair_files(a, b, ends)
    if change not in ("added", "changed", "superseded", "removed"):
        return change
    return DiffItem(
        collection=slot[0],
        key=slot[1],
        change=change,
        before=a.record if a else None,
        after=b.record if b else None,
        seq=last.seq,
        turn=last.turn,
        why=_why(b.record if b else None, last.seq, why),
    )


def _pair_files(a: Entry | None, b: Entry | None, ends: tuple[bool, bool] | None) -> str:
    """The net change of a file from one side to the other."""
    if ends is None:
        return "read"
    existed, exists = ends
    if existed and exists:
        digests = [getattr(entry.record, "after", "") if entry else "" for entry in (a, b)]
        return "unchanged" if digests[0] == digests[1] != "" else "changed"
    return "added" if exists else "removed" if existed else "transient"


def _same(a: Record, b: Record) -> bool:
    """Equal in what they say; which decision one superseded on the way is not part of that."""
    if isinstance(a, DecisionRecord) and isinstance(b, DecisionRecord):
        a, b = (msgspec.structs.replace(x, supersedes="") for x in (a, b))
    return a == b


def _why(record: Record | None, seq: int, why: Why) -> str:
    stated: str = getattr(record, "why", "") or ""
    return stated or why(seq)


def render_item(item: DiffItem) -> dict[str, Any]:
    """A net change as plain data, for JSON."""
    plain: dict[str, Any] = {
        "key": item.key,
        "change": item.change,
        "before": to_plain(item.before) if item.before is not None else None,
        "after": to_plain(item.after) if item.after is not None else None,
        "why": item.why,
        "seq": item.seq,
        "turn": item.turn,
    }
    if item.via:
        plain["via"] = [
            {"record": to_plain(step.record), "seq": step.seq, "why": step.why} for step in item.via
        ]
    return plain
