"""Begins the turns of a run: as new ones, or as those on record that the program has reached again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from stator.errors import Diverged, Erased
from stator.model.calls import known as replay
from stator.model.calls.known import Known, Scrub
from stator.model.calls.once import Attempt, TurnPart, fate, is_stuck
from stator.model.calls.program import turn_at
from stator.model.log.commit import CONTINUED, CONTINUES, Commit, Draft, Gone, Provenance
from stator.model.log.query import TurnRow
from stator.model.values import canon
from stator.model.values.ids import retype
from stator.runtime.base.context import Context
from stator.runtime.driving import recovery
from stator.runtime.driving.again import once
from stator.runtime.driving.recovery import LastRun
from stator.store.port import StorePort

FROM_USER = Provenance("user", "verified")
Changed = Literal["warn", "raise"]
"""What to do about a turn whose key is on record with another prompt."""


class TurnStart(msgspec.Struct):
    """How a turn began: as a new one, or found in the record of an earlier run."""

    id: str
    number: int
    how: Literal["new", "continued", "reused"] = "new"
    known: Callable[[], Known] | None = None
    """Reads what is on record of it, or of earlier attempts."""
    value: Callable[[], Any] = lambda: None
    """Reads the value it ended with."""
    attempt: int = 1
    group: tuple[int, ...] = ()
    """The numbers under which it is recorded, also in earlier attempts."""


class RunWriter(Protocol):
    """What a driver gives to begin turns with."""

    store: StorePort
    id: str
    context: Context
    asked_by: str

    @property
    def scrub(self) -> Scrub: ...
    def check_terms(self, *, turns: bool = False) -> None: ...
    def draft(self, kind: str, **fields: Any) -> Draft: ...
    def append(self, drafts: Sequence[Draft]) -> list[Commit]: ...


class TurnStarts:
    """The turns that one run begins, in order."""

    def __init__(self, driver: RunWriter, last_run: LastRun) -> None:
        self._driver = driver
        self._store, self._session = driver.store, driver.id
        self._last_run = last_run
        self.place = last_run.place
        """How many turns the program has begun."""
        self._matching = True
        """Whether this run has so far begun the same turns as the run before it."""

    def program(self) -> dict[str, Any]:
        """What the run's first commit says of the program it is a run of."""
        found: dict[str, Any] = {}
        if self._last_run.spans:
            found["program"] = self._last_run.spans
        launch = self._driver.context.launch
        if launch is not None:
            found["launch"] = [launch.id, launch.start, launch.process]
            found["place"] = self.place
        return found

    def forget(self) -> None:
        """After a rewind: what was rewound is not found any more."""
        self._matching = False
        self._last_run = recovery.cut(self._store, self._session, self._last_run)

    def begin(self, prompt: Any, *, key: str, new: bool, changed: Changed) -> TurnStart:
        """Begin a turn, or find the one on record that the program has reached again."""
        self._driver.check_terms()
        self.place += 1
        if key:
            return self._begin_keyed(prompt, key, new=new, changed=changed)
        past = None if new else self._past(prompt)
        return self._begin_new(prompt) if past is None else self._again(past)

    def _begin_new(self, prompt: Any, *, key: str = "") -> TurnStart:
        self._driver.check_terms(turns=True)
        # The program has left its record here. Later turns that happen to begin with the same
        # prompt would be given results that were computed for something else, so that matching
        # by place stops at the first mismatch. Turns with a key are still found.
        self._matching = False
        commit = self._append_turn(prompt, key=key)
        return TurnStart(retype(commit.id, "turn"), commit.turn, group=(commit.turn,))

    def _append_turn(self, prompt: Any, **fields: Any) -> Commit:
        fields = {"attempt": self.place, "actor": "user", "provenance": FROM_USER, **fields}
        if self._driver.asked_by:
            fields.setdefault("inputs", (self._driver.asked_by,))
        return self._driver.append([self._driver.draft("turn", input=prompt, **fields)])[0]

    # -- turns without a key ----------------------------------------------------------------------

    def _past(self, prompt: Any) -> TurnPart | None:
        """The recorded turn that this one is, if the same program runs again."""
        number = turn_at(self._last_run.spans, self.place) if self._matching else None
        if number is None:
            return None
        found = recovery.past(self._store, self._session, number)
        asked = replay.same_value(found.first, "input", prompt, self._driver.scrub)
        return found if asked else None

    def _again(self, past: TurnPart) -> TurnStart:
        row = past.row
        start = TurnStart(retype(past.first.id, "turn"), row.turn, "reused", group=(row.turn,))
        start.value = lambda: self._value(row)
        if row.status != "interrupted" or self._store.head(self._session).turn != row.turn:
            start.known = lambda: recovery.known(self._store, self._session, row)
            return start
        known = recovery.known(self._store, self._session, row)
        self._reopen()
        start.how, start.known = "continued", lambda: known
        return start

    def _reopen(self) -> None:
        """Continue the last turn under its number."""
        again = self._driver.draft("turn", status=CONTINUED, attempt=self.place, actor="system")
        self._driver.append([again])

    # -- turns with a key -------------------------------------------------------------------------

    def _begin_keyed(self, prompt: Any, key: str, *, new: bool, changed: Changed) -> TurnStart:
        """Begin the turn of a key, or answer it from the record, or continue it (see `model.calls.once`)."""
        store, session = self._store, self._session
        tried = once.attempts_at(store, session, key, self._driver.scrub)
        found = fate(tried, new=new)
        if found != "new":
            self._check_prompt(prompt, key, tried[-1].first, changed)
        log = once.log_of(store, session, tried[-1]) if found == "continued" else []
        if found == "reused":
            start = self._answered(tried)
        elif found == "continued" and not is_stuck(log):
            known = Known(log, once.calls_of(store, session, tried[:-1]))
            start = self._continue(prompt, key, tried[-1])
            start.known, start.attempt = lambda: known, len(tried)
        else:
            calls = once.calls_of(store, session, tried)
            start = self._begin_new(prompt, key=key)
            start.known = (lambda: Known((), calls)) if calls else None
            start.attempt = len(tried) + 1
        parts = (part.row.turn for attempt in tried for part in attempt.parts)
        start.group = (*parts, start.number)
        return start

    def _answered(self, tried: list[Attempt]) -> TurnStart:
        row = tried[-1].row
        return TurnStart(
            retype(tried[-1].first.id, "turn"),
            row.turn,
            "reused",
            known=lambda: Known(once.log_of(self._store, self._session, tried[-1])),
            value=lambda: self._value(row),
            attempt=len(tried),
        )

    def _continue(self, prompt: Any, key: str, attempt: Attempt) -> TurnStart:
        """Continue an interrupted turn: under its number if it is the last, else under a new one."""
        identifier = retype(attempt.first.id, "turn")
        head = self._store.head(self._session)
        if head.turn == attempt.row.turn and not head.turn_open:
            self._reopen()
            return TurnStart(identifier, head.turn, "continued")
        commit = self._append_turn(prompt, key=key, status=CONTINUES, inputs=(attempt.first.seq,))
        return TurnStart(identifier, commit.turn, "continued")

    def _check_prompt(self, prompt: Any, key: str, first: Commit, changed: Changed) -> None:
        """Under its key, a turn is what it was, whatever its prompt is now: warn, or refuse it."""
        scrub = self._driver.scrub
        unknown = prompt in (None, key) or isinstance(first.content.get("input"), Gone)
        if unknown or replay.same_value(first, "input", prompt, scrub):
            return
        now = canon.from_plain(canon.to_plain(prompt, scrub=scrub))
        said = (
            f"turn {first.turn} of session {self._session} has the key {scrub(key, None)!r:.60} and began with "
            f"{first.known('input')!r:.80}; this program begins it with {now!r:.80}"
        )
        if changed == "raise":
            raise Diverged(
                said,
                hint='use another key, or begin it with new=True; without changed="raise" the key decides',
                session=self._session,
            )
        warnings.warn(f"{said}: the key decides", stacklevel=7)

    def _value(self, row: TurnRow) -> Any:
        """The value that a turn ended with; None without one, `Erased` if it is gone."""
        end = recovery.turn_end(self._store, self._session, row)
        if end is None:
            return None
        if isinstance(end.content.get("output"), Gone):
            raise Erased(
                f"turn {row.turn} of session {self._session} ended, and the value it ended with is gone",
                hint="the turn is not run again under its key; use another key, or new=True",
                commit=end.id,
                session=self._session,
            )
        if replay.is_redacted(end, "output"):
            warnings.warn(
                f"the value of turn {row.turn} of session {self._session} held a secret, which was not "
                "recorded: it has a placeholder in its place",
                stacklevel=4,
            )
        return end.value("output")
