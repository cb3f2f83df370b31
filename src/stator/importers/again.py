"""Imports a conversation again into a corrected session: for a log that an earlier mapping made.

A log is never reordered. So the transcript is read into a new session, which gets what people and agents contributed
to the old one, each contribution in its turn. Then the new session takes the old one's name and alias, and the old one
is archived. Every step can be repeated: after a crash, the next import continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from stator.errors import NotFound
from stator.importers.conversation import Report, import_conversation, mapper_of
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.model.exchange.items import Conversation, commit_id
from stator.model.log.clean_record import untagged
from stator.model.log.commit import Change, Commit, Draft, Remove, Upsert
from stator.model.log.delta import Put
from stator.model.log.query import SessionRow
from stator.model.records.tables import COLLECTIONS, CONTRIBUTIONS, key_of
from stator.model.records.types import (
    FlagRecord,
    Record,
    ScoreRecord,
    SessionRecord,
    TagRecord,
)
from stator.model.values.ids import derived, retype, short
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import Recorder
from stator.store.port import StorePort

POINTING = ("tag", "score", "flag")
"""Contributions that name a position; they are carried last, when every position is known."""
NOT_CARRIED = ("approval", "pause_request", "budget")
"""Contributions that are a person's word about one session only."""


def import_again(
    store: StorePort,
    context: Context,
    format: Format,
    found: FoundConversation,
    old: SessionRow,
    report: Report,
    *,
    progress: Progress | None = None,
) -> str:
    """Import a conversation into a new session beside `old`, which it replaces; return the new session's id. A fork or
    a sub-agent that begins at a place that is not recorded yet waits: then `old` stays as it is."""
    conversation = msgspec.structs.replace(
        found.conversation, again=_number(old.record) + 1, project=old.record.project
    )
    found = msgspec.structs.replace(found, conversation=conversation)
    carried = _Carried(store, old.id, conversation)

    def make(store: StorePort, context: Context, talk: Conversation, **options: Any) -> Recorder:
        if talk.session != conversation.session:  # a sub-agent in the same file
            return Recorder(store, context, talk, **options)
        return _RenewingRecorder(carried, store, context, talk, **options)

    import_conversation(store, context, format, found, report, progress=progress, make=make)
    new = find(store, conversation)
    if new is None:
        return old.id
    store.append(new.id, list(carried.rest()))
    _replace(store, context, old, new, conversation)
    return new.id


def is_outdated(row: SessionRow, format: Format, found: FoundConversation) -> bool:
    """Whether a session was made by another mapping than the one that reads this file now. A fallback corrects
    nothing."""
    return not found.is_fallback and row.record.mapper != mapper_of(format, found)


def _number(record: SessionRecord) -> int:
    number = record.labels.get("again", "0")
    return int(number) if number.isdecimal() and len(number) < 10 else 0  # anyone may set a label


class _RenewingRecorder(Recorder):
    """Records a conversation, and after each turn what was contributed to it."""

    def __init__(self, carried: _Carried, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._carried = carried

    def _resolved(self, record: SessionRecord) -> list[Draft]:
        drafts: list[Draft] = []
        prompt, of_turn = self._carried.last_prompt(), self._carried.until_turn
        for draft in super()._resolved(record):
            if draft.kind == "turn" and draft.origin is not None:
                drafts += of_turn(prompt)
                prompt, of_turn = draft.origin[1], self._carried.of_turn
            drafts.append(draft)
        return drafts


class _Carried:
    """What was contributed to a session, by the prompt of the turn it belongs to."""

    def __init__(self, store: StorePort, old: str, conversation: Conversation) -> None:
        self._store = store
        self._conversation = conversation
        self._new = conversation.session
        self._by_prompt: dict[str, list[Commit]] = {}
        self._last: list[Commit] = []
        self._origins: dict[int, tuple[str, tuple[str, str], int]] = {}
        self._calls: dict[str, str] = {}
        self._numbers = {"": 0}
        """Which turn of the old session a prompt began."""
        prompt = ""
        for commit in commits(store, old):
            if commit.origin is not None:
                self._origins[commit.seq] = commit.kind, commit.origin, commit.attempt
                if commit.kind == "turn":
                    prompt = commit.origin[1]
                    self._numbers.setdefault(prompt, len(self._numbers))
                if commit.kind == "call":
                    intent = commit_id(self._new, "call", commit.origin, 1)
                    self._calls[commit.call] = retype(intent, "call")
            elif commit.kind in POINTING:
                self._last.append(commit)
            elif commit.kind in CONTRIBUTIONS and commit.kind not in NOT_CARRIED:
                self._by_prompt.setdefault(prompt, []).append(commit)

    def last_prompt(self) -> str:
        """The prompt of the last turn that the new session has; "" if it has none. A renewal that was interrupted, or
        overtaken by another process, continues there; a fork has the turns of its parent."""
        try:
            turns = self._store.turns(self._new, newest_first=True, limit=1)
        except NotFound:  # it has not begun
            return ""
        for turn in turns:
            origin = commit_at(self._store, self._new, turn.first, load=False).origin
            return "" if origin is None else origin[1]
        return ""

    def until_turn(self, prompt: str) -> Iterator[Draft]:
        """What belongs to the turn of this prompt and to those before it. What is recorded already stays where it is;
        a fork begins with what was contributed to the turns that it has from its parent."""
        last = self._numbers.get(prompt, 0)
        for one in self._by_prompt:
            if self._numbers[one] <= last:
                yield from self.of_turn(one)

    def of_turn(self, prompt: str) -> Iterator[Draft]:
        """What belongs to the turn of this prompt."""
        for commit in self._by_prompt.get(prompt, ()):
            yield self._draft(commit)

    def rest(self) -> Iterator[Draft]:
        """What belongs to the last turn or to one that the transcript does not have, and what names positions. The
        rest is recorded already, under the same ids."""
        for prompt in self._by_prompt:
            yield from self.of_turn(prompt)
        for commit in self._last:
            yield self._draft(commit)

    def _draft(self, commit: Commit) -> Draft:
        """A contribution as one to the new session."""
        values = {name: commit.known(name, UNSET) for name in ("input", "output")}
        return Draft(
            id=derived("commit", self._new, "carried", commit.id),
            session=self._new,
            kind=commit.kind,
            actor=commit.actor,  # type: ignore[arg-type]  # it was checked when it was recorded
            call=self._calls.get(commit.call, ""),
            cause=commit.cause,
            changes=tuple(self._changes(commit)),
            effect=commit.effect,
            happened=commit.happened,
            inputs=tuple(self._inputs(commit)),
            principal=commit.known("principal", ""),
            provenance=commit.provenance,
            status=commit.status,
            tool=commit.tool,
            why=commit.known("why", ""),
            **values,
        )

    def _inputs(self, commit: Commit) -> Iterator[int | str]:
        """What it derives from, as ids: of the new commit of the same item, where there is one."""
        for item in commit.inputs:
            if isinstance(item, str):
                yield item
            elif (known := self._origins.get(abs(item))) is not None:
                yield commit_id(self._new, known[0], known[1], known[2])

    def _changes(self, commit: Commit) -> Iterator[Change]:
        if commit.kind == "settlement":
            return  # the call is the change, and the reducer finds it
        for op in commit.delta:
            if isinstance(op, Put):
                yield Upsert(op.collection, self._placed(untagged(op.record)))
            elif (was := self._store.replaced(commit.session, [op])[0]) is not None:
                record = getattr(was.op, "record", None)
                if record is not None:
                    yield Remove(op.collection, key_of(COLLECTIONS[op.collection], record, op.id))

    def _placed(self, record: Record) -> Record:
        """A record that names a position, with the position of the same item here."""
        if isinstance(record, TagRecord) and (seq := self._seq(record.seq)):
            there = commit_at(self._store, self._new, seq, load=False)
            return msgspec.structs.replace(record, seq=seq, hash=there.hash)
        if isinstance(record, (ScoreRecord, FlagRecord)) and record.on.startswith("@"):
            seq = self._seq(int(record.on[1:])) if record.on[1:].isdecimal() else 0
            return msgspec.structs.replace(record, on=f"@{seq}" if seq else "")
        return record

    def _seq(self, old: int) -> int:
        """Where the item of an old position is in the new log; 0 if it is not there."""
        known = self._origins.get(old)
        if known is None:
            return 0
        found = self._store.locate(commit_id(self._new, known[0], known[1], known[2]), self._new)
        return found[0][1] if found else 0


def _replace(
    store: StorePort, context: Context, old: SessionRow, new: SessionRow, talk: Conversation
) -> None:
    """The new session takes name and alias of the old one, which is archived."""
    was = store.session(old.id).record
    name = was.name if was.aliases else was.labels.get("was", was.name)
    if was.aliases:
        retired = msgspec.structs.replace(
            was,
            name=f"{name} ({short(old.id)[2:]})",
            aliases=[],
            labels={**was.labels, "was": name},
        )
        _describe(store, context, old.id, retired)
    now = store.session(new.id).record
    taken = msgspec.structs.replace(
        now,
        name=name,
        aliases=[[talk.source, talk.id]],
        labels={**now.labels, "again": str(talk.again), "instead of": old.id},
    )
    _describe(store, context, new.id, taken)
    for kind in {"archived": (), "closed": ("archive",)}.get(was.status, ("close", "archive")):
        draft = Draft(
            id=derived("commit", old.id, kind, new.id),
            session=old.id,
            kind=kind,
            actor="system",
            cause="done" if kind == "close" else "",
            principal=context.principal,
            why=f"imported again as {new.id}",
        )
        store.append(old.id, [draft])


def _describe(store: StorePort, context: Context, session: str, record: SessionRecord) -> None:
    draft = Draft(
        id=derived("commit", session, "describe", *record.labels.values(), record.name),
        session=session,
        kind="describe",
        actor="system",
        principal=context.principal,
        changes=(Upsert("session", record),),
    )
    store.append(session, [draft])
