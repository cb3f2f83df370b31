"""Drafts on their way into a log, the same in every SQL store: the session they begin, the turn they belong to, and
the keys that their ops answer to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from stator.errors import BadTurn, InvalidInput
from stator.model.log.clean_record import clean_record
from stator.model.log.commit import CONTINUED, Commit, Draft, Upsert
from stator.model.log.delta import Put
from stator.model.log.seal import scrub
from stator.model.records.tables import BARRIERS, COLLECTIONS, key_of
from stator.model.records.types import KEYLESS, ErasedRecord, SessionRecord

if TYPE_CHECKING:  # loaded by the first write: reading does without its patterns
    from stator.model.log.redact import Redactor

KeyOf = Callable[[str, str, int], str]
"""(collection, id, was) → the key that id had at that seq."""


class LastTurn(Protocol):
    """The last turn of a session, as its writer knows it."""

    @property
    def turn(self) -> int: ...

    @property
    def turn_open(self) -> bool: ...


def opening_record(drafts: Sequence[Draft]) -> SessionRecord:
    """The session record in the `open` or `fork` draft that leads a new session."""
    if drafts and drafts[0].kind in ("open", "fork"):
        for change in drafts[0].changes:
            if isinstance(change, Upsert) and isinstance(change.record, SessionRecord):
                return change.record
    raise InvalidInput("a session begins with its open or fork commit", path="$.kind")


def ingested_record(first: Commit) -> SessionRecord:
    """The session record in the commit that leads an ingested session."""
    for op in first.delta if first.kind in ("open", "fork") else ():
        record = getattr(op, "record", None)
        if isinstance(record, SessionRecord):
            return record
    raise InvalidInput(
        f"session {first.session} is not in this store, and these commits do not start it",
        hint="ingest its first commits, or its parent, before these",
        session=first.session,
    )


def opening_draft(commit: Commit) -> Draft:
    """As much of the draft of an opening as its redactor needs."""
    key = commit.content.get("key")
    return Draft(
        id=commit.id,
        session=commit.session,
        kind=commit.kind,
        key=commit.value("key") if isinstance(key, bytes) else "00",
    )


def in_project(record: SessionRecord, project: str) -> SessionRecord:
    """The session's record as in its row, with the project it belongs to in this store."""
    if record.project == project:
        return record
    return msgspec.structs.replace(record, project=project)


def scrub_names(
    record: SessionRecord, drafts: Sequence[Draft], secret: bytes
) -> tuple[SessionRecord, Sequence[Draft]]:
    """The record without secrets, because the session's row has it too. What a session is found by is
    redacted under the store's key: the same name, the same session."""
    by_store = redactor(secret.hex())
    clear = by_store.scrub
    found = msgspec.structs.replace(
        record,
        name=clear(record.name),
        agent=clear(record.agent),
        project=clear(record.project),
        tenant=clear(record.tenant),
        aliases=[[clear(part) for part in alias] for alias in record.aliases],
    )
    own = redactor(drafts[0].key) if drafts[0].key else by_store
    clean = clean_record(found, own.scrub, own.passes)
    changes = tuple(
        Upsert("session", clean) if getattr(change, "record", None) is record else change
        for change in drafts[0].changes
    )
    return clean, [msgspec.structs.replace(drafts[0], changes=changes), *drafts[1:]]


def next_turn(draft: Draft, live: LastTurn) -> int:
    """The number of the turn a draft belongs to: the last one begun, or the one it begins."""
    if draft.kind == "turn":
        if draft.status == CONTINUED and live.turn and not live.turn_open:
            return live.turn
        if live.turn_open:
            raise BadTurn(
                f"turn {live.turn} of session {draft.session} is still open",
                hint="end it first",
                session=draft.session,
            )
        return live.turn + 1
    if draft.kind == "turn_end" and not live.turn_open:
        raise BadTurn(f"no turn of session {draft.session} is open", session=draft.session)
    return live.turn


def with_recorded_origin(draft: Draft, redactor: Redactor | None) -> Draft:
    """The draft with its origin as it is recorded: a commit is looked for by that, by its kind and attempt."""
    match draft.origin:
        case (str(source), str(foreign)) if type(draft.attempt) is int and type(draft.kind) is str:
            if redactor is None:
                return draft
            origin = redactor.scrub(source), redactor.scrub(foreign)
            return (
                draft if origin == draft.origin else msgspec.structs.replace(draft, origin=origin)
            )
    return scrub(draft, redactor)  # which refuses it


def keys_of(commit: Commit, key_of_id: KeyOf) -> list[str]:
    """The keys of a commit's ops, where the reducer that knew them is long gone."""
    keys: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for op in commit.delta:
        if isinstance(op, Put) and not isinstance(op.record, ErasedRecord):
            key = key_of(COLLECTIONS[op.collection], op.record, op.id)
        elif isinstance(op, Put):
            key = KEYLESS + op.id
        else:
            key = seen.get((op.collection, op.id)) or key_of_id(op.collection, op.id, op.was)
        seen[op.collection, op.id] = key
        keys.append(key)
    return keys


def is_barrier(draft: Draft) -> bool:
    """Whether nothing may happen after a commit before it is durable: a turn ends, or a write begins."""
    return draft.kind in BARRIERS or (draft.kind == "call" and draft.effect == "write")


def redactor(key: str) -> Redactor:
    """What replaces secrets, with a key in hex digits."""
    from stator.model.log.redact import Redactor

    return Redactor(bytes.fromhex(key))
