"""Tells a history to a store: what every act needs, and what is compared after each.

What an act needs and is not there (an open turn, a driven session) is made first, so that any act can
follow any other.
"""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import stator
from laws import values
from laws.answers import Contradiction, fields_of, hold, key_of
from laws.histories import Step
from laws.oracle import COLLECTIONS, NOT_MODELLED, SETTLE, Told, Version
from laws.place import Place
from laws.provider_rules import RULES, refused
from stator import errors

RULES_OF_CALLS = (
    stator.Rule(tool="forbidden*", action="deny"),
    stator.Rule(tool="asked*", action="ask"),
)
LEARNED = {
    "calls": ("since", "cause", "attempt"),
    "tags": ("hash",),
    "children": ("kind", "name", "status"),
}
FOREIGN = ("value", "factors")


class Telling:
    """One history, as it is told to one store."""

    def __init__(self, folder: Path | None, scratch: Path, *, watch: bool = True) -> None:
        self.place = Place(folder, "here")
        self.other: Place | None = None
        self.folder, self.scratch = folder, scratch
        self.watch = watch
        self.sessions: list[Told] = []
        self.session: Any = None
        self.turn: Any = None
        self.batching = False
        self.number = 0
        self.steps = 0
        self.seen: dict[str, int] = {}
        """Session → the seq up to which its log was read."""
        self.before_compaction: tuple[int, Any] | None = None
        self.told = Told("")
        self._open_new("task")

    def close(self) -> None:
        with contextlib.suppress(errors.StatorError):
            self.leave()
        self.place.close()
        if self.other is not None:
            self.other.close()

    def tell(self, steps: list[Step]) -> None:
        for name, arguments in steps:
            self.steps += 1
            getattr(self, f"do_{name}")(**arguments)
            self.note()
            if self.watch:
                self.look()

    @property
    def store(self) -> stator.Store:
        return self.place.store

    def view(self, told: Told | None = None) -> Any:
        if told is None and self.session is not None:
            return self.session
        return self.store.read((told or self.told).id)

    def next(self) -> int:
        self.number += 1
        return self.number

    def _open_new(self, name: str) -> None:
        self.session = self.store.open(name, rules=RULES_OF_CALLS)
        self.told = Told(self.session.id)
        self.sessions.append(self.told)
        self.note()

    def driven(self) -> Any:
        """The session, driven by this program."""
        if self.session is None:
            self.session = self.store.open(self.told.id, rules=RULES_OF_CALLS)
            self.told.status = "active"
            self.note()
        return self.session

    def in_turn(self) -> Any:
        """A turn that is open."""
        if self.turn is None:
            self.begin("go on")
        return self.turn

    def begin(self, prompt: str, key: str = "") -> None:
        session = self.driven()
        self.note()
        prompt = f"prompt-{self.next():05d} {prompt}"  # no two are the same
        with warnings.catch_warnings(action="ignore"):  # a key decides, whatever the prompt says
            turn = session.turn(prompt, key=key)
        turn.__enter__()
        if turn.reused or turn.continued:  # recorded before: this program has nothing to add
            turn.__exit__(None, None, None)
            self.told.turns[turn.number] = "?"
            self.note()
            return
        self.turn = turn
        self.told.turns[turn.number] = ""
        self.told.prompts[turn.number] = prompt
        self.note()

    def end_turn(self, how: str = "ok") -> None:
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        if how == "abort":
            turn.abort("enough")
        error = ValueError("it broke") if how == "raise" else None
        turn.__exit__(type(error) if error else None, error, None)
        status = {"ok": "ok", "raise": "interrupted", "abort": "aborted"}[how]
        self.told.turns[turn.number] = status

    def leave(self, how: str = "pause") -> None:
        """Stop driving."""
        if how != "raise":
            self.end_turn()
        if self.session is None:
            return
        session, self.session = self.session, None
        if how == "raise":
            error = ValueError("it broke")
            if self.turn is not None:
                turn, self.turn = self.turn, None
                turn.__exit__(ValueError, error, None)
                self.told.turns[turn.number] = "interrupted"
            session.__exit__(ValueError, error, None)
        else:
            getattr(session, how)()
        self.told.status = "closed" if how == "close" else "paused"

    def note(self) -> None:
        """Read what the log has since; learn ids and seqs, and keep a picture of this position."""
        if self.batching:
            return
        told = self.told
        after = self.seen.get(told.id, 0)
        head = self.store.port.head(told.id).seq
        if head > after:
            for commit in self.store.port.commits(told.id, after=after, limit=10_000):
                self._learn(told, commit)
        told.fresh.clear()
        self.seen[told.id] = head
        told.snapshots[head] = told.copy_live()
        told.evicted[head] = sorted(e.key for e in self.store.port.entries(told.id, "evicted"))

    def _learn(self, told: Told, commit: Any) -> None:
        if commit.kind == "turn" and commit.status != "continued":
            told.begun[commit.turn] = commit.seq
        for op in commit.delta:
            record = getattr(op, "record", None)
            if record is None:
                continue
            if op.collection == "files" and commit.kind != "rewind" and hasattr(record, "path"):
                seqs = told.touched.setdefault(record.path, [])
                if commit.seq not in seqs:
                    seqs.append(commit.seq)
            self._learn_id(told, commit.seq, op, record)

    def _learn_id(self, told: Told, seq: int, op: Any, record: Any) -> None:
        """The first record of this act that has this key and no seq yet is the one that was put."""
        key = key_of(op.collection, record, op.id)
        nameless = op.collection == "decisions" and key[:1] == ("#",)
        for version in told.fresh:
            if version.collection != op.collection or version.seq:
                continue
            if version.key != (("#", version.id) if nameless else key):
                continue
            if nameless and version.id and version.id != op.id:
                continue  # a rewind brings several back: their ids tell them apart
            if version.id and version.id != op.id:
                raise Contradiction(f"{op.collection} {key} was {version.id} and is {op.id} @{seq}")
            told.named(version, op.id, seq)
            if op.collection == "artifacts":
                told.contents.setdefault((record.name, seq), None)
            return

    def look(self) -> None:
        """The state of the session is what the oracle says, and every provider accepts its transcript."""
        self.compare()
        if self.turn is not None:
            self.check_messages(self.turn)
            self.check_prompts(self.turn)

    def check_messages(self, turn: Any) -> None:
        for provider in RULES:
            wrong = refused(provider, turn.messages(provider))
            if wrong:
                raise Contradiction(f"{provider} refuses the transcript: {wrong}")

    def check_prompts(self, turn: Any) -> None:
        """The model sees the request of every turn that counts, and of no turn that was rewound."""
        told = self.told
        shown = str(turn.messages("plain"))
        behind = told.gone_back_behind(self._head())
        for number, prompt in told.prompts.items():
            name = prompt.split()[0]
            if number in behind and name in shown:
                raise Contradiction(f"the request of rewound turn {number} is still shown: {name}")
            if number in behind or number not in told.begun or told.compactions:
                continue
            if name not in shown:
                raise Contradiction(f"the request of turn {number} is not shown: {name}")

    def compare(self, told: Told | None = None) -> None:
        """Every modelled collection of a session, record by record."""
        told = told or self.told
        self.compare_state(f"the head of {told.id}", told.live, self.view(told).state())

    def compare_state(self, where: str, expected: Any, state: Any) -> None:
        for name in COLLECTIONS:
            if name in NOT_MODELLED:
                continue
            wanted = {v.key: v for v in expected[name].values()}
            found = {key_of(name, record, i): (i, record) for i, record in state[name].items()}
            hold(f"keys of {name} at {where}", sorted(found), sorted(wanted))
            for key, version in wanted.items():
                identifier, record = found[key]
                if version.id and version.id != identifier:
                    raise Contradiction(
                        f"id of {key} in {name} at {where}: {identifier}, was {version.id}"
                    )
                if not version.erased:
                    self._compare_record(f"{key} in {name} at {where}", name, version, record)

    def _compare_record(self, where: str, name: str, version: Version, record: Any) -> None:
        found = fields_of(record)
        if name == "pending" and version.data["what"].startswith(SETTLE):
            return
        for field in LEARNED.get(name, ()):
            found.pop(field, None)
        for field in FOREIGN:
            if field in found:
                value = values.read_recorded(found.pop(field))
                if not values.same(value, version.data[field]):
                    raise Contradiction(f"{field} of {where}: {value!r}, {version.data[field]!r}")
        wanted = {k: v for k, v in version.data.items() if k not in FOREIGN}
        if name == "plan" and wanted["status"] == "done":  # no step of these histories has a check
            wanted |= {"status": "claimed", "because": "it names no check", "shown_by": 0}
        if isinstance(old := wanted.get("supersedes"), Version):
            wanted["supersedes"] = old.id
        hold(where, found, {k: v for k, v in wanted.items() if k not in LEARNED.get(name, ())})

    def position(self, nth: int) -> int:
        """One of the positions that the oracle has a picture of."""
        seqs = sorted(seq for seq in self.told.snapshots if seq)
        return seqs[nth % len(seqs)]

    def _head(self) -> int:
        return int(self.store.port.head(self.told.id).seq)

    def all_calls(self, session: str) -> list[Any]:
        return list(reversed(self.store.read(session).calls(limit=10_000)))
