"""Compares two positions: which commits are between them, and what those changed altogether."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from stator.errors import BadPosition
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Op, Put, Version, first_ops
from stator.model.log.query import PAGE_MAX, CallQuery, CallRow, Read, read
from stator.model.log.rewinds import rewind_of, stands, visible
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, key_of
from stator.model.records.types import Entry, ReadStep, SessionRecord
from stator.model.values.position import AtTurn, Range, Ref, parse_range, parse_ref
from stator.model.views import diff as diffs
from stator.model.views.diff import CallItem, Diff, Pair
from stator.model.views.why import why_of
from stator.runtime.base.one_answer import ahead, is_row_read, one_answer
from stator.runtime.base.pages import commit_at, commits_at, named_commits
from stator.runtime.views import reflog
from stator.runtime.views.as_read import (
    FILES,
    JUDGES_STEPS,
    as_shown,
    derive,
    for_one_answer,
    judging,
    read_ahead,
)
from stator.runtime.views.reflog import standing_turns
from stator.runtime.views.refs import Point, locate, resolve, session_of, span
from stator.store.port import StorePort

SMALL_RANGE = 1000
"""Commits up to which a way from one position to another is read commit by commit."""
JUDGING = ("calls", "files")
"""Collections by which steps that have a check are judged, besides those that are read with every plan."""
MOST = {"files": FILES}
END = 2**62
"""A seq after all there are."""
TURNS_AHEAD = 1000
"""Turns that are read to have the first and the last of them in one call."""


def points(
    store: StorePort, session: str, start: str | None, end: str | None
) -> tuple[Point, Point]:
    """Both ends of what is to be compared."""
    if start is None:
        start = "t-1" if standing_turns(store, session, 1) else "t0..head"
    if end is not None:
        if parse_ref(end).session and not parse_ref(start).session:
            last = locate(store, session, end)  # reads this session's row, which has its head
            return locate(store, session, start), last
        return locate(store, session, start), locate(store, session, end)
    return ends(store, session, parse_range(start))


def ends(store: StorePort, session: str, parsed: Range) -> tuple[Point, Point]:
    """Where a range begins and ends; one ref alone is what its turn, or else its commit, did."""
    position = parsed.end.position
    owner = session_of(store, session, parsed.end)
    if parsed.start is None and isinstance(position, AtTurn):
        return span(store, owner, position)
    if parsed.start is not None and (both := _turns(store, owner, parsed.start, parsed.end)):
        return both
    last = resolve(store, owner, position)
    if parsed.start is not None:
        return locate(store, session, parsed.start.text or "head"), last
    before = last.seq - 1
    return (Point(last.session, before, f"@{before}") if last.seq else last), last


def seqs_of(store: StorePort, session: str, span: str | None) -> tuple[int, int | None]:
    """The seqs that a turn or a range is after and up to; without one, of the whole log: the end is None."""
    if span is None:
        return 0, None
    first, last = ends(store, session, parse_range(span))
    if first.session != last.session:
        raise BadPosition(
            f"{span!r:.60} begins in one session and ends in another",
            hint="stator diff compares two sessions",
        )
    if first.seq > last.seq:
        begin, _, end = span.partition("..")
        raise BadPosition(f"{span!r:.60} ends before it begins", hint=f"{end}..{begin}")
    return first.seq, last.seq


def between(store: StorePort, a: Point, b: Point) -> Diff:
    """What differs between the states at two positions, and what the commits between them say of it."""
    store = for_one_answer(store)
    trunk = common(store, a, b)
    step = _Steps(store, a, b, trunk)
    pairs = _as_read(store, a, b, step.ends())
    return diffs.compare(
        pairs,
        step.touches,
        step.whys(pairs),
        start=_shown(a, b),
        end=_shown(b, a),
        calls=calls_in(store, b.session, trunk, b.seq) if step.has_calls else [],
        in_force=step.in_force(),
    )


def _as_read(store: StorePort, a: Point, b: Point, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with the steps of the plan as they are read at both ends; and those that were not touched and are
    read differently: a step reads done, or no longer, without a change of its record."""
    steps = store.entries(b.session, "plan", at=b.seq)
    touched = [entry for pair in pairs for entry in pair if entry is not None]
    if not any(getattr(entry.record, "check", "") for entry in (*steps, *touched)):
        # Without a check, how a step reads depends on its record alone.
        return [(step_read(store, left, a), step_read(store, right, b)) for left, right in pairs]
    _derive(store, a, b, pairs)
    sides = [
        {entry.id: entry for entry in store.entries(point.session, "plan", at=point.seq)}
        for point in (a, b)
    ]
    if not any(isinstance(entry.record, ReadStep) for side in sides for entry in side.values()):
        return list(pairs)
    found: list[Pair] = []
    for left, right in pairs:
        entry = left or right
        if entry is None or entry.collection != "plan":
            found.append((left, right))
            continue
        old, new = (side.pop(entry.id, None) for side in sides)
        found.append((left and (old or left), right and (new or right)))
    left_over, there = sides
    return found + [
        (old, there[step])
        for step, old in left_over.items()
        if step in there and old.record != there[step].record
    ]


def _derive(store: StorePort, a: Point, b: Point, pairs: Sequence[Pair]) -> None:
    """Have the store know the state at one position, as far as steps are judged by it, from the state at the other and
    the records that differ: it need not be read."""
    for name in ("plan", *JUDGES_STEPS, *JUDGING):
        touched = [pair for pair in pairs if any(one and one.collection == name for one in pair)]
        gone = {entry.id for pair in touched for entry in pair if entry is not None}
        put_back = [old for old, _ in touched if old is not None]
        derive(store, name, (a.session, a.seq), (b.session, b.seq), gone, put_back)


def _names_check(op: Op) -> bool:
    """Whether an op shows that steps of the plan have checks."""
    return isinstance(op, Put) and (
        op.collection == "checks" or bool(getattr(op.record, "check", ""))
    )


def step_read(store: StorePort, entry: Entry | None, point: Point) -> Entry | None:
    """An entry; a step of the plan as it is read at a position."""
    if entry is None or entry.collection != "plan":
        return entry
    return as_shown(store, point.session, [entry], point.seq)[0]


def touched(
    store: StorePort, session: str, a: int, b: int, collections: Sequence[str]
) -> list[Pair]:
    """The records of some collections that may differ between two positions of one session, as they are at both."""
    points = (Point(session, a, ""), Point(session, b, ""))
    return _Steps(one_answer(store), *points, min(a, b), collections).ends()


def common(store: StorePort, a: Point, b: Point) -> int:
    """The last seq both points share, 0 if they share nothing."""
    if a.session == b.session:
        return min(a.seq, b.seq)
    left, right = _paths(store, a.session, b.session)
    shared = 0
    for (session, upto), (other, other_upto) in zip(left, right, strict=False):
        if session != other:
            break
        shared = min(upto, other_upto)
    return min(shared, a.seq, b.seq)


class _Steps:
    """What two positions touched since their last common commit.

    Only that is read, never a whole state: a diff must not cost more the longer the session is. Where both ways
    are short, every commit on them is read once. Where one is long, its records are found by the index of
    versions, and what commits keep up to date by themselves is compared at the two ends.
    """

    def __init__(
        self,
        store: StorePort,
        a: Point,
        b: Point,
        trunk: int,
        collections: Sequence[str] = tuple(COLLECTIONS),
    ) -> None:
        self._store, self._points = store, (a, b)
        self._collections = collections
        self._commits: dict[str, list[Commit]] = {}
        """What was read of each way, where both are short."""
        self._known: dict[tuple[str, str, int], Version] = {}
        self._is_short = max(a.seq, b.seq) - trunk <= SMALL_RANGE
        left, right = self._short(trunk) if self._is_short else self._long(trunk)
        self.touches = diffs.Touches(left, right)

    def _short(self, trunk: int) -> list[list[Version]]:
        """The versions on both ways, from their commits."""
        for point in self._points:
            known = self._commits.setdefault(point.session, [])
            if point.seq > trunk:
                known += self._store.commits(
                    point.session, after=trunk, upto=point.seq, limit=SMALL_RANGE, load=False
                )
        ways = [[c for c in self._commits[p.session] if c.seq <= p.seq] for p in self._points]
        deltas = [[op for commit in way for op in commit.delta] for way in ways]
        first = [op for ops in deltas for op in first_ops(ops) if 0 < op.was <= trunk]
        b = self._points[1]
        self._read_plan(b, itertools.chain(*deltas))
        # Up to where they part, both ways have the same log.
        self._read(b.session, {op.was for op in first}, self._judging(b))
        self._know(replaced_by(self._store, b.session, op) for op in first)
        versions = [diffs.versions_of(way, self._known) for way in ways]
        return [[v for v in way if v.op.collection in self._collections] for way in versions]

    def _read_plan(self, b: Point, ops: Iterable[Op]) -> None:
        """Read the plan at the end, with what steps are judged by where ops show that they have checks."""
        if "plan" in self._collections:
            named = any(map(_names_check, ops))
            more, limit = (JUDGING, MOST) if named else ((), None)
            read_ahead(self._store, b.session, "plan", *more, at=b.seq, limit=limit)

    def _long(self, trunk: int) -> list[list[Version]]:
        """The same from the index of versions. What they replaced, and why they came, is in commits that are read
        together."""
        names = tuple(name for name in self._collections if name not in BOOKKEEPING)
        on_way = [point for point in self._points if point.seq > trunk]
        versions = [
            read("versions", point.session, after=trunk, upto=point.seq, collections=names)
            for point in on_way
        ]
        ahead(self._store, *versions, *self._asks_kept())
        ways = [
            self._store.versions(point.session, after=trunk, upto=point.seq, collections=names)
            if point in on_way
            else []
            for point in self._points
        ]
        ops = [first_ops(version.op for version in way) for way in ways]
        first = [op for found in ops for op in found if 0 < op.was <= trunk]
        last = {(v.op.collection, v.op.id): v.seq for v in ways[1]}
        session = self._points[1].session
        after_tags = {
            v.seq + 1 for v in ways[1] if v.op.collection == "tags"
        }  # rewinds, some of them
        seqs = {*last.values(), *(op.was for op in first), *after_tags}
        seqs |= {entry.seq for entry in self._kept()[1]}
        self._read(session, seqs, *map(self._judging, self._points))
        self._know(replaced_by(self._store, session, op) for op in first)
        return ways

    def _judging(self, point: Point) -> tuple[set[int], set[str]]:
        is_asked = "plan" in self._collections and point.session == self._points[1].session
        return judging(self._store, point.session, point.seq) if is_asked else (set(), set())

    def _read(self, session: str, seqs: set[int], *judged: tuple[set[int], set[str]]) -> None:
        """Read commits together: at some seqs, and those by which steps of the plan are judged."""
        for more, _ in judged:
            seqs = seqs | more
        ids = set().union(*(ids for _, ids in judged))
        # What calls were asked to do is read, and may be large.
        named_commits(self._store, session, seqs, ids=ids, load=bool(ids))

    def _know(self, versions: Iterable[Version | None]) -> None:
        for version in versions:
            if version is not None:
                self._known[version.op.collection, version.op.id, version.seq] = version

    def ends(self) -> list[Pair]:
        """The records that were touched, as they are at both ends."""
        found = diffs.ends_of(self.touches, self._known)
        if self._is_short:
            return found
        return found + diffs.paired(*self._kept())

    @property
    def _bookkeeping(self) -> list[str]:
        return [name for name in self._collections if name in BOOKKEEPING]

    def _asks_kept(self) -> list[Read]:
        """What commits keep up to date by themselves, and what steps of the plan are judged by, at both ends."""
        kept = self._bookkeeping
        names = dict.fromkeys((*kept, "plan", *JUDGES_STEPS, *JUDGING)) if kept else {}
        return [
            read("entries", point.session, *names, at=point.seq, limit=MOST)
            for point in self._points
            if kept
        ]

    def _kept(self) -> list[list[Entry]]:
        """What commits keep up to date by themselves, at both ends."""
        kept = self._bookkeeping
        if not kept:
            return [[], []]
        return [self._store.entries(point.session, *kept, at=point.seq) for point in self._points]

    @property
    def has_calls(self) -> bool:
        """Whether calls may have begun on the way to the end."""
        known = self._commits.get(self._points[1].session)
        return known is None or any(commit.kind == "call" for commit in known)

    def in_force(self) -> diffs.Touches:
        """The touches without those that were rewound on the way."""
        touches = self.touches
        left, right = (
            self._in_force(point, versions)
            for point, versions in zip(self._points, (touches.left, touches.right), strict=True)
        )
        return diffs.Touches(left, right)

    def _in_force(self, point: Point, versions: Sequence[Version]) -> Sequence[Version]:
        """Of the versions on the way to a position, those that count there, and what rewinds put back."""
        # Each rewind leaves a tag: without one, none of these versions was rewound.
        if not any(version.op.collection == "tags" for version in versions):
            return versions
        if (known := self._commits.get(point.session)) is not None:
            # An earlier rewind says nothing of what came after it.
            rewinds = [found for one in known if (found := rewind_of(one)) is not None]
        else:
            rewinds = reflog.rewinds(self._store, point.session, point.seq)
        stretches = visible(rewinds, point.seq)
        back = {after for after, _ in stretches}
        return [v for v in versions if stands(stretches, v.seq) or v.seq in back]

    def whys(self, pairs: Sequence[Pair]) -> diffs.Why:
        """Why a commit of the end's log was made: those that last touched a record are read together."""
        store, session = self._store, self._points[1].session
        last = {(v.op.collection, v.op.id): v.seq for v in self.touches.right}
        seqs = {*last.values(), *(b.seq for _, b in pairs if b is not None)}
        commits_at(store, session, seqs, load=False)

        def why(seq: int) -> str:
            commit = commit_at(store, session, seq, load=False)
            if isinstance(commit.content.get("why"), Large):
                commit = commit_at(store, session, seq)
            return why_of(commit)

        return why


def replaced_by(store: StorePort, session: str, op: Op) -> Version | None:
    """The version that an op replaced, from its commit."""
    commit = commit_at(store, session, op.was, load=False)
    puts = [
        (n, put)
        for n, put in enumerate(commit.delta)
        if isinstance(put, Put) and (put.collection, put.id) == (op.collection, op.id)
    ]
    if not puts:
        return None
    n, put = puts[-1]
    key = key_of(COLLECTIONS[put.collection], put.record, put.id)
    return Version(commit.seq, n, commit.turn, key, put)


def _turns(store: StorePort, session: str, start: Ref, end: Ref) -> tuple[Point, Point] | None:
    """Both ends of a range from one turn to a later one, of which the turns are read in one call."""
    first, last = start.position, end.position
    if start.session or not isinstance(first, AtTurn) or not isinstance(last, AtTurn):
        return None
    if first.retry or last.retry or not first.turn < last.turn < first.turn + TURNS_AHEAD:
        return None
    if last.turn < 0:
        newest = standing_turns(store, session, -first.turn)
        rows = newest[-last.turn - 1 :][::-1]
        found = len(newest) == -first.turn
    else:
        after = first.turn - 1
        rows = store.turns(session, after=after, upto=last.turn, limit=TURNS_AHEAD, ends=True)
        found = bool(rows) and (rows[0].turn, rows[-1].turn) == (first.turn, last.turn)
    if not found or first.turn * last.turn <= 0:
        return None
    a, b = (Point(session, row.end, f"t{row.turn}") for row in (rows[0], rows[-1]))
    return a, b


def calls_in(store: StorePort, session: str, after: int, upto: int) -> list[CallItem]:
    found: list[CallItem] = []
    query = CallQuery(session=session, after=after)
    cursor: tuple[int, ...] | None = (upto + 1,)
    while cursor is not None:
        page = store.calls(query, cursor=cursor, limit=PAGE_MAX)
        found += map(call_item, page.rows)
        cursor = page.cursor
    return found[::-1]


def _paths(store: StorePort, one: str, other: str) -> list[list[tuple[str, int]]]:
    """The paths of two sessions; that of one which the other continues is known from the other's."""
    known = one if is_row_read(store, one) and not is_row_read(store, other) else other
    path = _path(store.session(known).record)
    rest = other if known == one else one
    places = [place for place, (session, _) in enumerate(path[:-1]) if session == rest]
    found = [*path[: places[0]], (rest, END)] if places else _path(store.session(rest).record)
    return [path, found] if known == one else [found, path]


def _path(record: SessionRecord) -> list[tuple[str, int]]:
    """The sessions a log runs through, with the seq up to which each lends its part."""
    return [(part.session, part.upto) for part in record.lineage] + [(record.id, END)]


def _shown(point: Point, other: Point) -> str:
    return point.shown if point.session == other.session else f"{point.session}:{point.shown}"


def call_item(row: CallRow) -> CallItem:
    """A row of the index of calls as a diff names it."""
    return CallItem(
        call=row.call,
        tool=row.tool,
        status=row.status,
        seq=row.seq,
        turn=row.turn,
        cause=row.cause,
        effect=row.effect,
        session=row.session,
    )
