"""Erases content: finds every place it was put, and removes it there.

A plan says which content of which commits would go; carrying it out is one `erasure` commit for each
session that holds some of it. Content of a log that forks continue is erased where it was written;
a record under the same key in a session that shares some of that log is erased there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.errors import InvalidInput, NotFound, WrongState
from stator.model.log.chain import put_item, to_erase, with_traces
from stator.model.log.commit import (
    Commit,
    Draft,
    Erase,
    Gone,
    size_of,
)
from stator.model.log.delta import Put, Version
from stator.model.log.query import SessionRow
from stator.model.records.tables import COLLECTIONS, EVICTED, STRUCTURE
from stator.model.records.types import Entry, FileRecord, FlagRecord, file_key
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import short
from stator.model.window.compaction import key_for
from stator.runtime.base.context import Context
from stator.runtime.base.erased_keys import with_kept_keys
from stator.runtime.base.pages import commits
from stator.runtime.base.project_flags import HOLD
from stator.runtime.runs import folder
from stator.runtime.views.project_state import forget_in_indexes
from stator.runtime.views.refs import Point, find_call, rows_of
from stator.store.port import StorePort

PAGE = 500
"""Commits that one erasure is about."""
TOLD = frozenset({"principal", "input"})
"""What stays of an erasure: who erased, and which content of which commits."""
ASKED = ("input", "input_hash", "output", "output_summary", "why", "key")
"""What a call holds of what it was about."""


class ErasureItem(msgspec.Struct, frozen=True, kw_only=True):
    """Content of one commit that would go."""

    session: str
    seq: int
    turn: int
    kind: str
    fields: tuple[str, ...]
    bytes: int


class Erasing(msgspec.Struct, frozen=True, kw_only=True):
    """What would go, and what would not."""

    items: list[ErasureItem] = []
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
    """The content is gone from the log, and not yet from the write-ahead log: another process reads an older state."""
    readers: list[str] = []
    """Who: pid and program, where the system can tell."""
    indexed: bool = False
    """Its words are not yet gone from the search index: another process reads or holds it; the next search finishes."""


# -- the plan -------------------------------------------------------------------------------------


def left_on_server(store: StorePort) -> str:
    """Where bytes of removed content are still found for a while, if the store is on a server; "" for a file."""
    if not getattr(store, "remote", False):
        return ""
    return (
        "gone for every reader now; its bytes leave the tables with the next VACUUM, and write-ahead logs, standbys "
        "and backups of the server as those rotate"
    )


def of_commit(store: StorePort, point: Point, fields: Sequence[str] = ()) -> Erasing:
    """Content fields of the commit at a position; none named: all of its content."""
    found = store.commits(point.session, after=point.seq - 1, upto=point.seq, load=False)
    if not found:
        raise NotFound(f"no commit {point.shown} in session {point.session}", session=point.session)
    (commit,) = found
    left = []
    if not fields and any(op.collection == "session" for op in commit.delta):
        left.append("the session's own record, by which it is found: purge it to be rid of that")
    item = _item(commit, with_traces(to_erase(commit, fields)))
    for n, op in enumerate(commit.delta):
        record = getattr(op, "record", None)
        if put_item(n) in item.fields and isinstance(record, FileRecord) and _held(record):
            left.append(f"what was kept of {record.path!r:.80}: --path takes both, do that first")
    if point.shown[:1] == "t" and point.shown[1:].replace(".", "").isdecimal():
        left.append(f"the other commits of {point.shown}: this is the last of them")
    return _made(store, [item], left)


def of_call(store: StorePort, text: str, *, session: str | None = None) -> Erasing:
    """What a call was asked and answered, in every attempt."""
    intent = find_call(store, text, session=session)
    items = [
        _item(commit, ASKED)
        for row in _family(store, intent.session)
        for commit in commits(store, row.id, after=max(_low(row), intent.seq - 1), load=False)
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


def of_record(store: StorePort, session: str, collection: str, key: str) -> Erasing:
    """Every put of the records under a key, or under a record's own id, in every session that shares the log."""
    if collection not in COLLECTIONS or collection == "session":
        known = ", ".join(name for name in COLLECTIONS if name != "session")
        raise InvalidInput(f"nothing to erase in {collection!r:.40}", hint=known)
    family = list(_family(store, session))
    ids = {key} | {
        version.op.id
        for row in family
        for version in _versions(store, row, collection)
        if version.key == key
    }
    items: list[ErasureItem] = []
    left: list[str] = []
    names: set[str] = set()
    for row in family:
        puts = [v for v in _versions(store, row, collection) if v.op.id in ids]
        names |= {name for version in puts if (name := _evicted_as(version))}
        commits = list(_commits(store, row, puts))
        items += [_item(commit, _said(commit, collection, ids)) for commit in commits]
        if collection == "files":
            items += _contents(store, row, commits, ids, left)
    if not items:
        what = "file" if collection == "files" else f"{collection} record"
        raise NotFound(f"no {what} {key!r:.80}", session=session)
    for row in family:
        puts = [v for v in _versions(store, row, "evicted") if v.key in names]
        evicted = {version.op.id for version in puts}
        for commit in _commits(store, row, puts):
            items.append(_item(commit, _named(commit, "evicted", evicted)))
    left.append("what was said of it: prompts, answers, calls and summaries are found by position")
    return _made(store, items, left)


def of_path(store: StorePort, session: str, path: str, *, root: str = ".") -> Erasing:
    """A file's records, and what was kept of its content."""
    return of_record(store, session, "files", file_key(root, path))


def of_session(store: StorePort, session: str) -> Erasing:
    """Every payload of a session's own commits; its name, and that it was there, stay."""
    row = store.session(session)
    if row.record.mode == "project":
        raise InvalidInput(
            "a project's own session holds the retention records of its sessions and cannot be erased as a whole",
            hint="erase single commits of it",
            session=session,
        )
    items = []
    for commit in _own(store, row):
        kept = {
            put_item(n)
            for n, op in enumerate(commit.delta)
            if isinstance(op, Put) and op.collection in STRUCTURE
        }
        if commit.kind == "erasure":
            kept |= TOLD
        if commit.kind == "open":
            kept.add(
                "key"
            )  # random, and no content: secrets in the keys of turns are recognised by it
        items.append(_item(commit, tuple(name for name in commit.content if name not in kept)))
    left = ["its name, agent, labels and the names of tools: purge the session to be rid of them"]
    if row.record.lineage:
        left.append("what it inherited: that is erased in the session that wrote it")
    runs = list(_runs(store, session))
    if runs:
        left.append(
            "the command lines of its runs (stator ps): purge the session to be rid of them"
        )
    if any(files.is_live() for files in runs):
        left.append("what a run of it that still runs prints: stator stop ends it")
    return Erasing(items=[item for item in items if item.fields], left=left, session=session)


def _made(store: StorePort, items: Iterable[ErasureItem], left: Sequence[str] = ()) -> Erasing:
    """A plan without what is gone already, each commit once."""
    items = list(items)
    _check_holds(store, items)
    found: dict[tuple[str, int], ErasureItem] = {}
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
    more = [f"what {printed} runs printed, which is not in the record: --everything removes it"]
    return Erasing(items=list(found.values()), left=[*left, *(more if printed else ())])


def _check_holds(store: StorePort, items: Sequence[ErasureItem]) -> None:
    """A hold is released and never erased: what it keeps would go with the next collection."""
    for session in {item.session for item in items}:
        if store.session(session).record.mode != "project":
            continue
        seqs = {item.seq for item in items if item.session == session and _has_record(item)}
        for entry in store.entries(session, "flags"):
            record = entry.record
            if isinstance(record, FlagRecord) and record.name == HOLD and entry.seq in seqs:
                raise WrongState(
                    f"@{entry.seq} is the hold on session {record.on}",
                    hint=f"stator hold {short(record.on)} --release, if nobody needs it any more",
                    session=record.on,
                )


def _has_record(item: ErasureItem) -> bool:
    return any(name.startswith("put") for name in item.fields)


def _item(commit: Commit, names: Iterable[str]) -> ErasureItem:
    wanted = set(names)
    there = {
        name: item
        for name, item in commit.content.items()
        if name in wanted and not isinstance(item, Gone)
    }
    return ErasureItem(
        session=commit.session,
        seq=commit.seq,
        turn=commit.turn,
        kind=commit.kind,
        fields=tuple(there),
        bytes=sum(map(size_of, there.values())),
    )


def _versions(store: StorePort, row: SessionRow, collection: str) -> list[Version]:
    """What a session's own commits put of a collection."""
    found = store.versions(row.id, after=_low(row), upto=row.head, collections=[collection])
    return [version for version in found if isinstance(version.op, Put)]


def _commits(store: StorePort, row: SessionRow, versions: Sequence[Version]) -> Iterator[Commit]:
    """The commits that put them, each once."""
    for seq in sorted({version.seq for version in versions}):
        yield from store.commits(row.id, after=seq - 1, upto=seq, load=False)


def _evicted_as(version: Version) -> str:
    """The key by which a compaction names a record that it takes out of view."""
    op = version.op
    if not isinstance(op, Put) or op.collection not in EVICTED:
        return ""
    return key_for(Entry(op.collection, op.id, version.key, version.seq, version.turn, op.record))


def _said(commit: Commit, collection: str, ids: set[str]) -> tuple[str, ...]:
    """What a commit put of some records, and its content that is only about them."""
    names = _named(commit, collection, ids)
    alone = len(names) == sum(isinstance(op, Put) for op in commit.delta)
    why = ("why",) if alone or collection == "files" else ()
    return (*names, *why, *(("input",) if commit.kind == "artifact" and names else ()))


def _named(commit: Commit, collection: str, ids: set[str]) -> tuple[str, ...]:
    return tuple(
        put_item(n)
        for n, op in enumerate(commit.delta)
        if isinstance(op, Put) and op.collection == collection and op.id in ids
    )


def _held(record: FileRecord) -> set[str]:
    """The ids of the commits that hold a file's content."""
    return {held for held in (record.after_in, record.before_in, record.patch_in) if held}


def _contents(
    store: StorePort, row: SessionRow, commits: Sequence[Commit], ids: set[str], left: list[str]
) -> Iterator[ErasureItem]:
    """What was kept of some files' contents, as the commits that put those files say."""
    held = {
        identifier
        for commit in commits
        for op in commit.delta
        if isinstance(op, Put) and op.id in ids and isinstance(op.record, FileRecord)
        for identifier in _held(op.record)
    }
    for identifier in sorted(held):
        for _, seq in store.locate(identifier, row.id)[:1]:
            (commit,) = store.commits(row.id, after=seq - 1, upto=seq)
            kept = commit.known("input", {})
            parts = (
                (kept.get("contents", ()), kept.get("patches", ()))
                if isinstance(kept, dict)
                else ()
            )
            more = sum(map(len, parts))
            if more > 1:
                left.append(f"one file alone of @{seq}: the contents of its {more} files all go")
            yield _item(commit, ("input",))


def _family(store: StorePort, session: str) -> Iterator[SessionRow]:
    """A session and all that share some of its log: what it was forked from, and every fork of that."""
    root = _root(store.session(session))
    for row in rows_of(store):
        if _root(row) == root:
            yield row


def _root(row: SessionRow) -> str:
    """The session with which a log begins."""
    return row.record.lineage[0].session if row.record.lineage else row.id


def _own(store: StorePort, row: SessionRow) -> Iterator[Commit]:
    return commits(store, row.id, after=_low(row), upto=row.head, load=False)


def _low(row: SessionRow) -> int:
    return lent_upto(row.record.lineage)


# -- doing it -------------------------------------------------------------------------------------


def erase(
    store: StorePort, context: Context, made: Erasing, *, by: str, why: str = ""
) -> ErasureResult:
    """Carry a plan out. The bytes are gone when this returns, unless it says `pending`."""
    commits = []
    for session, items in _by_session(made.items).items():
        for start in range(0, len(items), PAGE):
            part = items[start : start + PAGE]
            changes = tuple(Erase(seq=item.seq, fields=item.fields) for item in part)
            said = {"commits": [[item.seq, list(item.fields)] for item in part]}
            draft = Draft(
                id=context.mint("commit"),
                session=session,
                kind="erasure",
                actor="user",
                principal=by,
                why=why,
                input=with_kept_keys(store, context, session, changes, said),
                changes=changes,
            )
            commits.append(store.append(session, [draft], barrier=True)[0].id)
    if made.session:
        _forget_output(store, made.session)
    store.sync()  # a write: it finishes what an earlier erasure that was killed left in the WAL
    forgotten = forget_in_indexes(store, context, _by_session(made.items))
    detail = store.info().detail
    return ErasureResult(
        commits=commits,
        pending=bool(detail.get("unfinished")) or not forgotten,
        indexed=not forgotten,
        readers=[f"{one.program} (pid {one.pid})" for one in detail.get("readers", ())],
    )


def _by_session(items: Sequence[ErasureItem]) -> dict[str, list[ErasureItem]]:
    found: dict[str, list[ErasureItem]] = {}
    for item in items:
        found.setdefault(item.session, []).append(item)
    return found


def _forget_output(store: StorePort, session: str) -> None:
    """What the session's runs printed goes too; one that still runs keeps printing."""
    for files in _runs(store, session):
        if not files.is_live():
            files.discard_output()


def _runs(store: StorePort, session: str) -> Iterator[folder.RunFiles]:
    """The folders of a session's detached runs."""
    for files in folder.beside(store):
        with contextlib.suppress(NotFound):
            if files.read().session == session:
                yield files
