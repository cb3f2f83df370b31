"""The same drafts give the same rows, for ever: what the store writes, against the path of 0.10 (`path_of_0_10`).

Random drafts of every kind, good ones and bad ones, with secrets and with content that becomes a blob, go into a
store with a fixed clock and fixed salts; the old path makes a row of each by itself. Ids, hashes, salts, bodies and
blobs must be equal byte by byte, what the tail knows must be equal, and so must each refusal.
"""

from __future__ import annotations

import hmac
import os
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from contract import path_of_0_10 as old
from stator.errors import StatorError
from stator.model.log.commit import CONTINUED, Draft, Provenance, Remove, Reset, Upsert
from stator.model.log.delta import Put
from stator.model.log.redact import Redactor
from stator.model.log.seal import admitted
from stator.model.records.tables import KINDS, REMOVALS
from stator.model.records.types import (
    AppRecord,
    ApprovalRecord,
    ArtifactRecord,
    DecisionRecord,
    Entry,
    FactRecord,
    FileRecord,
    PlanRecord,
    ScratchRecord,
    SessionRecord,
    WorkingRecord,
)
from stator.model.values.ids import retype, to_bytes
from stator.store.contract.drive import KEY, START, Drafts, Ids, salts
from stator.store.drafts import next_turn, with_recorded_origin
from stator.store.sqlite import SqliteStore, create
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import SEQ_BITS, SEQ_MASK, Tailed

LOG = "SELECT k & ?, id, hash, salts, body FROM log WHERE k BETWEEN ? AND ? ORDER BY k"
BLOBS = """SELECT DISTINCT digest, data, size FROM blob JOIN blob_use ON blob.k = blob_use.blob
    WHERE blob_use.log BETWEEN ? AND ?"""
SECRETS = [
    "export API_KEY=sk-ant-" + "api03-" + "Zx9" * 12,
    "postgres://ada:h4rd-2-guess@db/x",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    '{"password": "correct horse 7"}',
]
NOISE = random.Random(7).randbytes(60_000).hex()
"""Text that hardly compresses: of 30,000 characters and more it becomes a blob."""
TEXTS = [
    "",
    "ok",
    "error",
    "in doubt",
    "shell",
    CONTINUED,
    "a longer text of structure",
    "é",
    *SECRETS,
]
BAD_TEXTS = ["\ud800", 7, None, b"bytes"]
CALLS = ["c_" + "1" * 32, ""]
CONTENTS = [
    *(None, True, 0, 7, 2.5, -0.0, 2**70, "", "text", "é😀", "x" * 9_000, b"\x00bytes", (1, "two")),
    *(
        ["l", {"k": 1}],
        {"$f": "1"},
        {"k": {"é": [1.5, None]}},
        {"\ud800": "\ud83d"},
        Decimal("1.50"),
    ),
    *(datetime(2026, 1, 2, 3, tzinfo=UTC), ["--api-key", SECRETS[2]], {"password": "hunter22"}),
    *({"command": secret, "n": 1} for secret in SECRETS),
    *SECRETS,
    *(NOISE[:size] for size in (8_300, 12_000, 16_500, 30_000, 120_000)),
    {"log": NOISE[:20_000], "why": NOISE[:9_000]},
]
BAD_CONTENTS = [float("nan"), object(), {1: 2}, 2**20_000]
GOOD: dict[str, list[Any]] = {
    "actor": ["agent", "user", "tool", "model", "system"],
    "attempt": [0, 1, 2],
    "call": CALLS,
    "cause": TEXTS,
    "effect": ["", "read", "write", "idempotent"],
    "happened": [0, START - 5, START + 10**12],
    "input": CONTENTS,
    "inputs": [(), (1,), (1, -2), ("k_" + "3" * 32,), (SECRETS[2],)],
    "key": TEXTS,
    "origin": [None, ("hook", "1"), ("hook", SECRETS[2])],
    "output": CONTENTS,
    "output_summary": TEXTS,
    "parent": CALLS,
    "principal": TEXTS,
    "provenance": [
        Provenance(),
        Provenance("web", "unverified"),
        Provenance("model", "unverified"),
    ],
    "run": ["", "r_" + "4" * 32],
    "status": TEXTS,
    "tool": TEXTS,
    "trace": TEXTS,
    "usage": [None, {"tokens": 3}, {SECRETS[2]: 1}],
    "why": TEXTS,
}
BAD: dict[str, list[Any]] = {
    "actor": ["nobody", 7],
    "attempt": [-1, 2**53, True, "1"],
    "call": ["c_nonsense", "k_" + "2" * 32],
    "input": BAD_CONTENTS,
    "inputs": [(-3,), ("x", ("a", "b")), [1], (None,)],
    "origin": [("hook",), ("hook", 7)],
    "output": BAD_CONTENTS,
    "parent": ["t_" + "1" * 32],
    "provenance": [Provenance("moon", "verified"), None],  # type: ignore[arg-type]
    "run": ["r_none", 7],
    "usage": [{"tokens": "3"}, {"\ud800": 1}, []],
    **dict.fromkeys(("cause", "status", "tool", "trace", "why", "key", "principal"), BAD_TEXTS),
}
BAD_CHANGES: list[Any] = [
    Upsert("facts", PlanRecord(step="a", status="done")),
    Upsert("nowhere", FactRecord(name="a", value=1)),
    Upsert("facts", FactRecord(name="\ud800", value=1)),
    Upsert("facts", FactRecord(name="k" * 5000, value=1)),
    Upsert("plan", PlanRecord(step="a", status=b"done")),  # type: ignore[arg-type]
    Reset("facts", "r1", "a", FactRecord(name="a", value={"$t": [1]})),
    Remove("facts", "never"),
    ("facts", "a"),
]
KINDS_HERE = sorted(KINDS - REMOVALS - {"open", "fork"})
OFTEN = ["turn", "call", "call", "outcome", "outcome", "entry", "fact", "file", "turn_end"]


def change(of: random.Random) -> Any:
    name = of.choice("abc")
    value = of.choice(CONTENTS[:18])
    made: list[Any] = [
        Upsert("facts", FactRecord(name=name, value=value)),
        Upsert("facts", FactRecord(name="token", value=of.choice(SECRETS))),
        Upsert("scratch", ScratchRecord(name=name, value=value)),
        Upsert("app", AppRecord(name=name, value=value)),
        Upsert("plan", PlanRecord(step=name, status=of.choice(["pending", "done"]))),
        Upsert("files", FileRecord(path=name + ".py", op="modified", after=of.choice(["", "d"]))),
        Upsert("files", FileRecord(path="b.py", from_path="a.py", op="renamed")),
        Upsert("decisions", DecisionRecord(what=of.choice(TEXTS), topic=of.choice(["", "db"]))),
        Upsert("artifacts", ArtifactRecord(name=name)),
        Upsert("working_set", WorkingRecord(name=name, kind="app")),
        Upsert("approvals", ApprovalRecord(tool=name)),
        Remove("facts", name),
    ]
    return of.choice(made)


def draft(of: random.Random, make: Drafts, call: str) -> Draft:
    """A draft of any kind; one of six has something wrong in it. `call`: of an earlier draft."""
    kind = of.choice(OFTEN) if of.random() < 0.7 else of.choice([*KINDS_HERE, "nothing"])
    names = of.sample(sorted(GOOD), of.randrange(8))
    given: dict[str, Any] = {name: of.choice(GOOD[name]) for name in names}
    changes = [change(of) for _ in range(of.choice([0, 0, 1, 1, 2, 3]))]
    if of.random() < 0.1:
        wrong = of.choice(sorted(BAD))
        given[wrong] = of.choice(BAD[wrong])
    elif of.random() < 0.1:
        changes.append(of.choice(BAD_CHANGES))
    given["id"] = make.ids("commit")
    if given.get("origin") in GOOD["origin"][1:]:  # else it would be found, and not appended
        given["origin"] = ("hook", f"{given['origin'][1]} {given['id']}")
    if kind == "turn_end":  # an end that says no status was taken, and is refused now
        given["status"] = given.get("status") or "ok"
    if kind in ("call", "outcome", "settlement", "approval") and "status" in given:
        # a call of another status was taken, and is refused now
        given["status"] = of.choice(["", "started", "ok", "error", "in doubt"])
    if kind == "call" and "call" not in given:
        given["call"] = retype(given["id"], "call")
    elif kind in ("outcome", "settlement", "approval"):
        given.setdefault("call", call)
    return make.make(kind, *changes, **given)


class OldLog:
    """A log that the old path writes: what it needs of the state, the rows, and what a tail knows of each."""

    def __init__(self, record: SessionRecord, digest: old.Digest) -> None:
        self.record = record
        self.redactor: Redactor | None = None
        self.rows: list[tuple[int, bytes, bytes, bytes, bytes]] = []
        self.blobs: dict[bytes, tuple[bytes, int]] = {}
        self.tail: list[Tailed] = []
        self.seq = self.turn = 0
        self.turn_open = False
        self.hash = "0" * 64
        self._digest = digest
        self._state: dict[tuple[str, str], Entry] = {}
        self._ids: dict[str, int] = {}

    def find(self, collection: str, key: str) -> Entry | None:
        return self._state.get((collection, key))

    def all(self, collection: str) -> Sequence[Entry]:
        found = (entry for (name, _), entry in self._state.items() if name == collection)
        return sorted(found, key=lambda entry: entry.seq)

    def locate(self, identifier: str) -> int:
        return self._ids.get(identifier, 0)

    def append(self, draft: Draft, at: int, draw: old.Salts) -> None:
        if draft.origin is not None:  # it was looked for first, as it is recorded
            with_recorded_origin(draft, self.redactor)
        if self.seq:
            draft = admitted(draft, self.record, 0)
        place = old.Place(self.seq + 1, next_turn(draft, self), at, self.hash)
        made = old.seal(draft, place, self, self.redactor, draw)
        commit = made.commit
        row = old.to_row(commit, self._digest)
        self.rows.append((commit.seq, row.id, row.hash, row.salts, row.body))
        self.blobs.update({address: (data, size) for address, data, size in row.blobs})
        self.tail.append(old.tailed(commit, made.keys))
        self.seq, self.turn, self.hash = commit.seq, commit.turn, commit.hash
        self.turn_open = {"turn": True, "turn_end": False}.get(commit.kind, self.turn_open)
        self._ids[commit.id] = commit.seq
        for op, key in zip(commit.delta, made.keys, strict=True):
            self._state.pop((op.collection, key), None)
            if isinstance(op, Put):
                entry = Entry(op.collection, op.id, key, commit.seq, commit.turn, op.record)
                self._state[op.collection, key] = entry
                if isinstance(op.record, SessionRecord):
                    self.record = op.record


class BothPaths:
    """Sessions in a store of today, each beside an old log. One store for all examples: making one takes a while."""

    def __init__(self, path: str, redact: bool) -> None:
        create(path)
        self.now = START
        self.drawn = 0
        self.redact = redact
        self.ids = Ids(f"rows {redact}")
        self.store = SqliteStore(
            path, durability="relaxed", redact=redact, clock=lambda: self.now, salts=self.salts
        )

    def begin(self) -> None:
        """Begin a session."""
        self.now += 1_000
        self.make = Drafts(self.ids, self.ids("session"))
        opening = self.make.open(self.make.session[-8:], mode="recorded")
        record: Any = opening.changes[0].record  # type: ignore[union-attr]
        secret = self.store._blob_key
        self.old = OldLog(record, lambda data: hmac.digest(secret, data, "sha256"))
        self.old.redactor = Redactor(bytes.fromhex(KEY)) if self.redact else None
        self.drawn = 0
        self.store.create([opening])
        self.drawn = 0
        self.old.append(opening, self.now, self.salts)
        self.old.tail.clear()  # creating flushes

    def salts(self, size: int) -> bytes:
        """They depend on the time of the append alone."""
        self.drawn += 1
        return salts(f"{self.now}/{self.drawn}")(size)

    def append(self, draft: Draft) -> bool:
        """Whether both have taken it; else both have refused it with the same words."""
        self.now += 1_000
        answers: list[tuple[object, ...]] = []
        for work in (self._new, self._old):
            self.drawn = 0
            try:
                answers.append(work(draft))
            except StatorError as error:
                answers.append((type(error), str(error), error.hint))
        assert answers[0] == answers[1]
        return len(answers[0]) == 2

    def _new(self, draft: Draft) -> tuple[object, ...]:
        (commit,) = self.store.append(self.make.session, [draft], fresh=True)
        return commit.seq, commit.hash

    def _old(self, draft: Draft) -> tuple[object, ...]:
        self.old.append(draft, self.now, self.salts)
        return self.old.seq, self.old.hash

    def check(self) -> None:
        live = self.store._appender.live.get(self.make.session)
        # After a refusal nothing is believed any more; the next append reads the tail again.
        if live is not None:
            tail = live.place.tail.commits
            assert [item.hash for item in tail] == [row[2].hex() for row in self.old.rows[1:]]
            assert [msgspec.structs.replace(item, hash="") for item in tail] == self.old.tail
        with self.store._reading() as db:
            own = one(db, "SELECT s FROM session WHERE id = ?", (to_bytes(self.make.session),))
            low, high = own[0] << SEQ_BITS, (own[0] + 1) << SEQ_BITS
            log = many(db, LOG, (SEQ_MASK, low, high))
            blobs = many(db, BLOBS, (low, high))
        assert log == self.old.rows
        assert {digest: (data, size) for digest, data, size in blobs} == self.old.blobs


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, BothPaths]]:
    folder = tmp_path_factory.mktemp("rows")
    found = {redact: BothPaths(str(folder / f"{redact}.db"), redact) for redact in (True, False)}
    yield found
    for both in found.values():
        both.store.close()


@pytest.mark.parametrize("redact", [True, False], ids=["redacted", "plain"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("STATOR_EXAMPLES", "100")) // 10))
def test_a_draft_becomes_the_row_that_it_became_in_0_10(
    paths: dict[bool, BothPaths], seed: int, redact: bool
) -> None:
    both = paths[redact]
    both.begin()
    of, call = random.Random(seed), ""
    for _ in range(60):
        made = draft(of, both.make, call)
        if both.append(made) and made.kind == "call":
            call = made.call
    both.check()


@pytest.mark.parametrize("redact", [True, False], ids=["redacted", "plain"])
def test_what_is_no_draft_at_all_is_refused_with_the_same_words(
    paths: dict[bool, BothPaths], redact: bool
) -> None:
    both = paths[redact]
    both.begin()
    odd: Any = ("facts", "a")
    for fields_of_it in (
        {"run": 7},
        {"why": b"bytes"},
        {"kind": None},
        {"changes": [odd]},
        {"origin": ("hook",)},
    ):
        both.append(msgspec.structs.replace(both.make.make("fact"), **fields_of_it))
    both.append(both.make.make("fact", odd))
    both.check()


@pytest.mark.parametrize("redact", [True, False], ids=["redacted", "plain"])
def test_words_that_were_seen_before_hide_neither_a_secret_nor_a_wrong_field(
    paths: dict[bool, BothPaths], redact: bool
) -> None:
    both = paths[redact]
    both.begin()
    plain = {"tool": "deploy", "cause": "asked for it"}
    secret = {**plain, "cause": "key ghp_" + "a1B2c3D4" * 4 + "e5F6"}
    for words in (plain, secret, plain, secret):
        both.append(both.make.make("fact", **words))
        both.append(both.make.make("fact", **words, trace="ghp_" + "a1B2c3D4" * 4 + "e5F6"))
        both.append(msgspec.structs.replace(both.make.make("fact", **words), key=None))
        both.append(msgspec.structs.replace(both.make.make("fact", **words), tool=["deploy"]))
        both.append(msgspec.structs.replace(both.make.make("fact", **words), attempt=-1.5))
    both.check()
