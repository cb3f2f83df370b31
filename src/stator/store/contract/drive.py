"""Driving a store by hand: drafts with ids that are the same in every run, so that tests read as stories.

`Drafts` only builds; `Story` also appends, and knows the session and the lease it holds. Neither decides anything a
caller of the port would not have to decide too.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from stator.model.log.commit import (
    CONTINUED,
    Change,
    Commit,
    Draft,
    Erase,
    Remove,
    Upsert,
)
from stator.model.log.query import Counts, Holder, SessionRow
from stator.model.records.types import (
    DecisionRecord,
    Entry,
    FactRecord,
    FileOp,
    FileRecord,
    Parent,
    PlanRecord,
    Segment,
    SessionRecord,
    StepStatus,
)
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import PREFIXES, Kind, retype
from stator.store.port import StorePort

START = 1_767_225_600_000_000
"""2026-01-01, in µs: when every story begins."""
KEY = "0123456789abcdef" * 4
"""The redaction key of every story."""


class Ids:
    """Makes deterministic ids that look random."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._made = 0

    def __call__(self, kind: Kind) -> str:
        self._made += 1
        digits = sha256(f"{self._seed}/{kind}/{self._made}".encode()).hexdigest()
        return PREFIXES[kind] + digits[:32]


class Clock:
    """A clock that advances only when the test sets it, or by one second at each reading."""

    def __init__(self, now: int = START, step: int = 1_000_000) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def salts(seed: str = "") -> Callable[[int], bytes]:
    """Random bytes that are the same in every run."""
    drawn = 0

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        out = b""
        while len(out) < size:
            out += sha256(f"{seed}/{drawn}/{len(out)}".encode()).digest()
        return out[:size]

    return draw


def large_text() -> str:
    """A text that no store keeps in a row: 150 KB that hardly compress."""
    return "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(50_000))


def find(
    store: StorePort, session: str, collection: str, key: str, *, at: int | None = None
) -> Entry | None:
    """The record that answers to a key; None if none does."""
    found = store.entries(session, collection, at=at, keys=[key])
    assert len(found) < 2, found
    return found[0] if found else None


def lineage(parent: SessionRecord, seq: int) -> list[Segment]:
    """The segments of a session that is forked from `parent` at a seq."""
    low = lent_upto(parent.lineage)
    whole = [*parent.lineage, Segment(session=parent.id, after=low, upto=seq)]
    return [
        msgspec.structs.replace(part, upto=min(part.upto, seq))
        for part in whole
        if part.after < seq
    ]


class Drafts:
    """Drafts for one session, under one epoch (0: no lease)."""

    def __init__(self, ids: Ids, session: str, epoch: int = 0) -> None:
        self.ids = ids
        self.session = session
        self.epoch = epoch

    def make(self, kind: str, *changes: Change, **fields: Any) -> Draft:
        """Any draft; every other method is a common case of this one."""
        fields.setdefault("id", self.ids("commit"))
        fields.setdefault("epoch", self.epoch)
        return Draft(session=self.session, kind=kind, changes=changes, **fields)

    def open(self, name: str, *, key: str = KEY, **fields: Any) -> Draft:
        record = SessionRecord(id=self.session, name=name, **fields)
        return self.make("open", Upsert("session", record), key=key, actor="system")

    def fork(self, name: str, parent: SessionRecord, at: Commit, **fields: Any) -> Draft:
        record = SessionRecord(
            id=self.session,
            name=name,
            lineage=lineage(parent, at.seq),
            mode=parent.mode,
            parent=Parent(session=parent.id, seq=at.seq, hash=at.hash, kind="fork"),
            project=parent.project,
            tenant=parent.tenant,
            **fields,
        )
        return self.make("fork", Upsert("session", record), actor="system", epoch=0)

    def run(self) -> Draft:
        return self.make("run", run=self.ids("run"))

    def turn(self, prompt: str = "go on", **fields: Any) -> Draft:
        return self.make("turn", actor="user", input=prompt, **fields)

    def continued(self) -> Draft:
        return self.make("turn", status=CONTINUED)

    def turn_end(self, status: str = "ok") -> Draft:
        return self.make("turn_end", status=status)

    def entry(self, text: str, **fields: Any) -> Draft:
        return self.make("entry", actor="model", output=text, **fields)

    def call(self, tool: str = "read_file", value: Any = None, **fields: Any) -> Draft:
        """An intent. `call=` names an earlier call of which this is another attempt."""
        identifier = self.ids("commit")
        fields = {"effect": "write", "call": retype(identifier, "call"), "attempt": 1} | fields
        return self.make("call", id=identifier, tool=tool, input=value, **fields)

    def outcome(self, intent: Draft | Commit, value: Any = "done", **fields: Any) -> Draft:
        fields = {"status": "ok", "output": value} | fields
        return self.make(
            "outcome",
            actor="tool",
            call=intent.call,
            tool=intent.tool,
            attempt=intent.attempt,
            **fields,
        )

    def in_doubt(self, intent: Draft | Commit, cause: str = "timeout") -> Draft:
        return self.make(
            "outcome",
            call=intent.call,
            tool=intent.tool,
            attempt=intent.attempt,
            status="in doubt",
            cause=cause,
        )

    def settle(self, intent: Draft | Commit, status: str = "ok") -> Draft:
        return self.make("settlement", call=intent.call, tool=intent.tool, status=status)

    def decision(self, what: str, topic: str = "", **fields: Any) -> Draft:
        record = DecisionRecord(what=what, topic=topic, **fields)
        return self.make("decision", Upsert("decisions", record))

    def file(self, path: str, op: FileOp = "modified", **fields: Any) -> Draft:
        return self.make("file", Upsert("files", FileRecord(path=path, op=op, **fields)))

    def fact(self, name: str, value: Any = True, **fields: Any) -> Draft:
        return self.make("fact", Upsert("facts", FactRecord(name=name, value=value)), **fields)

    def forget(self, name: str) -> Draft:
        return self.make("fact", Remove("facts", name))

    def plan(self, step: str, status: StepStatus = "pending", order: int = 0) -> Draft:
        return self.make("plan", Upsert("plan", PlanRecord(step=step, status=status, order=order)))

    def erase(self, seq: int, *fields: str) -> Draft:
        """Erase fields of a commit (none named: all of its content)."""
        return self.make("erasure", Erase(seq=seq, fields=fields), why="asked to")

    def erase_record(self, collection: str, identifier: str) -> Draft:
        """Erase every put of a record."""
        return self.make("erasure", Erase(collection=collection, id=identifier), why="asked to")


class Story:
    """One session in one store, extended commit by commit."""

    def __init__(self, store: StorePort, drafts: Drafts) -> None:
        self.store = store
        self.drafts = drafts

    @property
    def session(self) -> str:
        return self.drafts.session

    @property
    def row(self) -> SessionRow:
        return self.store.session(self.session)

    @property
    def log(self) -> list[Commit]:
        return self.store.commits(self.session)

    def add(self, *drafts: Draft) -> Commit:
        """Append drafts in one transaction; returns the commit of the last one."""
        return self.store.append(self.session, drafts)[-1]

    def drive(self, program: str = "a test") -> Story:
        """Acquire the lease and start a run."""
        lease = self.store.acquire(self.session, Holder(epoch=0, program=program, host="here"))
        self.drafts.epoch = lease.epoch
        self.add(self.drafts.run())
        return self

    def turn(self, prompt: str = "go on", **fields: Any) -> Commit:
        return self.add(self.drafts.turn(prompt, **fields))

    def continued(self) -> Commit:
        return self.add(self.drafts.continued())

    def turn_end(self, status: str = "ok") -> Commit:
        return self.add(self.drafts.turn_end(status))

    def call(self, tool: str = "read_file", value: Any = None, **fields: Any) -> Commit:
        return self.add(self.drafts.call(tool, value, **fields))

    def outcome(self, intent: Commit, value: Any = "done", **fields: Any) -> Commit:
        return self.add(self.drafts.outcome(intent, value, **fields))

    def in_doubt(self, intent: Commit, cause: str = "timeout") -> Commit:
        return self.add(self.drafts.in_doubt(intent, cause))

    def settle(self, intent: Commit, status: str = "ok") -> Commit:
        return self.add(self.drafts.settle(intent, status))

    def decision(self, what: str, topic: str = "", **fields: Any) -> Commit:
        return self.add(self.drafts.decision(what, topic, **fields))

    def file(self, path: str, op: FileOp = "modified", **fields: Any) -> Commit:
        return self.add(self.drafts.file(path, op, **fields))

    def fact(self, name: str, value: Any = True, **fields: Any) -> Commit:
        return self.add(self.drafts.fact(name, value, **fields))

    def entry(self, text: str, **fields: Any) -> Commit:
        return self.add(self.drafts.entry(text, **fields))

    def erase(self, seq: int, *fields: str) -> Commit:
        return self.add(self.drafts.erase(seq, *fields))

    def fork(self, name: str, at: int | None = None) -> Story:
        """A session that continues this one at a seq (default: its head)."""
        point = self.store.commits(self.session, upto=at, newest_first=True, limit=1)[0]
        drafts = Drafts(self.drafts.ids, self.drafts.ids("session"))
        self.store.create([drafts.fork(name, self.row.record, point)])
        return Story(self.store, drafts)


def begin(store: StorePort, name: str = "story", *, ids: Ids | None = None, **fields: Any) -> Story:
    """Open a new session; it has no driver yet."""
    ids = ids or Ids(name)
    story = Story(store, Drafts(ids, ids("session")))
    store.create([story.drafts.open(name, **fields)])
    return story


def still(row: SessionRow) -> SessionRow:
    """A session's row without the counter of its driver, which moves by itself where there is one."""
    if row.holder is None:
        return row
    return msgspec.structs.replace(row, holder=msgspec.structs.replace(row.holder, beats=0))


def counts(store: StorePort, session: str) -> Counts:
    """How much a session holds."""
    found = store.session(session, counted=True).counts
    assert found is not None
    return found
