"""Diff: what differs between two states, record by record, as net change with before, after and why.

A diff is a function of two states. Its items are the records whose canonical bytes differ, so that the items of
diff(a, b), applied to state(a), give state(b) exactly. The touches, which are the ops that the log holds between
the two positions, only explain: why a record changed, by which commit and over which steps, and what came and
went in between. Computed, never stored (what a commit stores is its delta).

Each item has a word for what it means to people. The last three are counted and not listed:

    added         not there, then there; of a file: created, then perhaps modified
    changed       there on both sides, and different
    superseded    another decision is in force; X → Y → Z is X superseded by Z via Y
    removed       there, then not there; of a file: deleted
    transient     a file that was created and deleted again: its record says that it is deleted
    unchanged     another record that says the same: a file with equal digests, a decision taken again
    read          a file that was only read

Human, JSON and HTML renderings all come from the one structure here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from stator.errors import BadDelta
from stator.model.log.commit import Commit
from stator.model.log.delta import Delta, Drop, Op, Put, Version
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, NOT_DIFFED, key_of
from stator.model.records.types import (
    KEYLESS,
    LOOKS,
    DecisionRecord,
    Entry,
    EvictedRecord,
    FileRecord,
    ReadStep,
    Record,
    State,
    WorkingRecord,
)
from stator.model.values.canon import encode

Change = Literal["added", "changed", "superseded", "removed", "transient", "unchanged", "read"]
NET = frozenset({"added", "changed", "superseded", "removed"})
"""The changes that are listed for people."""


KEYS_NAMED = 3
"""Keys that left or came back to the agent's view which are named."""


class DiffStep(msgspec.Struct, frozen=True):
    """A state in between that the net change passes over: a decision on the way from X to Z."""

    record: Record
    seq: int
    why: str = ""


class DiffItem(msgspec.Struct, frozen=True, kw_only=True):
    """A record that differs: as it was, as it is, and what that means.

    The record under `before_id` gives way to the one under `after_id`. The two ids differ where one record took
    the place of another: a decision that superseded one, or the same name in another session.
    """

    collection: str
    key: str
    change: Change
    before: Record | None
    after: Record | None
    before_id: str = ""
    after_id: str = ""
    seq: int
    turn: int
    why: str = ""
    via: list[DiffStep] = []
    touch: Record | None = None
    """What was last done to a file, where its record does not say so any more because the file was read since."""

    @property
    def is_net(self) -> bool:
        """Whether it is a net change."""
        return self.change in NET

    @property
    def is_listed(self) -> bool:
        """Whether people are shown it. Of the working set they see apps and data sources that came or went; files are
        among the files."""
        used = self.after or self.before
        if isinstance(used, WorkingRecord):
            return self.is_net and used.kind != "file" and None in (self.before, self.after)
        return self.is_net and self.collection not in NOT_DIFFED


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
    """The difference from one position to another."""

    start: str
    end: str
    items: list[DiffItem]
    """Every record that differs."""
    delta: Delta
    """The same as ops."""
    calls: list[CallItem] = []
    transient: dict[str, int] = {}
    """By collection: what was added and removed again in between."""
    unchanged: dict[str, int] = {}
    """By collection: what was touched and says the same as before."""
    read: int = 0
    """Files that were only read."""

    def of(self, collection: str) -> list[DiffItem]:
        """The net changes of a collection."""
        return [item for item in self.items if item.collection == collection and item.is_net]

    def apply(self, state: State) -> State:
        """The state at the end of the diff, from the state at its start."""
        return apply(self.items, state)

    def view_lines(self) -> list[str]:
        """What left the agent's view in the range, and what it is shown again: a few keys by name."""
        found = self.of("evicted")
        left = [item.after for item in found if item.before is None]
        again = [item.before for item in found if item.after is None]
        parts = (("left the agent's view", left), ("shown to the agent again", again))
        return [f"{words}: {_few_keys(records)}" for words, records in parts if records]

    def __bool__(self) -> bool:
        return bool(self.calls) or any(item.is_net for item in self.items)

    def __str__(self) -> str:
        """A few plain lines; `stator diff` draws the same structure better."""
        lines = [f"{self.start} → {self.end}"]
        shown = (item for item in self.items if item.is_listed)
        lines += map(_line, shown)
        lines += (f"  {_printable(line)}" for line in self.view_lines())
        lines += (f"  · {call.tool} {call.status}" for call in self.calls)
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}: nothing changed"


_SIGNS = {"added": "+", "changed": "~", "superseded": "≈", "removed": "-"}


def _line(item: DiffItem) -> str:
    """One net change in one line, its text escaped."""
    why = f" — {item.why}" if item.why else ""
    act = item.touch or item.after
    said = getattr(act, "what", "") or getattr(act, "op", "")
    what = f"{item.key}: {said}" if said else item.key
    line = f"{_SIGNS[item.change]} {item.collection} {what}{why} @{item.seq}"
    return "  " + _printable(line)


def _printable(line: str) -> str:
    """Recorded text may hold what a terminal would obey."""
    return line if line.isprintable() else line.encode("unicode_escape").decode("ascii")


def _few_keys(records: Sequence[Record | None]) -> str:
    """The keys that matter most, and how many others there are."""
    from stator.model.window.compaction import order  # loads how a transcript is shortened

    known = [record for record in records if isinstance(record, EvictedRecord)]
    known.sort(key=order)
    named = ", ".join(record.key for record in known[:KEYS_NAMED])
    more = len(records) - min(len(known), KEYS_NAMED)
    if not named:
        return f"{more} keys"
    return f"{named} and {more} more" if more else named


def apply(items: Iterable[DiffItem], state: State) -> State:
    """A new state: `state` with every item applied. `BadDelta` if it is not the state the items start from."""
    found = {name: dict(records) for name, records in state.items()}
    for item in items:
        records = found[item.collection]
        if item.before is not None:
            there = records.get(item.before_id)
            if there is None or encode(there) != encode(item.before):
                raise BadDelta(
                    f"{item.collection}/{item.before_id} is not what the diff starts from",
                    hint="apply a diff to the state at its start",
                )
            if item.before_id != item.after_id:
                del records[item.before_id]
        if item.after is not None:
            records[item.after_id] = item.after
    return found


# -- the two ends ---------------------------------------------------------------------------------

Why = Callable[[int], str]
"""Why the commit at a seq was made."""
Known = Mapping[tuple[str, str, int], Version]
"""Versions by collection, record id and seq: an op replaced the one at its own and its `was`."""
Slot = tuple[str, str]
"""Collection and record id."""
Key = tuple[str, str]
"""Collection and natural key."""


Pair = tuple[Entry | None, Entry | None]
"""One record as it is at both ends."""


class Touches(msgspec.Struct, frozen=True):
    """The versions from the last commit that two positions have in common to each of them, in log order."""

    left: Sequence[Version]
    right: Sequence[Version]


def versions_of(commits: Iterable[Commit], known: Known) -> Iterator[Version]:
    """Every op in log order; a dropped record has the key it had, here or as it is `known`."""
    keys: dict[Slot, str] = {}
    for commit in commits:
        for n, op in enumerate(commit.delta):
            slot = (op.collection, op.id)
            if isinstance(op, Put):
                keys[slot] = key_of(COLLECTIONS[op.collection], op.record, op.id)
            elif slot not in keys:
                old = known.get((*slot, op.was))
                keys[slot] = old.key if old is not None else KEYLESS + op.id
            yield Version(commit.seq, n, commit.turn, keys[slot], op)


def ends_of(touches: Touches, known: Known) -> list[Pair]:
    """The records that either side touched, as they are at both ends, in the order they were touched.

    `known` has what the first op of each side replaced.
    """
    base: dict[Slot, Version | None] = {}
    lasts: list[dict[Slot, Version]] = []
    for side in (touches.left, touches.right):
        last: dict[Slot, Version] = {}
        for version in side:
            op = version.op
            slot = (op.collection, op.id)
            if slot not in base:
                base[slot] = known.get((*slot, op.was)) if op.was else None
            last[slot] = version
        lasts.append(last)
    left, right = lasts
    return [
        (_entry(left.get(slot, before)), _entry(right.get(slot, before)))
        for slot, before in base.items()
    ]


def _entry(version: Version | None) -> Entry | None:
    """The record that a version put."""
    if version is None or not isinstance(version.op, Put):
        return None
    op = version.op
    return Entry(op.collection, op.id, version.key, version.seq, version.turn, op.record)


def paired(left: Iterable[Entry], right: Iterable[Entry]) -> list[Pair]:
    """Records of two states, by their ids."""
    old, new = ({(entry.collection, entry.id): entry for entry in side} for side in (left, right))
    return [(old.get(slot), new.get(slot)) for slot in {**old, **new}]


def superseded(versions: Iterable[Version]) -> dict[str, str]:
    """By the id of a decision: the decision whose commit took it out of force."""
    found: dict[str, str] = {}
    put: set[str] = set()
    gone: list[Version] = []
    for version in versions:
        op = version.op
        if op.collection != "decisions":
            continue
        gone = [v for v in gone if v.seq == version.seq]
        if isinstance(op, Drop):
            gone.append(version)
            continue
        found.pop(op.id, None)  # in force again, after a rewind
        named = getattr(op.record, "supersedes", "")
        for old in gone:
            # What a rewind puts back has the key of what it removes, and superseded nothing by that.
            if old.op.id == named or (old.key == version.key and op.id not in put):
                found[old.op.id] = op.id
        put.add(op.id)
    return found


# -- comparing them -------------------------------------------------------------------------------


def compare(
    pairs: Iterable[Pair],
    touches: Touches,
    why: Why,
    *,
    start: str,
    end: str,
    calls: Sequence[CallItem] = (),
    in_force: Touches | None = None,
) -> Diff:
    """The diff of two states, from the records that may differ; those that do not are no part of it.

    `in_force` are the touches without those that were rewound: they say what was done to a file.
    """
    work = _Comparison(pairs, touches, in_force or touches, why)
    items = work.items()
    items.sort(key=lambda item: (COLLECTIONS[item.collection].number, item.seq))
    return Diff(
        start=start,
        end=end,
        items=items,
        delta=work.delta,
        calls=list(calls),
        transient=work.transient,
        unchanged=work.unchanged,
        read=work.read,
    )


class _Comparison:
    """Two sets of records, paired, and what the touches say of them."""

    def __init__(
        self, pairs: Iterable[Pair], touches: Touches, in_force: Touches, why: Why
    ) -> None:
        self._why = why
        self._ends = [pair for pair in pairs if pair != (None, None)]
        self._touches = touches
        self._last = {(v.op.collection, v.op.id): v for v in touches.right}
        self._acts = _acts(in_force.left), _acts(in_force.right)
        self._steps: dict[str, list[Version]] = {}
        """By the id of a decision: those on the way to it."""
        self._followed: set[str] = set()
        """Decisions that gave way to another one, which is an item by itself."""
        self.delta: Delta = []
        self.transient: dict[str, int] = {}
        self.unchanged: dict[str, int] = {}
        self.read = 0

    def items(self) -> list[DiffItem]:
        same: list[Entry] = []
        found: list[DiffItem] = []
        for a, b in self._pairs(same):
            found.append(self._item(a, b))
            if a is not None and (b is None or a.id != b.id):
                self.delta.append(Drop(a.collection, a.id, a.seq))
            if b is not None and (a is None or a.record is not b.record):
                was = a.seq if a is not None and a.id == b.id else 0
                self.delta.append(Put(b.collection, b.id, b.record, was))
        self._count(found, same)
        return found

    # -- which record became which ---------------------------------------------------------------

    def _pairs(self, same: list[Entry]) -> list[Pair]:
        """What differs, each record with the one that took its place; those that are equal go to `same`."""
        pairs: list[Pair] = []
        gone: dict[Slot, Entry] = {}
        new: dict[Slot, Entry] = {}
        for a, b in self._ends:
            if b is None and a is not None:
                gone[a.collection, a.id] = a
            elif a is None and b is not None:
                new[b.collection, b.id] = b
            elif a is not None and b is not None:
                is_same = a.record is b.record or encode(a.record) == encode(b.record)
                if is_same and not self._changed_unseen(b):
                    same.append(b)
                else:
                    pairs.append((a, b))
        if gone or new:
            pairs += self._decisions(gone, new)
            by_key = {(a.collection, a.key): slot for slot, a in gone.items()}
            taken = {
                slot: gone.pop(old)
                for slot, b in new.items()
                if (old := by_key.pop((b.collection, b.key), None)) is not None
            }
            pairs += [(a, None) for a in gone.values()]
            pairs += [(taken.get(slot), b) for slot, b in new.items()]
        return pairs

    def _changed_unseen(self, file: Entry) -> bool:
        """Whether a file was changed although its records are equal: it was read before the change and after it, and
        what it held is not recorded."""
        if not isinstance(file.record, FileRecord) or file.record.after:
            return False
        return any(file.key in acts for acts in self._acts)

    def _decisions(self, gone: dict[Slot, Entry], new: dict[Slot, Entry]) -> list[Pair]:
        """Decisions that superseded one another, on the way there or on the way back."""
        pairs: list[Pair] = []
        forward = superseded(self._touches.right)
        puts = {v.op.id: v for v in self._touches.right if isinstance(v.op, Put)} if forward else {}
        ended: dict[str, list[Entry]] = {}
        for old in forward:
            last = forward[old]
            while last in forward:
                last = forward[last]
            if ("decisions", last) not in new:
                continue
            if ("decisions", old) in gone:
                ended.setdefault(last, []).append(gone["decisions", old])
            elif old in puts:
                self._steps.setdefault(last, []).append(puts[old])
        for last, olds in ended.items():
            b = new.pop(("decisions", last))
            chosen = next((old for old in olds if old.key == b.key), olds[0])
            self._followed.update(old.id for old in olds)
            pairs.append((gone.pop(("decisions", chosen.id)), b))
        for old, by in superseded(self._touches.left).items():
            if ("decisions", old) in new and ("decisions", by) in gone:
                pairs.append((gone.pop(("decisions", by)), new.pop(("decisions", old))))
        return pairs

    # -- what it means ---------------------------------------------------------------------------

    def _item(self, a: Entry | None, b: Entry | None) -> DiffItem:
        last = b or a
        assert last is not None
        change = self._file_change(a, b) if last.collection == "files" else self._change(a, b)
        seq, turn, is_known = self._place(a, b)
        touch: Record | None = None
        if b is not None and b.collection == "files" and (acts := self._acts[1].get(b.key)):
            seq, turn = acts[-1].seq, acts[-1].turn
            touch = None if _record(acts[-1]) is b.record else _record(acts[-1])
        return DiffItem(
            collection=last.collection,
            key=last.key,
            change=change,
            before=None if a is None else a.record,
            after=None if b is None else b.record,
            before_id="" if a is None else a.id,
            after_id="" if b is None else b.id,
            seq=seq,
            turn=turn,
            why=self._stated(None if b is None else b.record, seq if is_known else 0),
            via=[
                DiffStep(v.op.record, v.seq, self._stated(v.op.record, v.seq))
                for v in (self._steps.get(b.id, ()) if b is not None else ())
                if isinstance(v.op, Put)
            ],
            touch=touch,
        )

    def _place(self, a: Entry | None, b: Entry | None) -> tuple[int, int, bool]:
        """Seq and turn of the commit that did it, and whether that is in the log of the end."""
        for entry in (b, a):
            touched = self._last.get((entry.collection, entry.id)) if entry is not None else None
            if touched is not None:
                return touched.seq, touched.turn, True
        last = b or a
        assert last is not None
        return last.seq, last.turn, b is not None

    def _stated(self, record: Record | None, seq: int) -> str:
        stated: str = getattr(record, "why", "") or ""
        return stated or (self._why(seq) if seq else "")

    def _change(self, a: Entry | None, b: Entry | None) -> Change:
        if a is None:
            return "added"
        if b is None:
            return "superseded" if a.id in self._followed else "removed"
        if _says_the_same(a.record, b.record):
            return "unchanged"
        return "superseded" if a.collection == "decisions" else "changed"

    def _file_change(self, a: Entry | None, b: Entry | None) -> Change:
        """What became of a file. Where one state has no record of it, the first thing done to it on the way from
        there tells whether it existed."""
        known = b or a
        mine, theirs = (acts.get(known.key if known else "", []) for acts in self._acts)
        acts = theirs if a is None else mine
        if (
            (a is None or b is None)
            and not acts
            and getattr(known and known.record, "op", "") in LOOKS
        ):
            return "read"
        existed, exists = _is_there(a), _is_there(b)
        if existed is None:
            existed = a is not None or _began_there(theirs)
        if exists is None:
            exists = b is not None or _began_there(mine)
        if not existed or not exists:
            return "added" if exists else "removed" if existed else "transient"
        start, end = (getattr(entry and entry.record, "after", "") for entry in (a, b))
        start = start or (_record(theirs[0]).before if theirs else "")
        if start and end and start != end:
            return "changed"
        if mine or theirs:
            return "unchanged" if start and end else "changed"
        return "read"

    # -- what folded away ------------------------------------------------------------------------

    def _count(self, found: Sequence[DiffItem], same: Iterable[Entry]) -> None:
        """Count what was touched and is not listed, once for each key."""
        seen: set[Key] = {(item.collection, item.key) for item in found}
        for item in found:
            if item.change == "read":
                self.read += 1
            elif not item.is_net:
                _add(self.transient if item.change == "transient" else self.unchanged, item)
        for entry in same:
            key = (entry.collection, entry.key)
            if key in seen or entry.collection in BOOKKEEPING:
                continue
            seen.add(key)
            if entry.collection == "files" and not any(entry.key in acts for acts in self._acts):
                self.read += 1
            else:
                _add(self.unchanged, entry)
        ends = {(e.collection, e.id) for pair in self._ends for e in pair if e is not None}
        steps = {v.op.id for versions in self._steps.values() for v in versions}
        for version in (*self._touches.left, *self._touches.right):
            op, key = version.op, (version.op.collection, version.key)
            if key in seen or op.collection in BOOKKEEPING or op.id in steps:
                continue
            seen.add(key)
            if (op.collection, op.id) not in ends:
                _add(self.transient, op)


def _add(counts: dict[str, int], what: DiffItem | Entry | Op) -> None:
    counts[what.collection] = counts.get(what.collection, 0) + 1


def _acts(versions: Iterable[Version]) -> dict[str, list[Version]]:
    """By the key of a file: what was done to it, reads aside."""
    found: dict[str, list[Version]] = {}
    for version in versions:
        op = version.op
        if op.collection == "files" and isinstance(op, Put):
            record = op.record
            if isinstance(record, FileRecord) and record.op not in LOOKS:
                found.setdefault(version.key, []).append(version)
    return found


def _is_there(entry: Entry | None) -> bool | None:
    """Whether a file is there, as far as a state knows it."""
    record = entry.record if entry is not None else None
    return record.op != "deleted" if isinstance(record, FileRecord) else None


def _began_there(acts: Sequence[Version]) -> bool:
    """Whether a file was there before the first of these was done to it."""
    return bool(acts) and _record(acts[0]).op not in ("created", "renamed")


def _record(act: Version) -> FileRecord:
    assert isinstance(act.op, Put)
    assert isinstance(act.op.record, FileRecord)
    return act.op.record


def _says_the_same(a: Record, b: Record) -> bool:
    """Which decision one superseded on the way is not part of what it says, nor is by what a step is shown to be done
    or claimed."""
    if isinstance(a, DecisionRecord) and isinstance(b, DecisionRecord):
        a, b = (msgspec.structs.replace(x, supersedes="") for x in (a, b))
    if isinstance(a, ReadStep) and isinstance(b, ReadStep):
        a, b = (msgspec.structs.replace(x, because="", shown_by=0) for x in (a, b))
    return encode(a) == encode(b)
