"""Expectations of a replay: what a recorded turn asked for, in order, compared with a program that runs it again.

Continuing a turn needs only that nothing is done twice. A replay wants more: the same things asked for, in
the same order but for what ran at once, and nothing left over. Decisions only; `runtime.replay.engine` drives.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from stator.model.calls.known import (
    MODEL,
    WITHDRAWN,
    Known,
    KnownCall,
    Scrub,
    is_redacted,
    says,
)
from stator.model.calls.life import Outcome
from stator.model.extraction.evidence import origin_parts
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    Draft,
    Gone,
)
from stator.model.log.delta import Put
from stator.model.log.rewinds import TAG
from stator.model.log.secret_bytes import redacted_reading
from stator.model.records.tables import COMPARED
from stator.model.records.types import ChildRecord
from stator.model.values import json_text
from stator.model.values.ids import short

CueKind = Literal["answer", "call", "child"]
NEVER = 2**53
"""The seq of what is not on record."""
SHOWN_MAX = 4000
"""Characters of a value that a report shows."""
_ITEMS = re.compile(r"\d+ items?\Z")
_SECRET = re.compile(r"‹secret:[^›]*›")


class Cue(msgspec.Struct, kw_only=True):
    """One thing the record says the program asks for."""

    kind: CueKind
    seq: int
    """Where it was asked for."""
    end: int = NEVER
    """Where what became of it was recorded."""
    commit: str = ""
    name: str = ""
    """The tool's, or the child's."""
    given: Any = None
    call: KnownCall | None = None
    entry: Commit | None = None
    failed: Outcome | None = None
    """How a question to the model ended that was not answered."""
    child: ChildRecord | None = None
    after: int = 0
    """Turns a child had reached before."""
    turns: int = NEVER
    redacted: bool = False
    erased: bool = False
    taken: bool = False

    @property
    def asked(self) -> str:
        """In words, for a report."""
        if self.kind == "answer":
            return "an answer of the model"
        if self.kind == "child":
            return f"the child {self.name!r:.80}"
        return f"a call of {self.name}"


class ProgramRequest(msgspec.Struct, kw_only=True):
    """What the program asks for now."""

    kind: CueKind
    name: str = ""
    given: Any = None
    key: str = ""
    origin: tuple[str, str] | None = None
    hashes: Sequence[str] = ()

    @property
    def asked(self) -> str:
        return Cue(kind=self.kind, seq=0, name=self.name).asked


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program leaves its record: what was expected, what came, and which commit says so."""

    what: str
    turn: int = 0
    place: int = 0
    """Which of the things the turn asks for, counted from 1; 0: none of them."""
    seq: int = 0
    commit: str = ""
    session: str = ""
    expected: dict[str, Any] | None = None
    got: dict[str, Any] | None = None
    diff: str = ""

    def __str__(self) -> str:
        where = f"t{self.turn}" + (f" no. {self.place}" if self.place else "")
        where += f" @{self.seq}" if self.seq else ""
        where += f" ({short(self.commit)})" if self.commit else ""
        return f"{where}: {self.what}" + (f"\n{self.diff}" if self.diff else "")


class Script:
    """What one recorded turn asks for. Not thread-safe: the replay engine locks."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        kept = list(as_seen(commits))
        self.nested = sum(commit.kind == "call" for commit in commits) - sum(
            commit.kind == "call" for commit in kept
        )
        self.cues = sorted(_cues(kept), key=lambda cue: cue.seq)
        self._marks = [commit for commit in kept if _is_mark(commit)]
        self._taken: set[int] = set()
        ends = [commit for commit in commits if commit.kind == "turn_end"]
        self.status = ends[-1].status if ends else ""
        self.cause = ends[-1].cause if ends else ""
        self.last = ends[-1].seq if ends else 0

    @property
    def place(self) -> int:
        """The number of what comes next."""
        return sum(cue.taken for cue in self.cues) + 1

    @property
    def left(self) -> list[Cue]:
        """What was not asked for yet."""
        return [cue for cue in self.cues if not cue.taken]

    def take(self, asking: ProgramRequest) -> Cue | None:
        """The cue for what is asked for, if its time has come."""
        for cue in self._due():
            if cue.kind == asking.kind and _fits(cue, asking):
                cue.taken = True
                return cue
        return None

    def _due(self) -> list[Cue]:
        """The next cue, and those that ran beside it: begun before it ended, or asked for with it."""
        left = self.left
        if not left:
            return []
        first = left[0]
        return [cue for cue in left if cue is first or cue.seq < first.end or _siblings(first, cue)]

    def mark(self, draft: Draft, scrub: Scrub | None) -> tuple[Commit | None, bool]:
        """The commit that recorded what a draft says, and whether it says the same."""
        free = [c for c in self._marks if c.seq not in self._taken and c.kind == draft.kind]
        same = next((commit for commit in free if says(commit, draft, scrub)), None)
        found = same or next((c for c in free if not self._inside(c)), None)
        if found is not None:
            self._taken.add(found.seq)
        return found, same is not None or (found is not None and _hidden(found))

    def unmade(self) -> list[Commit]:
        """Records the program has not made, but for those that tools made while they ran."""
        return [c for c in self._marks if c.seq not in self._taken and not self._inside(c)]

    def inside(self) -> list[Commit]:
        """Records made while a tool ran: by the tool, as far as the log shows."""
        return [commit for commit in self._marks if self._inside(commit)]

    def _inside(self, commit: Commit) -> bool:
        return any(c.kind == "call" and c.seq < commit.seq < c.end < NEVER for c in self.cues)


def as_seen(commits: Sequence[Commit]) -> Iterator[Commit]:
    """The commits of a turn as the last program to run it saw them.

    Without what tools asked for while they ran, since no tool runs; and without what became known of a
    call in doubt only after the program had seen the doubt.
    """
    nested = {commit.call for commit in commits if commit.kind == "call" and commit.parent}
    continued = _continued(commits)
    for commit in commits:
        late = commit.kind == "settlement" and commit.seq > continued
        if commit.call in nested or (late and commit.cause != "reconciled"):
            continue
        yield commit


def _continued(commits: Iterable[Commit]) -> int:
    """Where the turn was last continued; 0 if never."""
    found = [c.seq for c in commits if c.kind == "turn" and c.status == CONTINUED]
    return max(found, default=0)


def _cues(commits: Sequence[Commit]) -> Iterator[Cue]:
    by_seq = {commit.seq: commit for commit in commits}
    for call in Known(commits).calls:
        if call.cause == WITHDRAWN:
            continue
        begun = by_seq[call.seq]
        yield Cue(
            kind="call",
            seq=call.seq,
            end=NEVER if call.ending is None else call.ending.seq,
            commit=begun.id,
            name=call.tool,
            given=call.given,
            call=call,
            redacted=is_redacted(begun, "input"),
            erased=isinstance(begun.content.get("input"), Gone),
        )
    yield from _answers(commits)
    yield from _children(commits)


def _answers(commits: Sequence[Commit]) -> Iterator[Cue]:
    """Requests to the model: with their answer, or with their failure if the program saw it."""
    asks: dict[str, Cue] = {}
    for commit in commits:
        if commit.tool == MODEL and commit.kind == "call" and commit.origin is None:
            given = commit.known("input")
            fresh = Cue(kind="answer", seq=commit.seq, commit=commit.id, name=MODEL, given=given)
            asks.setdefault(commit.call, fresh)
        elif commit.kind == "outcome" and commit.call in asks:
            cue = asks[commit.call]
            cue.end, cue.failed = commit.seq, None if commit.status == "ok" else _failure(commit)
        elif commit.kind == "entry" and commit.call in asks:
            cue = asks[commit.call]
            cue.end, cue.entry, cue.commit = commit.seq, commit, commit.id
    continued = _continued(commits)
    for cue in asks.values():
        if (cue.failed is None and cue.entry is not None) or (
            cue.failed is not None and cue.seq > continued
        ):
            yield cue


def _failure(commit: Commit) -> Outcome:
    said = commit.known("output")
    return Outcome(
        call=commit.call,
        tool=commit.tool,
        status=commit.status,  # type: ignore[arg-type]
        cause=commit.cause,
        error=str(said.get("message", "")) if isinstance(said, dict) else "",
        attempts=commit.attempt or 1,
        replayed=True,
    )


def _children(commits: Sequence[Commit]) -> Iterator[Cue]:
    begun: dict[str, Cue] = {}
    for commit in commits:
        record = _child(commit)
        if record is None:
            continue
        if commit.status == "started":
            after = commit.known("input") or {}
            begun[record.session] = Cue(
                kind="child",
                seq=commit.seq,
                commit=commit.id,
                name=record.name,
                child=record,
                after=int(after.get("after", 0)),
            )
            yield begun[record.session]
        elif record.session in begun:
            cue = begun[record.session]
            cue.end = commit.seq
            cue.turns = int((commit.known("output") or {}).get("turns", NEVER))


def _child(commit: Commit) -> ChildRecord | None:
    if commit.kind != "child":
        return None
    found = (op.record for op in commit.delta if isinstance(op, Put))
    return next((record for record in found if isinstance(record, ChildRecord)), None)


def child_sessions(commits: Iterable[Commit]) -> list[str]:
    """The sub-agents some commits speak of, in the order they began."""
    found = [record.session for commit in commits if (record := _child(commit))]
    return list(dict.fromkeys(found))


def _is_mark(commit: Commit) -> bool:
    """Whether the program itself made this record. The contents of files, the tags that rewinds leave and what rules
    found are put there by the runtime."""
    if commit.kind not in COMPARED or not commit.epoch or origin_parts(commit.origin) is not None:
        return False
    if commit.kind == "entry":
        return not commit.call
    if commit.kind == "tag":
        puts = [op.record for op in commit.delta if isinstance(op, Put)]
        return not any(getattr(record, "name", "").startswith(TAG) for record in puts)
    return commit.kind != "file" or bool(commit.delta)


def _siblings(one: Cue, other: Cue) -> bool:
    """Whether one response asked for both: they may have run at once."""
    a, b = (cue.call.origin if cue.call else None for cue in (one, other))
    return bool(a and b) and _response(a) == _response(b)


def _response(origin: tuple[str, str] | None) -> str:
    return "" if origin is None else origin[1].partition("/")[0]


def _fits(cue: Cue, asking: ProgramRequest) -> bool:
    if cue.kind == "answer":
        return True
    if cue.name != asking.name:
        return False
    call = cue.call
    if call is None:
        return True
    if asking.key or call.key:
        return call.key == asking.key
    if call.origin and asking.origin and call.origin[0] == asking.origin[0] == MODEL:
        return call.origin == asking.origin
    return (
        call.input_hash in asking.hashes
        or cue.erased
        or (cue.redacted and alike(cue.given, asking.given))
    )


def same_arguments(cue: Cue, asking: ProgramRequest) -> bool:
    """Whether a call that was found by its key has the arguments it had."""
    known = "" if cue.call is None else cue.call.input_hash
    return cue.erased or known in asking.hashes or alike(cue.given, asking.given)


def same_question(recorded: Any, asked: Mapping[str, Any]) -> bool:
    """Whether the model was asked with the same options, as far as the record has them. How many messages
    or tools it was sent is left out: what they are is never recorded with a question."""
    if not isinstance(recorded, dict):
        return True  # erased, or recorded by something that kept nothing of it
    before, now = (
        {k: v for k, v in given.items() if not _counted(v)} for given in (recorded, asked)
    )
    return alike(before, now)


def _counted(value: Any) -> bool:
    return isinstance(value, str) and bool(_ITEMS.match(value))


def alike(recorded: Any, given: Any) -> bool:
    """Whether a value is what was recorded, but for the secrets that were taken out."""
    if isinstance(recorded, str):
        return isinstance(given, str) and _alike(_SECRET.split(recorded), given)
    if isinstance(recorded, bytes) and (clean := redacted_reading(recorded)) is not None:
        return isinstance(given, bytes) and _alike(_SECRET.split(clean.text), clean.reread(given))
    if isinstance(recorded, dict):
        return (
            isinstance(given, dict)
            and recorded.keys() == given.keys()
            and all(alike(item, given[key]) for key, item in recorded.items())
        )
    if isinstance(recorded, (list, tuple)):
        return (
            isinstance(given, (list, tuple))
            and len(recorded) == len(given)
            and all(map(alike, recorded, given))
        )
    return bool(recorded == given)


def _alike(parts: list[str], given: str) -> bool:
    """Whether a text has these parts in this order, from its beginning to its end."""
    if len(parts) == 1:
        return parts[0] == given
    at = len(parts[0])
    if not given.startswith(parts[0]):
        return False
    for part in parts[1:-1]:
        found = given.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return given.endswith(parts[-1]) and len(given) - len(parts[-1]) >= at


def _hidden(commit: Commit) -> bool:
    """Whether a record cannot be compared: part of it was erased, or was a secret."""
    return any(
        isinstance(item, Gone) or is_redacted(commit, name) for name, item in commit.content.items()
    )


# -- explaining -----------------------------------------------------------------------------------


def unified(expected: Any, got: Any) -> str:
    """How two values differ, as a unified diff of their JSON, one field a line."""
    before, after = (_spread(value).splitlines() for value in (expected, got))
    lines = difflib.unified_diff(before, after, "recorded", "now", lineterm="", n=2)
    return "\n".join(lines)[:SHOWN_MAX]


def _spread(value: Any) -> str:
    if isinstance(value, str):
        return value[:SHOWN_MAX]
    plain = json_text.clean(value)
    return json.dumps(plain, ensure_ascii=False, indent=2, sort_keys=True)[:SHOWN_MAX]


def explain(script: Script, asking: ProgramRequest, turn: int) -> Divergence:
    """Why what is asked for is not what the record has next."""
    got = _shown(asking.kind, asking.name, asking.given)
    left = script.left
    base: dict[str, Any] = {"turn": turn, "place": script.place, "got": got}
    if not left:
        said = f"nothing more is on record in this turn, and the program asks for {asking.asked}"
        return Divergence(what=said, seq=script.last, **base)
    cue = left[0]
    base |= {"seq": cue.seq, "commit": cue.commit}
    base["expected"] = _shown(cue.kind, cue.name, cue.given)
    if cue.kind == asking.kind == "call" and cue.name == asking.name:
        said = f"{cue.name} was called with other arguments"
        return Divergence(what=said, diff=unified(cue.given, asking.given), **base)
    said = f"the record has {cue.asked} here, and the program asks for {asking.asked}"
    later = [c for c in left[1:] if c.kind == asking.kind and _fits(c, asking)]
    if later:
        said += f", which the record has later, at @{later[0].seq}"
    return Divergence(what=said, **base)


def leftover(script: Script, turn: int) -> Divergence | None:
    """What the record has in a turn that the program ended without asking for it."""
    left = script.left
    if not left:
        return None
    cue = left[0]
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return Divergence(
        what=f"the program ended the turn and never asked for {cue.asked}{more}",
        turn=turn,
        place=script.place,
        seq=cue.seq,
        commit=cue.commit,
        expected=_shown(cue.kind, cue.name, cue.given),
    )


def _shown(kind: CueKind, name: str, given: Any) -> dict[str, Any]:
    if kind == "call":
        return {"tool": name, "arguments": given}
    return {"child": name} if kind == "child" else {"model": given}
