"""Answers computed from a list of commits, without any index: what the memory store is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.errors import (
    BadTurn,
    InvalidInput,
)
from stator.model.log import chain
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    Draft,
    Gone,
    Upsert,
)
from stator.model.log.delta import (
    Delta,
    Put,
    Version,
    from_plain,
)
from stator.model.log.fold import fold
from stator.model.log.query import (
    CallQuery,
    CallRow,
    SessionQuery,
)
from stator.model.records.types import Entry, ErasedRecord, SessionRecord
from stator.model.values import canon
from stator.model.views.diff import versions_of


class LogState:
    """The state after some commits: the reducer's view, and every reader's."""

    def __init__(self, log: Iterable[Commit]) -> None:
        log = list(log)
        self._state = fold(commit.delta for commit in log)
        self._last = {(v.op.collection, v.op.id): v for v in versions_from_start(log)}
        self._seqs = {commit.id: commit.seq for commit in log}

    def all(self, collection: str) -> list[Entry]:
        """Live records, last touched first."""
        touched = [self._last[collection, identifier] for identifier in self._state[collection]]
        touched.sort(key=lambda version: (version.seq, version.n), reverse=True)
        return [
            Entry(collection, v.op.id, v.key, v.seq, v.turn, self._state[collection][v.op.id])
            for v in touched
        ]

    def find(self, collection: str, key: str) -> Entry | None:
        return next((entry for entry in self.all(collection) if entry.key == key), None)

    def locate(self, identifier: str) -> int:
        return self._seqs.get(identifier, 0)


def versions_from_start(log: Iterable[Commit]) -> Iterator[Version]:
    """Every op of a log from its beginning, so that each drop has its put before it."""
    return versions_of(log, {})


def is_turn_open(log: list[Commit]) -> bool:
    borders = [commit.kind for commit in log if commit.kind in ("turn", "turn_end")]
    return bool(borders) and borders[-1] == "turn"


def turn_of(draft: Draft, log: list[Commit]) -> int:
    """The number of the turn a draft belongs to: the last one begun, or the one it begins."""
    last, is_open = log[-1].turn if log else 0, is_turn_open(log)
    if draft.kind == "turn" and draft.status == CONTINUED and last and not is_open:
        return last
    if draft.kind == "turn" and is_open:
        raise BadTurn(f"turn {last} of session {draft.session} is still open", hint="end it first")
    if draft.kind == "turn_end" and not is_open:
        raise BadTurn(f"no turn of session {draft.session} is open")
    reopens = draft.status == "continued" and last > 0
    return last + 1 if draft.kind == "turn" and not reopens else last


def calls_in(log: Iterable[Commit]) -> list[CallRow]:
    """Every intent, with the latest outcome before the call's next attempt."""
    rows: list[CallRow] = []
    latest: dict[str, int] = {}
    for commit in log:
        if commit.kind == "call":
            latest[commit.call] = len(rows)
            rows.append(
                CallRow(
                    session=commit.session,
                    call=commit.call,
                    tool=commit.tool,
                    seq=commit.seq,
                    turn=commit.turn,
                    at=commit.at,
                    effect=commit.effect,
                    attempt=commit.attempt,
                )
            )
        elif commit.kind in ("outcome", "settlement") and commit.call in latest:
            n = latest[commit.call]
            rows[n] = msgspec.structs.replace(
                rows[n], status=commit.status, cause=commit.cause, outcome=commit.seq
            )
    return rows


def is_wanted(row: CallRow, query: CallQuery) -> bool:
    return (
        (query.tool is None or row.tool == query.tool)
        and (not query.statuses or row.status in query.statuses)
        and row.turn > query.after_turn
        and row.seq > query.after
    )


def without_items(commit: Commit, names: set[str], by: int) -> Commit:
    """The commit with those content items erased."""
    bare = chain.without(commit, names, by)
    return msgspec.structs.replace(bare, delta=hashed_delta(bare))


def hashed_delta(commit: Commit) -> Delta:
    """The delta, with records decoded from the hashed content instead of the copy beside it."""
    delta: Delta = []
    for n, op in enumerate(commit.delta):
        item = commit.content.get(chain.put_item(n))
        if isinstance(op, Put) and isinstance(item, bytes):
            record = from_plain(op.collection, canon.decode(item))
            delta.append(msgspec.structs.replace(op, record=record))
        elif isinstance(op, Put) and isinstance(item, Gone):
            delta.append(msgspec.structs.replace(op, record=ErasedRecord(erased=item.by)))
        else:
            delta.append(op)
    return delta


def opening_record(drafts: Sequence[Draft]) -> SessionRecord:
    if drafts and drafts[0].kind in ("open", "fork"):
        for change in drafts[0].changes:
            if isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                return change.record
    raise InvalidInput("a session begins with its open or fork commit", path="$.kind")


def full_name(record: SessionRecord) -> tuple[str, str, str]:
    return record.tenant, record.project, record.name


def matches(record: SessionRecord, query: SessionQuery) -> bool:
    asked = {name: getattr(query, name) for name in ("name", "project", "tenant", "agent")}
    asked |= {"status": query.status, "mode": query.mode}
    return (
        all(value is None or getattr(record, name) == value for name, value in asked.items())
        and (query.alias is None or list(query.alias) in record.aliases)
        and (query.suffix is None or record.id.endswith(query.suffix))
        and (query.parent is None or (record.parent and record.parent.session) == query.parent)
    )
