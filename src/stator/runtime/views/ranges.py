"""Compares two positions: which commits are between them, and what those changed altogether."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Op, Version
from stator.model.log.query import CallQuery, CallRow
from stator.model.log.rewinds import stands, visible
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS
from stator.model.records.types import Entry, ReadStep, SessionRecord
from stator.model.values.position import AtTurn, Range, parse_range
from stator.model.views import diff as diffs
from stator.model.views.diff import CallItem, Diff, Pair
from stator.model.views.why import why_of
from stator.runtime.base.pages import commit_at
from stator.runtime.views import reflog
from stator.runtime.views.refs import Point, locate, resolve, session_of, span
from stator.store.port import StorePort

SMALL_RANGE = 256
"""Commits up to which a way from one position to another is read commit by commit."""


def points(
    store: StorePort, session: str, start: str | None, end: str | None
) -> tuple[Point, Point]:
    """Both ends of what is to be compared."""
    if start is None:
        start = "t-1" if store.turns(session, newest_first=True, limit=1) else "t0..head"
    if end is not None:
        return locate(store, session, start), locate(store, session, end)
    return ends(store, session, parse_range(start))


def ends(store: StorePort, session: str, parsed: Range) -> tuple[Point, Point]:
    """Where a range begins and ends; one ref alone is what its turn, or else its commit, did."""
    position = parsed.end.position
    owner = session_of(store, session, parsed.end)
    if parsed.start is None and isinstance(position, AtTurn):
        return span(store, owner, position)
    last = resolve(store, owner, position)
    if parsed.start is not None:
        return locate(store, session, parsed.start.text or "head"), last
    before = last.seq - 1
    return (Point(last.session, before, f"@{before}") if last.seq else last), last


def between(store: StorePort, a: Point, b: Point) -> Diff:
    """What differs between the states at two positions, and what the commits between them say of it."""
    trunk = common(store, a, b)
    step = _Steps(store, a, b, trunk)
    return diffs.compare(
        _as_read(store, a, b, step.ends()),
        step.touches,
        step.whys(),
        start=_shown(a, b),
        end=_shown(b, a),
        calls=calls_in(store, b.session, trunk, b.seq),
        in_force=step.in_force(),
    )


def _as_read(store: StorePort, a: Point, b: Point, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with the steps of the plan as they are read at both ends; and those that were not touched and are
    read differently: a step reads done, or no longer, without a change of its record."""
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


def touched(
    store: StorePort, session: str, a: int, b: int, collections: Sequence[str]
) -> list[Pair]:
    """The records of some collections that may differ between two positions of one session, as they are at both."""
    points = (Point(session, a, ""), Point(session, b, ""))
    return _Steps(store, *points, min(a, b), collections).ends()


def common(store: StorePort, a: Point, b: Point) -> int:
    """The last seq both points share, 0 if they share nothing."""
    if a.session == b.session:
        return min(a.seq, b.seq)
    left, right = (_path(store.session(point.session).record) for point in (a, b))
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
        self._commits: list[Commit] = []
        self._known: dict[tuple[str, str, int], Version] = {}
        self._is_short = max(a.seq, b.seq) - trunk <= SMALL_RANGE
        left, right = (self._versions(point, trunk) for point in (a, b))
        self.touches = diffs.Touches(left, right)

    def _versions(self, point: Point, trunk: int) -> list[Version]:
        if point.seq <= trunk:
            return []
        store, session = self._store, point.session
        if not self._is_short:
            names = [name for name in self._collections if name not in BOOKKEEPING]
            found = store.versions(session, after=trunk, upto=point.seq, collections=names)
            self._learn(session, (version.op for version in found), trunk)
            return found
        commits = store.commits(session, after=trunk, upto=point.seq, limit=SMALL_RANGE, load=False)
        if point is self._points[1]:
            self._commits = commits
        self._learn(session, (op for commit in commits for op in commit.delta), trunk)
        versions = list(diffs.versions_of(commits, self._known))
        if len(self._collections) == len(COLLECTIONS):
            return versions
        return [version for version in versions if version.op.collection in self._collections]

    def _learn(self, session: str, ops: Iterable[Op], trunk: int) -> None:
        """Look up what the first op of each record replaced."""
        first = [op for op in diffs.first_ops(ops) if 0 < op.was <= trunk]
        for version in self._store.replaced(session, first) if first else ():
            if version is not None:
                self._known[version.op.collection, version.op.id, version.seq] = version

    def ends(self) -> list[Pair]:
        """The records that were touched, as they are at both ends."""
        found = diffs.ends_of(self.touches, self._known)
        if self._is_short:
            return found
        kept = [name for name in self._collections if name in BOOKKEEPING]
        a, b = (_kept(self._store, point.session, kept, point.seq) for point in self._points)
        return found + diffs.paired(a, b)

    def in_force(self) -> diffs.Touches:
        """The touches without those that were rewound on the way."""
        a, b = self._points
        left = _in_force(self._store, a, self.touches.left)
        return diffs.Touches(left, _in_force(self._store, b, self.touches.right))

    def whys(self) -> diffs.Why:
        """Why a commit of the end's log was made; those that were read need not be read again."""
        by_seq = {commit.seq: commit for commit in self._commits}
        store, session = self._store, self._points[1].session

        def why(seq: int) -> str:
            commit = by_seq.get(seq)
            if commit is None or isinstance(commit.content.get("why"), Large):
                commit = commit_at(store, session, seq)
            return why_of(commit)

        return why


def _in_force(store: StorePort, point: Point, versions: Sequence[Version]) -> Sequence[Version]:
    """Of the versions on the way to a position, those that count there, and what rewinds put back."""
    # Each rewind leaves a tag: without one, none of these versions was rewound.
    if not any(version.op.collection == "tags" for version in versions):
        return versions
    stretches = visible(reflog.rewinds(store, point.session), point.seq)
    back = {after for after, _ in stretches}
    return [v for v in versions if stands(stretches, v.seq) or v.seq in back]


def _kept(store: StorePort, session: str, names: Iterable[str], at: int) -> list[Entry]:
    return [entry for name in names for entry in store.entries(session, name, at=at)]


def calls_in(store: StorePort, session: str, after: int, upto: int) -> list[CallItem]:
    found: list[CallItem] = []
    query = CallQuery(session=session, after=after)
    cursor: tuple[int, ...] | None = (upto + 1,)
    while cursor is not None:
        page = store.calls(query, cursor=cursor, limit=500)
        found += map(_call_item, page.rows)
        cursor = page.cursor
    return found[::-1]


def _path(record: SessionRecord) -> list[tuple[str, int]]:
    """The sessions a log runs through, with the seq up to which each lends its part."""
    return [(part.session, part.upto) for part in record.lineage] + [(record.id, 2**62)]


def _shown(point: Point, other: Point) -> str:
    return point.shown if point.session == other.session else f"{point.session}:{point.shown}"


def _call_item(row: CallRow) -> CallItem:
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
