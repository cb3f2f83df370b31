"""Reading a session: log, state, diff and the questions people ask, without a lease and without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Op, Put, Version
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Counts,
    Head,
    Page,
    SessionRow,
    TurnRow,
)
from stator.model.records import app_state as app
from stator.model.records.registry import BOOKKEEPING, COLLECTIONS, HOT
from stator.model.records.types import (
    DecisionRecord,
    Entry,
    FactRecord,
    FileRecord,
    SessionRecord,
    State,
    file_key,
)
from stator.model.values import canon
from stator.model.values.position import (
    AtTurn,
    Range,
    Ref,
    parse_range,
    parse_ref,
)
from stator.model.views import diff as diffs
from stator.model.views.diff import CallItem, Diff
from stator.runtime.base.arguments import text
from stator.runtime.base.context import nap
from stator.runtime.base.paging import commit_at
from stator.runtime.views.reflog import (
    Reflog,
    left_turns,
    reflog,
    rewinds,
)
from stator.runtime.views.refs import Point, find_session, resolve
from stator.runtime.views.refs import span as turn_span
from stator.runtime.views.tail import Tailing, tail
from stator.runtime.views.why import Reason, explain, why_of
from stator.store.port import Store

if TYPE_CHECKING:  # loaded when somebody asks for them
    from stator.model.views.brief import Brief, Target
    from stator.model.views.compare import Comparison
    from stator.model.views.patch import FilePatch
    from stator.model.views.tree import Tree
    from stator.model.window.transcript import CountTokens
    from stator.runtime.files.contents import Content
    from stator.runtime.views.artifacts import Artifact
    from stator.runtime.window.recall import Evicted, Recalled

PAGE = 1000
SMALL_RANGE = 256
"""Commits a range may have for every step in it to be looked at."""
WAITS = "awaiting approval"
FAILED = ("error", "timeout", "cancelled", "denied", "in doubt")


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file touched in a range: its net op, and the turn and commit that last touched it."""

    path: str
    op: str
    turn: int
    seq: int
    root: str = "."
    edits: int = 1
    how: str = "recorded"
    session: str = ""


class DecisionLine(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, whether it stands, and what superseded it."""

    id: str
    record: DecisionRecord
    seq: int
    turn: int
    stands: bool
    by: str = ""
    """Id of the decision that superseded it."""
    session: str = ""


class SessionView:
    """A session as anyone may look at it."""

    _run = ""
    """The run of whoever drives it through this; a view has none."""
    _began = 0

    def __init__(
        self,
        store: Store,
        session: str,
        *,
        app_type: Any = None,
        app_version: int = 1,
        upcasts: Mapping[int, app.Upcast] | None = None,
        sleep: Callable[[float], None] = nap,
        root: str = "",
    ) -> None:
        self._store = store
        self._id = session
        self._app_type = app_type
        self._app_version = app_version
        self._upcasts = upcasts or {}
        self._sleep = sleep
        self._root = root
        """The folder the session's files are in; empty where that is not here."""

    def __enter__(self) -> Self:
        """What `open(…, busy="read")` gives is used like any session; leaving it does nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        return None

    @property
    def id(self) -> str:
        return self._id

    @property
    def row(self) -> SessionRow:
        """The session as listings show it, now."""
        return self._store.session(self._id)

    @property
    def record(self) -> SessionRecord:
        return self.row.record

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def status(self) -> str:
        return self.row.shown

    @property
    def head(self) -> Head:
        return self._store.head(self._id)

    @property
    def counts(self) -> Counts:
        return self._store.counts(self._id)

    @property
    def app(self) -> Any:
        """The user's own state, as the type the session was opened with."""
        entries = self._store.entries(self._id, "app")
        fields = app.fields_of(entries, self._app_version, self._upcasts)
        return app.load(self._app_type, fields)

    # -- the log ----------------------------------------------------------------------------------

    def log(
        self,
        span: str | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        load: bool = True,
    ) -> Iterator[Commit]:
        """Commits of the whole session or of a range such as `t4..t5`, one page read at a time."""
        after, upto = self._bounds(span)
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = self._store.commits(
                self._id, after=after, upto=upto, newest_first=newest_first, limit=size, load=load
            )
            yield from page
            if len(page) < size:
                return
            left = None if left is None else left - len(page)
            if newest_first:
                upto = page[-1].seq - 1
            else:
                after = page[-1].seq

    def _bounds(self, span: str | None) -> tuple[int, int | None]:
        if span is None:
            return 0, None
        first, last = self._ends(parse_range(span))
        return first.seq, last.seq

    def tail(
        self,
        after: int | None = None,
        *,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> Iterator[Commit]:
        """Every commit after a cursor, in order, exactly once, as it comes; without one, from now on.

        The cursor is the seq of the last commit you have seen, 0 for none. It does not end by
        itself, not when the session is closed either: leave the loop, or say `until` when.
        """
        tailing = self._tailing(after, follow=follow, until=until, load=load)
        return tail(tailing, self._sleep)

    def _tailing(self, after: int | None, **options: Any) -> Tailing:
        return Tailing(self._store, self._id, after, **options)

    def commit(self, ref: str) -> Commit:
        """The commit at a position."""
        point = self.at(ref)
        found = self._store.commits(point.session, after=point.seq - 1, upto=point.seq, limit=1)
        return found[0]

    def turns(self, *, last: int | None = None) -> list[TurnRow]:
        """Turns in order: all of them, or the last so many."""
        if last is not None:
            return self._store.turns(self._id, newest_first=True, limit=last)[::-1]
        found: list[TurnRow] = []
        while page := self._store.turns(self._id, after=found[-1].turn if found else 0):
            found += page
        return found

    def beginning(self, turn: int) -> Commit | None:
        """The commit that began a turn, with what was asked; None if there is no such turn."""
        rows = self._store.turns(self._id, after=turn - 1, upto=turn) if turn > 0 else []
        if not rows:
            return None
        first = rows[0].first
        found = self._store.commits(self._id, after=first - 1, upto=first, limit=1)
        return found[0] if found else None

    def at(self, ref: str) -> Point:
        """Where a ref points; one without a session points into this one."""
        parsed = parse_ref(ref)
        return resolve(self._store, self._session_of(parsed), parsed.position)

    def _session_of(self, ref: Ref) -> str:
        if not ref.session:
            return self._id
        return find_session(self._store, ref.session, project=self.record.project).id

    # -- state ------------------------------------------------------------------------------------

    def state(self, at: str = "head", *, collections: Sequence[str] = ()) -> State:
        """The state at a position, whole or some collections of it."""
        point = self.at(at)
        return {
            name: {entry.id: entry.record for entry in self._entries(point, name)}
            for name in collections or COLLECTIONS
        }

    def hot(self, at: str = "head") -> dict[str, list[Entry]]:
        """What an agent needs first: small collections whole, the newest decisions and files."""
        point = self.at(at)
        return {
            name: self._store.entries(point.session, name, at=point.seq, limit=hot.newest)
            for name, hot in HOT.items()
        }

    def entries(
        self, collection: str, at: str = "head", *, limit: int | None = None
    ) -> list[Entry]:
        """Live records of a collection, last touched first."""
        return self._entries(self.at(at), collection, limit)

    def _entries(self, point: Point, collection: str, limit: int | None = None) -> list[Entry]:
        return self._store.entries(point.session, collection, at=point.seq, limit=limit)

    def facts(self) -> dict[str, Any]:
        """Facts by name."""
        records = [entry.record for entry in self._store.entries(self._id, "facts")]
        return {
            record.name: canon.from_plain(record.value)
            for record in records
            if isinstance(record, FactRecord)
        }

    def compare(self, a: str, b: str) -> Comparison:
        """Two tries at one turn (`t5` and `t5.2`), aligned: answers, decisions, calls, files, and why."""
        from stator.runtime.views.compare import compare

        return compare(self, a, b)

    def tree(self, *, limit: int = 1000) -> Tree:
        """The sessions this one hangs together with: forks, retries and children, above and below."""
        from stator.runtime.views.tree import tree_of

        return tree_of(self._store, self._id, limit=limit)

    def reflog(self) -> list[Reflog]:
        """The rewinds of this session, newest first; each left a tag on the head it went back from."""
        return reflog(self._store, self._id)

    def rewound(self) -> set[int]:
        """Turns that were gone back behind: in the log, and not part of what stands."""
        return left_turns(self._store, self._id)

    # -- diff -------------------------------------------------------------------------------------

    def diff(self, start: str | None = None, end: str | None = None) -> Diff:
        """The net change: of the last turn, of one turn (`diff("t5")`), of a range (`"t4..t5"`) or between two refs."""
        return self._between(*self._points(start, end))

    def patch(self, start: str | None = None, end: str | None = None) -> list[FilePatch]:
        """The net change of each file this session wrote there, as a unified diff where its contents
        were kept; ranges as in `diff`."""
        from stator.runtime.files import contents as patching

        a, b = self._points(start, end)
        trunk = self._common(a, b)
        mine, theirs = (self._wrote(point, trunk) for point in (a, b))
        if trunk == a.seq:
            return patching.range_patches(self._store, b.session, theirs)
        return patching.fork_patches(self._store, a, b, mine, theirs)

    def contents(self, path: str, at: str = "head", *, root: str = ".") -> Content | None:
        """What a file held at a position, exactly, where that was kept; None if it did not exist."""
        from stator.runtime.files import contents as patching

        return patching.content(self._store, self.at(at), path, root)

    def _wrote(self, point: Point, after: int) -> list[Version]:
        return self._store.versions(
            point.session, after=after, upto=point.seq, collections=("files",)
        )

    def _points(self, start: str | None, end: str | None) -> tuple[Point, Point]:
        """Both ends of what is to be compared."""
        if start is None:
            start = "t-1" if self._store.turns(self._id, newest_first=True, limit=1) else "t0..head"
        if end is not None:
            return self.at(start), self.at(end)
        return self._ends(parse_range(start))

    def _ends(self, parsed: Range) -> tuple[Point, Point]:
        """Where a range begins and ends; one ref alone is what its turn, or else its commit, did."""
        position = parsed.end.position
        session = self._session_of(parsed.end)
        if parsed.start is None and isinstance(position, AtTurn):
            return turn_span(self._store, session, position)
        last = resolve(self._store, session, position)
        if parsed.start is not None:
            return self.at(parsed.start.text or "head"), last
        before = last.seq - 1
        return (Point(last.session, before, f"@{before}") if last.seq else last), last

    def _between(self, a: Point, b: Point) -> Diff:
        """A range of one log where there is one; else the two states since their last common commit."""
        trunk = self._common(a, b)
        if trunk == a.seq:
            return self._range(b.session, a, b)
        return self._states(a, b, trunk)

    def _common(self, a: Point, b: Point) -> int:
        """The last seq both points share, 0 if they share nothing."""
        if a.session == b.session:
            return min(a.seq, b.seq)
        left, right = (_path(self._store.session(point.session).record) for point in (a, b))
        shared = 0
        for (session, upto), (other, other_upto) in zip(left, right, strict=False):
            if session != other:
                break
            shared = min(upto, other_upto)
        return min(shared, a.seq, b.seq)

    def _range(self, session: str, a: Point, b: Point) -> Diff:
        """Every step of a short range, from its commits, each read once."""
        if b.seq - a.seq > SMALL_RANGE:
            return self._long_range(session, a, b)
        found: list[Commit] = []
        if b.seq > a.seq:
            found = self._store.commits(
                session, after=a.seq, upto=b.seq, limit=SMALL_RANGE, load=False
            )
        known = self._replaced(
            session, [op for commit in found for op in commit.delta if 0 < op.was <= a.seq]
        )
        versions = list(diffs.versions_of(found, known))
        known |= {(v.op.collection, v.op.id, v.seq): v for v in versions}
        # Of calls, only how they stood before and after; what they were is in `calls`.
        steps = [version for version in versions if version.op.collection != "calls"]
        touched = [version for version in versions if version.op.collection == "calls"]
        return diffs.fold_range(
            steps,
            diffs.before_of(known),
            _whys(self._store, session, found),
            start=a.shown,
            end=b.shown,
            ends=diffs.ends_of(touched, known),
            calls=self._calls_in(session, a.seq, b.seq),
        )

    def _long_range(self, session: str, a: Point, b: Point) -> Diff:
        """What commits keep up to date by themselves is compared at its two ends."""
        steps = [name for name in COLLECTIONS if name not in BOOKKEEPING]
        versions = self._store.versions(session, after=a.seq, upto=b.seq, collections=steps)
        first = {(v.op.collection, v.key): v.op for v in reversed(versions)}
        return diffs.fold_range(
            versions,
            diffs.before_of(self._replaced(session, list(first.values()))),
            _whys(self._store, session),
            start=a.shown,
            end=b.shown,
            ends=(
                self._kept(session, BOOKKEEPING, a.seq),
                self._kept(session, BOOKKEEPING, b.seq),
            ),
            calls=self._calls_in(session, a.seq, b.seq),
        )

    def _replaced(self, session: str, ops: Sequence[Op]) -> dict[tuple[str, str, int], Version]:
        """What some ops replaced, as a diff looks it up."""
        found = self._store.replaced(session, ops) if ops else []
        return {
            (version.op.collection, version.op.id, version.seq): version
            for version in found
            if version is not None
        }

    def _kept(self, session: str, names: Iterable[str], at: int) -> list[Entry]:
        return [
            entry for name in sorted(names) for entry in self._store.entries(session, name, at=at)
        ]

    def _states(self, a: Point, b: Point, trunk: int) -> Diff:
        """Both sides' records of every key that either touched since the trunk."""
        steps = [name for name in COLLECTIONS if name not in BOOKKEEPING]
        mine, theirs = (
            self._store.versions(point.session, after=trunk, upto=point.seq, collections=steps)
            for point in (a, b)
        )
        keys = sorted({(version.op.collection, version.key) for version in (*mine, *theirs)})
        left, right = (
            [
                entry
                for collection, key in keys
                if (entry := self._store.find(point.session, collection, key, at=point.seq))
            ]
            + self._kept(point.session, BOOKKEEPING, point.seq)
            for point in (a, b)
        )
        why = _whys(self._store, b.session)
        return diffs.between(
            left,
            right,
            lambda seq: why(seq) if seq <= b.seq else "",
            files=diffs.file_ends(mine, theirs),
            start=_shown(a, b),
            end=_shown(b, a),
            calls=self._calls_in(b.session, trunk, b.seq),
        )

    def _calls_in(self, session: str, after: int, upto: int) -> list[CallItem]:
        found: list[CallItem] = []
        query = CallQuery(session=session, after=after)
        cursor: tuple[int, ...] | None = (upto + 1,)
        while cursor is not None:
            page = self._store.calls(query, cursor=cursor, limit=500)
            found += map(_call_item, page.rows)
            cursor = page.cursor
        return found[::-1]

    # -- what left the view -----------------------------------------------------------------------

    def evicted(self, *, all: bool = False) -> list[Evicted]:
        """What the compaction that stands took from the agent's view, what matters most first; or
        what every compaction did."""
        from stator.runtime.window import recall as recalling

        return recalling.evicted(self._store, self._id, all=all)

    def recall(self, key: str) -> Recalled:
        """The content behind a key such as `decision:auth`, `call:c_…` or `entry:@12`, with where it
        came from."""
        from stator.runtime.window import recall as recalling

        return recalling.recall(self._store, self._id, text(key, "key"))

    # -- questions --------------------------------------------------------------------------------

    def files(self, *, last: int | None = None, reads: bool = False) -> list[FileChange]:
        """Files touched in the last so many turns (default: ever), net, newest first."""
        after = 0
        if last is not None:
            rows = self._store.turns(self._id, newest_first=True, limit=last)
            after = rows[-1].first - 1 if rows else 0
        versions = self._store.versions(
            self._id, after=after, upto=self.head.seq, collections=("files",)
        )
        back = {rewind.seq for rewind in rewinds(self._store, self._id)}  # it touches no file
        versions = [version for version in versions if version.seq not in back]
        return net_files(versions, reads=reads, session=self._id)

    def decisions(self, *, standing: bool | None = None) -> list[DecisionLine]:
        """Decisions in the order they were made; those that stand, those that do not, or all."""
        lines: dict[str, DecisionLine] = {}
        versions = self._store.versions(
            self._id, after=0, upto=self.head.seq, collections=("decisions",)
        )
        for version in versions:
            op = version.op
            if isinstance(op, Put):
                record = cast("DecisionRecord", op.record)
                lines[op.id] = DecisionLine(
                    id=op.id,
                    record=record,
                    seq=version.seq,
                    turn=version.turn,
                    stands=True,
                    session=self._id,
                )
                old = lines.get(getattr(record, "supersedes", ""))
                if old is not None:
                    lines[old.id] = msgspec.structs.replace(old, stands=False, by=op.id)
            elif op.id in lines:
                lines[op.id] = msgspec.structs.replace(lines[op.id], stands=False)
        return [line for line in lines.values() if standing is None or line.stands is standing]

    def calls(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        last: int | None = None,
        limit: int = 100,
    ) -> list[CallRow]:
        """Calls, newest first; `status` may also be `failed` (did not end ok) or `open` (no outcome yet)."""
        statuses = statuses_of(status)
        after = -1
        if last is not None:
            rows = self._store.turns(self._id, newest_first=True, limit=last)
            after = rows[-1].turn - 1 if rows else -1
        query = CallQuery(session=self._id, tool=tool, statuses=statuses, after_turn=after)
        return list_calls(self._store, query, None, limit).rows

    def why(self, path: str, *, root: str = ".", limit: int = 50) -> list[Reason]:
        """What lies behind a path: edits with their calls and decisions, or what was asked and said."""
        touches = self._store.touches("files", file_key(root, path), session=self._id, limit=limit)
        return explain(self._store, [(t.session, t.seq, t.turn) for t in touches], path)

    # -- for the next session ---------------------------------------------------------------------

    def brief(
        self,
        *,
        max_tokens: int = 2000,
        target: Target = "generic",
        since: str | None = None,
        count_tokens: CountTokens | None = None,
        disk: bool = True,
    ) -> Brief:
        """What the next session, another agent or another vendor's must know, within a budget."""
        from stator.runtime.window import brief as briefs

        here = briefs.Here(root=self._root if disk else "", run=self._run, began=self._began)
        return briefs.brief(
            self._store, self._id, here, self.at,
            max_tokens=max_tokens, target=target, since=since, count_tokens=count_tokens,
        )  # fmt: skip

    def artifacts(self) -> list[Artifact]:
        """The newest version of each named document, last changed first."""
        from stator.runtime.views import artifacts

        return artifacts.listed(self._store, self._id)

    def artifact_versions(self, name: str) -> list[Artifact]:
        """Every version of a named document, the newest first."""
        from stator.runtime.views import artifacts

        return artifacts.versions(self._store, self._id, name)

    def read_artifact(self, name: str, version: int | None = None) -> Any:
        """The content of a named document, exactly as it was recorded: the newest, or a version."""
        from stator.runtime.views import artifacts

        return artifacts.read(self._store, self._id, name, version).content

    def artifact_diff(self, name: str, a: int | None = None, b: int | None = None) -> str:
        """What changed from version `a` (default: the one before) to `b` (default: the newest)."""
        from stator.runtime.views import artifacts

        return artifacts.diff(self._store, self._id, name, a, b)


def list_calls(
    store: Store, query: CallQuery, cursor: tuple[int, ...] | None, limit: int
) -> Page[CallRow]:
    """Calls that match. An index knows a call without an outcome as started; whether it waits for a
    person is in the state, so that is looked up for those."""
    wanted = query.statuses
    if WAITS in wanted:
        query = msgspec.structs.replace(query, statuses=(*wanted, "started"))
    page = store.calls(query, cursor=cursor, limit=limit)
    rows = [_precise(store, row) if row.status == "started" else row for row in page.rows]
    return Page([row for row in rows if not wanted or row.status in wanted], page.cursor)


def _precise(store: Store, row: CallRow) -> CallRow:
    entry = store.find(row.session, "calls", row.call)
    status = getattr(entry.record, "status", row.status) if entry is not None else row.status
    return msgspec.structs.replace(row, status=status) if status == WAITS else row


def statuses_of(status: str | None) -> tuple[str, ...]:
    """What a status asks for: itself, or all that `failed` or `open` stands for; any, if none is given."""
    named = {"failed": FAILED, "open": (WAITS, "started", "in doubt")}
    return named.get(status or "", (status,) if status else ())


def _path(record: SessionRecord) -> list[tuple[str, int]]:
    """The sessions a log runs through, with the seq up to which each lends its part."""
    return [(part.session, part.upto) for part in record.lineage] + [(record.id, 2**62)]


def _shown(point: Point, other: Point) -> str:
    return point.shown if point.session == other.session else f"{point.session}:{point.shown}"


def _whys(store: Store, session: str, known: Iterable[Commit] = ()) -> diffs.Why:
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


def net_files(
    versions: Sequence[Version], *, reads: bool = False, session: str = ""
) -> list[FileChange]:
    """The net op of each file a range of versions touched, last touched first."""
    found: dict[str, FileChange] = {}
    for version in versions:
        record = getattr(version.op, "record", None)
        if not isinstance(record, FileRecord) or (record.op == "read" and not reads):
            continue
        known = found.pop(version.key, None)
        op = _net_op(known.op if known else None, record.op)
        if op is None:
            continue
        found[version.key] = FileChange(
            path=record.path,
            op=op,
            turn=version.turn,
            seq=version.seq,
            root=record.root,
            edits=known.edits + 1 if known else 1,
            how=record.how,
            session=session,
        )
    return list(found.values())[::-1]


def _net_op(before: str | None, op: str) -> str | None:
    """Two ops on one file as one; None when the file came and went."""
    if before == "created":
        return None if op == "deleted" else "created"
    if before == "deleted" and op == "created":
        return "modified"
    if op == "read" and before is not None:
        return before
    return op
