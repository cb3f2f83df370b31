"""Erasing: what a person wants gone, found wherever it was put, and taken away there.

A plan says which content of which commits would go; carrying it out is one `erasure` commit for each
session that holds some of it. Content of a log that forks go on from is erased where it was written;
what a fork put of the same record is erased in the fork.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.errors import InvalidInput, NotFound
from stator.model.chain import put_item, to_erase
from stator.model.commit import Commit, Draft, Erase, Gone, size_of
from stator.model.delta import Put
from stator.model.ids import short
from stator.model.query import SessionRow
from stator.model.state import COLLECTIONS, FileRecord, file_key
from stator.runtime import runfiles
from stator.runtime.context import Context
from stator.runtime.resolve import Point, find_call, rows_of
from stator.store.port import Store

PAGE = 500
"""Commits that one erasure is about."""
STRUCTURE = frozenset({"session", "runs", "calls", "spend"})
"""Collections that erasing a whole session leaves: the session could not be found or ended without."""
ASKED = ("input", "input_hash", "output", "output_summary", "why", "key")
"""What a call holds of what it was about."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Content of one commit that would go."""

    session: str
    seq: int
    turn: int
    kind: str
    fields: tuple[str, ...]
    bytes: int


class Erasing(msgspec.Struct, frozen=True, kw_only=True):
    """What would go, and what would not."""

    items: list[Item] = []
    left: list[str] = []
    """What this does not reach, in words."""
    session: str = ""
    """The session of which every payload goes, with what its runs printed; empty if only some does."""

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)


class ErasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    commits: list[str]
    """The erasures' own commits."""
    pending: bool = False
    """The content is gone from the log, and not yet from the write-ahead log: somebody reads an older state."""
    readers: list[str] = []
    """Who: pid and program, where the system tells."""


# -- the plan -------------------------------------------------------------------------------------


def of_commit(store: Store, point: Point, fields: Sequence[str] = ()) -> Erasing:
    """Content fields of the commit at a position; none named: all of its content."""
    found = store.commits(point.session, after=point.seq - 1, upto=point.seq, load=False)
    if not found:
        raise NotFound(f"no commit {point.shown} in session {point.session}", session=point.session)
    (commit,) = found
    left = []
    if not fields and any(op.collection == "session" for op in commit.delta):
        left.append("the session's own record, by which it is found: purge it to be rid of that")
    return _made(store, [_item(commit, to_erase(commit, fields))], left)


def of_call(store: Store, text: str, *, session: str | None = None) -> Erasing:
    """What a call was asked and answered, in every attempt."""
    intent = find_call(store, text, session=session)
    items = [
        _item(commit, ASKED)
        for commit in _log(store, intent.session, after=intent.seq - 1)
        if commit.call == intent.call
    ]
    left = []
    if intent.origin is not None and intent.origin[0] == "model":
        asked = intent.origin[1].partition("/")[0]
        left.append(
            f"@{asked}, what the model said when it asked for it, holds its arguments too: "
            f"stator erase {short(intent.session)}:@{asked}"
        )
    return _made(store, items, left)


def of_record(store: Store, session: str, collection: str, key: str) -> Erasing:
    """Every put of whatever stood under a key, or under a record's own id, also in forks."""
    if collection not in COLLECTIONS or collection == "session":
        names = ", ".join(name for name in COLLECTIONS if name != "session")
        raise InvalidInput(f"nothing to erase in {collection!r:.40}", hint=names)
    touched = {t.id for t in store.touches(collection, key, session=session, limit=10_000)}
    ids = touched or {key}
    items = [item for row in _family(store, session) for item in _puts(store, row, collection, ids)]
    if not items:
        raise NotFound(f"no {collection} record {key!r:.80}", session=session)
    return _made(store, items)


def of_path(store: Store, session: str, path: str, *, root: str = ".") -> Erasing:
    """A file's records, and what was kept of its content."""
    key = file_key(root, path)
    ids = {touch.id for touch in store.touches("files", key, session=session, limit=10_000)}
    items: list[Item] = []
    left: list[str] = []
    for row in _family(store, session):
        kept: set[str] = set()
        for commit in _own(store, row):
            names = _named(commit, "files", ids)
            if names:
                items.append(_item(commit, (*names, "why")))
                kept |= _contents(commit, ids)
        for identifier in sorted(kept):
            for _, seq in store.locate(identifier, row.id)[:1]:
                (commit,) = store.commits(row.id, after=seq - 1, upto=seq)
                held = commit.known("input", {})
                more = len(held.get("contents", ())) if isinstance(held, dict) else 0
                if more > 1:
                    left.append(f"@{seq} holds contents of {more} files; they all go")
                items.append(_item(commit, ("input",)))
    if not items:
        raise NotFound(f"no file {path!r:.80}", session=session)
    left.append("calls and words that mention the file are not found by its path")
    return _made(store, items, left)


def of_session(store: Store, session: str) -> Erasing:
    """Every payload of a session's own commits; its name, and that it was there, stay."""
    row = store.session(session)
    items = []
    for commit in _own(store, row):
        kept = {
            put_item(n)
            for n, op in enumerate(commit.delta)
            if isinstance(op, Put) and op.collection in STRUCTURE
        }
        items.append(_item(commit, tuple(name for name in commit.content if name not in kept)))
    left = ["its name, agent, labels and the names of tools: purge the session to be rid of them"]
    if row.record.lineage:
        left.append("what it inherited: that is erased in the session that wrote it")
    return Erasing(items=[item for item in items if item.fields], left=left, session=session)


def _made(store: Store, items: Iterable[Item], left: Sequence[str] = ()) -> Erasing:
    """A plan without what is gone already, each commit once."""
    found: dict[tuple[str, int], Item] = {}
    for item in items:
        if not item.fields:
            continue
        known = found.get((item.session, item.seq))
        if known is not None and known.fields != item.fields:
            fields = tuple(dict.fromkeys((*known.fields, *item.fields)))
            size = known.bytes + item.bytes
            item = msgspec.structs.replace(item, fields=fields, bytes=size)
        found[item.session, item.seq] = item
    printed = sum(1 for session in {one for one, _ in found} for _ in _runs(store, session))
    more = [f"what {printed} runs printed, which is not in the record: --all removes it"]
    return Erasing(items=list(found.values()), left=[*left, *(more if printed else ())])


def _item(commit: Commit, names: Iterable[str]) -> Item:
    there = {
        name: item
        for name in names
        if (item := commit.content.get(name)) is not None and not isinstance(item, Gone)
    }
    return Item(
        session=commit.session,
        seq=commit.seq,
        turn=commit.turn,
        kind=commit.kind,
        fields=tuple(there),
        bytes=sum(map(size_of, there.values())),
    )


def _puts(store: Store, row: SessionRow, collection: str, ids: set[str]) -> Iterator[Item]:
    """What a session's own commits put of some records, and what they said of them alone."""
    low = _low(row)
    versions = store.versions(row.id, after=low, upto=row.head, collections=[collection])
    for seq in sorted({v.seq for v in versions if v.op.id in ids and isinstance(v.op, Put)}):
        (commit,) = store.commits(row.id, after=seq - 1, upto=seq, load=False)
        names = _named(commit, collection, ids)
        alone = len(names) == sum(isinstance(op, Put) for op in commit.delta)
        more = ("why", *(("input",) if collection == "artifacts" else ())) if alone else ()
        yield _item(commit, (*names, *more))


def _named(commit: Commit, collection: str, ids: set[str]) -> tuple[str, ...]:
    return tuple(
        put_item(n)
        for n, op in enumerate(commit.delta)
        if isinstance(op, Put) and op.collection == collection and op.id in ids
    )


def _contents(commit: Commit, ids: set[str]) -> set[str]:
    """The commits that hold the contents of some files, as a commit that puts those files says."""
    return {
        held
        for op in commit.delta
        if isinstance(op, Put) and op.id in ids and isinstance(op.record, FileRecord)
        for held in (op.record.after_in, op.record.before_in)
        if held
    }


def _family(store: Store, session: str) -> Iterator[SessionRow]:
    """A session, those whose log it goes on from, and those that go on from it."""
    record = store.session(session).record
    above = {part.session for part in record.lineage}
    for row in rows_of(store):
        below = any(part.session == session for part in row.record.lineage)
        if row.id == session or row.id in above or below:
            yield row


def _own(store: Store, row: SessionRow) -> Iterator[Commit]:
    return _log(store, row.id, after=_low(row), upto=row.head)


def _low(row: SessionRow) -> int:
    return row.record.lineage[-1].upto if row.record.lineage else 0


def _log(store: Store, session: str, *, after: int, upto: int | None = None) -> Iterator[Commit]:
    while page := store.commits(session, after=after, upto=upto, limit=PAGE, load=False):
        yield from page
        after = page[-1].seq


# -- doing it -------------------------------------------------------------------------------------


def erase(
    store: Store, context: Context, made: Erasing, *, by: str, why: str = ""
) -> ErasureResult:
    """Carry a plan out. The bytes are gone when this returns, unless it says `pending`."""
    commits = []
    for session, items in _by_session(made.items).items():
        for start in range(0, len(items), PAGE):
            part = items[start : start + PAGE]
            changes = tuple(Erase(seq=item.seq, fields=item.fields) for item in part)
            draft = Draft(
                id=context.mint("commit"),
                session=session,
                kind="erasure",
                actor="user",
                principal=by,
                why=why,
                input={"commits": [[item.seq, list(item.fields)] for item in part]},
                changes=changes,
            )
            commits.append(store.append(session, [draft], barrier=True)[0].id)
    if made.session:
        _forget_output(store, made.session)
    store.sync()  # a write: it finishes what an earlier erasure that was killed left in the WAL
    detail = store.info().detail
    return ErasureResult(
        commits=commits,
        pending=bool(detail.get("unfinished")),
        readers=[f"{one.program} (pid {one.pid})" for one in detail.get("readers", ())],
    )


def _by_session(items: Sequence[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.session, []).append(item)
    return found


def _forget_output(store: Store, session: str) -> None:
    """What the session's runs printed goes too; one that still runs goes on printing."""
    for files in _runs(store, session):
        if not files.is_live():
            files.discard_output()


def _runs(store: Store, session: str) -> Iterator[runfiles.RunFiles]:
    """The folders of a session's detached runs."""
    if store.info().kind != "sqlite":
        return
    for files in runfiles.RunFiles.all(runfiles.folder_of(store)[1]):
        with contextlib.suppress(NotFound):
            if files.read().session == session:
                yield files
