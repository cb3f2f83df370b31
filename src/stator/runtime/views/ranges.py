"""Compares two positions: which commits are between them, and what those changed altogether."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Op, Version
from stator.model.log.query import CallQuery, CallRow
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS
from stator.model.records.types import Entry, SessionRecord
from stator.model.values.position import AtTurn, Range, parse_range
from stator.model.views import diff as diffs
from stator.model.views.diff import CallItem, Diff
from stator.runtime.base.pages import commit_at
from stator.runtime.views.refs import Point, locate, resolve, session_of, span
from stator.runtime.views.why import why_of
from stator.store.port import StorePort

SMALL_RANGE = 256
"""Commits a range may have for every step in it to be looked at."""


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
    """A range of one log where possible; else both states since their last common commit."""
    trunk = common(store, a, b)
    if trunk == a.seq:
        return _range(store, b.session, a, b)
    return _states(store, a, b, trunk)


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


def _range(store: StorePort, session: str, a: Point, b: Point) -> Diff:
    """Every step of a short range, from its commits, each read once.

    A long range is not read commit by commit: a diff must not cost more the longer the session is.
    """
    if b.seq - a.seq > SMALL_RANGE:
        return _long_range(store, session, a, b)
    found: list[Commit] = []
    if b.seq > a.seq:
        found = store.commits(session, after=a.seq, upto=b.seq, limit=SMALL_RANGE, load=False)
    known = _replaced(
        store, session, [op for commit in found for op in commit.delta if 0 < op.was <= a.seq]
    )
    versions = list(diffs.versions_of(found, known))
    known |= {(v.op.collection, v.op.id, v.seq): v for v in versions}
    # Of calls, only how they stood before and after; what they were is in `calls`.
    steps = [version for version in versions if version.op.collection != "calls"]
    touched = [version for version in versions if version.op.collection == "calls"]
    return diffs.fold_range(
        steps,
        diffs.before_of(known),
        _whys(store, session, found),
        start=a.shown,
        end=b.shown,
        ends=diffs.ends_of(touched, known),
        calls=calls_in(store, session, a.seq, b.seq),
    )


def _long_range(store: StorePort, session: str, a: Point, b: Point) -> Diff:
    """What commits keep up to date by themselves is compared at its two ends."""
    steps = [name for name in COLLECTIONS if name not in BOOKKEEPING]
    versions = store.versions(session, after=a.seq, upto=b.seq, collections=steps)
    first = {(v.op.collection, v.key): v.op for v in reversed(versions)}
    return diffs.fold_range(
        versions,
        diffs.before_of(_replaced(store, session, list(first.values()))),
        _whys(store, session),
        start=a.shown,
        end=b.shown,
        ends=(
            _kept(store, session, BOOKKEEPING, a.seq),
            _kept(store, session, BOOKKEEPING, b.seq),
        ),
        calls=calls_in(store, session, a.seq, b.seq),
    )


def _replaced(
    store: StorePort, session: str, ops: Sequence[Op]
) -> dict[tuple[str, str, int], Version]:
    """What some ops replaced, as a diff looks it up."""
    found = store.replaced(session, ops) if ops else []
    return {
        (version.op.collection, version.op.id, version.seq): version
        for version in found
        if version is not None
    }


def _kept(store: StorePort, session: str, names: Iterable[str], at: int) -> list[Entry]:
    return [entry for name in sorted(names) for entry in store.entries(session, name, at=at)]


def _states(store: StorePort, a: Point, b: Point, trunk: int) -> Diff:
    """Both sides' records of every key that either touched since the trunk."""
    steps = [name for name in COLLECTIONS if name not in BOOKKEEPING]
    mine, theirs = (
        store.versions(point.session, after=trunk, upto=point.seq, collections=steps)
        for point in (a, b)
    )
    keys = sorted({(version.op.collection, version.key) for version in (*mine, *theirs)})
    left, right = (
        [
            entry
            for collection, key in keys
            if (entry := store.find(point.session, collection, key, at=point.seq))
        ]
        + _kept(store, point.session, BOOKKEEPING, point.seq)
        for point in (a, b)
    )
    why = _whys(store, b.session)
    return diffs.between(
        left,
        right,
        lambda seq: why(seq) if seq <= b.seq else "",
        files=diffs.file_ends(mine, theirs),
        start=_shown(a, b),
        end=_shown(b, a),
        calls=calls_in(store, b.session, trunk, b.seq),
    )


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


def _whys(store: StorePort, session: str, known: Iterable[Commit] = ()) -> diffs.Why:
    """Why the commit at a seq was made; those that are `known` need not be read again."""
    by_seq = {commit.seq: commit for commit in known}

    def why(seq: int) -> str:
        commit = by_seq.get(seq)
        if commit is None or isinstance(commit.content.get("why"), Large):
            commit = commit_at(store, session, seq)
        return why_of(commit)

    return why


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
