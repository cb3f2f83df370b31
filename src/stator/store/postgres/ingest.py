"""Appends sealed commits, as a bundle contains them: unchanged, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from itertools import groupby, islice
from operator import attrgetter

from stator.errors import Conflict, IdReused
from stator.model.log import chain
from stator.model.log.commit import Commit, Gone
from stator.model.log.delta import Drop, Put
from stator.model.records.types import KEYLESS, SessionRecord
from stator.model.sessions.lifecycle import driven
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.drafts import in_project, ingested_record, keys_of, opening_draft
from stator.store.postgres import removal
from stator.store.postgres.append import PostgresAppender
from stator.store.postgres.connection import Statement, Transaction
from stator.store.postgres.live_session import RemoteLive
from stator.store.postgres.queries.commit_rows import commit_of, named
from stator.store.postgres.session_row import MAX_SEQ, by_id
from stator.store.postgres.session_row import key_of as session_key
from stator.store.postgres.text import packed, unpacked
from stator.store.postgres.written import Keyed, written

BATCH = 200
"""Commits that are compared and written with one statement."""


def ingest(
    appender: PostgresAppender,
    db: Transaction,
    commits: Iterable[Commit],
    projects: Mapping[str, str],
) -> int:
    """How many were new."""
    new = 0
    for _, own in groupby(commits, key=attrgetter("session")):
        first = next(own)
        live, before = _session(appender, db, first, projects)
        targets: removal.Targets = {}
        for batch in _batches(chained([first], own)):
            fresh = _known(db, live, batch, targets)
            if fresh:
                _check_free(live)
                _check_ids(db, fresh)
                statements = written(live, _applied(db, live, fresh), before)
                db.ask(*statements)
                live.landed()
                before = live.record
                new += len(fresh)
        removal.carry_out(db, live, targets)
    db.ask(commit=True)
    return new


def _batches(commits: Iterator[Commit]) -> Iterator[list[Commit]]:
    while batch := list(islice(commits, BATCH)):
        yield batch


def _session(
    appender: PostgresAppender, db: Transaction, first: Commit, projects: Mapping[str, str]
) -> tuple[RemoteLive, SessionRecord | None]:
    """The session of some commits, its row locked; begun if it is not there. And its record so far."""
    session = first.session
    (there,) = db.ask(by_id(session, lock=True))
    if there:
        live = appender.opened(session, db.ask(*appender.opening(session)))
        live.ask = db.ask
        return live, live.record
    record = ingested_record(first)
    record = appender.placed(in_project(record, projects.get(session, record.project)))
    named, _, numbers = db.ask(*appender.base(record))
    if named:
        raise Conflict(
            f"there is another session {record.name!r:.80} in {record.project!r:.80}",
            hint="close and rename one of them, or use another project",
            session=record.id,
        )
    draft = opening_draft(first)
    key = draft.key if draft.kind == "open" else ""
    live, statements = appender.begun(db, record, numbers[0][0], key)
    if statements:
        db.ask(*statements)
    return live, None


def _known(
    db: Transaction, live: RemoteLive, batch: Sequence[Commit], targets: removal.Targets
) -> list[Commit]:
    """The commits that are not here yet. Those that are must be the same."""
    old = [commit for commit in batch if commit.seq <= live.seq]
    if old:
        (rows,) = db.ask(named(live.known.id, [c.seq for c in old], [], MAX_SEQ, False))
        mine = {commit.seq: commit for commit in (commit_of(row, False) for row in rows)}
        for commit in old:
            there = mine.get(commit.seq)
            same = there is not None and there.session == commit.session
            chain.must_match(there.hash if there is not None and same else "", commit)
            # An erasure travels with a bundle: what was erased where it was made is erased here too.
            if any(isinstance(item, Gone) and item.by for item in commit.content.values()):
                (row,) = db.ask(named(live.known.id, [commit.seq], [], MAX_SEQ, True))[0]
                for by, names in chain.erased_by(commit_of(row), commit).items():
                    targets.setdefault(by, {})[commit.seq] = names
    fresh = batch[len(old) :]
    prev, seq = live.hash, live.seq
    for commit in fresh:
        chain.must_follow(commit, prev, seq + 1)
        prev, seq = commit.hash, commit.seq
    return list(fresh)


def _check_free(live: RemoteLive) -> None:
    """Refuse to add to a log that a live driver is appending to."""
    # A live driver has the state in memory, and would continue from a head that is no longer the newest.
    holder = live.known.holder
    if holder is not None and holder.live:
        raise driven(live.record, holder)


def _check_ids(db: Transaction, commits: Sequence[Commit]) -> None:
    ids = [to_bytes(commit.id) for commit in commits]
    (rows,) = db.ask(Statement("known_ids", {"ids": ids}))
    used = [row[0] for row in rows] or [one for one in ids if ids.count(one) > 1][:1]
    if used:
        identifier = from_bytes(used[0], "commit")
        raise IdReused(f"commit {identifier} is already in this store", commit=identifier)


def _applied(db: Transaction, live: RemoteLive, commits: Sequence[Commit]) -> list[Keyed]:
    """The commits with the keys of their ops, applied to the session."""
    known = _keys_before(db, live, commits)

    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return known.get((collection, identifier), KEYLESS + identifier)

    found: list[Keyed] = []
    for commit in commits:
        keys = keys_of(commit, key_of_id)
        for op, key in zip(commit.delta, keys, strict=True):
            if isinstance(op, Put):
                known[op.collection, op.id] = key
        live.advance(commit, keys)
        found.append((commit, keys))
    return found


def _keys_before(
    db: Transaction, live: RemoteLive, commits: Sequence[Commit]
) -> dict[tuple[str, str], str]:
    """The keys of the records that these commits drop, as they were before them."""
    drops = [op for commit in commits for op in commit.delta if isinstance(op, Drop) and op.was]
    if not drops:
        return {}
    values = {
        "session": session_key(live.known.id),
        "cs": [op.collection for op in drops],
        "ids": [packed(op.id) for op in drops],
        "seqs": [op.was for op in drops],
    }
    (rows,) = db.ask(Statement("replaced", values))
    return {(row[0], unpacked(row[1])): unpacked(row[12]) for row in rows}
