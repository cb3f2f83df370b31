"""Drives a recorded session again and compares what the program does with what it did.

Each turn has a script, made from its recorded commits (`model.calls.expectations`). Every request of the
program is compared with the script. The first thing that does not match ends the replay:
what the program does after it follows from something else, so that comparing it would only report
the same divergence again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal, NoReturn

import msgspec

from stator.errors import ApprovalNeeded, InvalidInput
from stator.model.calls import expectations as scripts
from stator.model.calls import known
from stator.model.calls.expectations import (
    Cue,
    Divergence,
    ProgramRequest,
    Script,
)
from stator.model.calls.known import is_redacted
from stator.model.calls.life import (
    Answer,
    Asked,
    EffectOf,
    Outcome,
)
from stator.model.log.commit import (
    CONTINUED,
    CONTINUES,
    Commit,
    Draft,
    Gone,
)
from stator.model.log.delta import Put
from stator.model.log.query import Lease, SessionRow
from stator.model.records.tables import COMPARED
from stator.model.values import canon
from stator.model.values.ids import retype, short
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.rewind import Rewound, check_between_turns
from stator.runtime.driving.again.turn_start import Changed, TurnStart
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.policy import Terms
from stator.runtime.driving.recovery import Recovery
from stator.runtime.driving.tools import Tool
from stator.runtime.replay.progress import Replay
from stator.runtime.replay.sources import left_by_others, own_rewinds
from stator.store.port import StorePort


class ReplayDriver(Driver):
    """Drives a recorded session through its record again. Nothing is written."""

    def __init__(
        self, play: Replay, session: str, *, first: int = 1, last: int = scripts.NEVER
    ) -> None:
        self.play = play
        log = play.source.logs[session]
        left = left_by_others(log)
        begun = [c for c in log if c.kind == "turn" and c.status != CONTINUED]
        begun = [c for c in begun if c.turn not in left or first == c.turn == last]
        self._begun = begun
        self._turns_left = [c for c in begun if first <= c.turn <= last]
        self.answered = False
        """Whether the turn that is open was answered from the record when it was recorded."""
        self._last_turn = max((c.turn for c in begun), default=0)
        low = min((c.seq for c in self._turns_left), default=scripts.NEVER)
        high = min((c.seq for c in begun if c.turn > last), default=scripts.NEVER)
        self._rewinds_left = [c for c in own_rewinds(log) if low < c.seq < high]
        start = self._turns_left[0].seq - 1 if self._turns_left else log[-1].seq
        play.reach(session, start)
        self._began_at = start
        before = play.source.turn(session, begun[0].turn - 1 if begun else 0)
        own = bool(self._turns_left) and self._turns_left[0] is begun[0]
        self.script = Script(before if own else [])
        self.number = 0
        row = play.copy.session(session)
        lease = Lease(session, 0)
        super().__init__(play.copy, row, play.context, lease, Terms(), program=[])
        self.recovered = Recovery()

    # -- nothing is written -----------------------------------------------------------------------

    def begin_run(self, row: SessionRow, known: StorePort) -> list[Commit]:
        at = self._began_at
        return self.store.commits(row.id, after=at - 1, upto=at, limit=1)

    def extract(self, draft: Draft) -> list[Draft]:
        """Nothing: what rules find was recorded then, and no program is compared with it."""
        return []

    def learn_checks(self, known: StorePort | None = None) -> None:
        """Nothing, for the same reason."""

    def append(self, drafts: Sequence[Draft], *, if_head: str | None = None) -> list[Commit]:
        raise InvalidInput("a replay writes nothing")

    def check_terms(self, *, turns: bool = False) -> None:
        self.play.check()

    def offer(self, tools: Any) -> None:
        return None

    def outside(self, what: str) -> NoReturn:
        """End the replay: the program acts in a session that is not of this record, where tools would run."""
        said = f"the program {what}, in another session: the replay cannot go on"
        self.play.diverge(Divergence(what=said[:200], turn=self.number), self.id)

    def leave(self, kind: str, reason: str, *, interrupted: bool = False) -> None:
        if not self.left:
            self.left = True
            self.on_leave("")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            self.leave("pause", "user")

    # -- comparing with the record ----------------------------------------------------------------

    def begin_turn(
        self, prompt: Any, *, key: str, new: bool, changed: Changed = "warn"
    ) -> TurnStart:
        play = self.play
        play.check()
        self._finish_records()
        if self._turns_left:
            self._check_rewound(self._turns_left[0].seq)
        got = {"prompt": prompt}
        if not self._turns_left and key and (done := self._done(key)) is not None:
            return self._answer(done)
        if not self._turns_left:
            if self.broke_off():
                play.end(f"the record ends after t{self.number}: its run was interrupted")
            said = "the record has no further turn, and the program begins one"
            play.diverge(Divergence(what=said, turn=self.number + 1, got=got), self.id)
        first = self._turns_left[0]
        pinned = self._has_key(first, key)
        self.answered = False
        if key and not pinned and (done := self._done(key)) is not None:
            return self._answer(done)
        self._turns_left.pop(0)
        if not pinned and not self._asked(first, prompt):
            recorded = first.known("input")
            found = Divergence(
                what="the turn begins with another prompt",
                turn=first.turn,
                seq=first.seq,
                commit=first.id,
                expected={"prompt": recorded},
                got=got,
                diff=scripts.unified(recorded, prompt),
            )
            play.diverge(found, self.id)
        play.reach(self.id, first.seq)
        self._follow(first)
        play.report.turns += 1
        return TurnStart(retype(first.id, "turn"), first.turn, "reused")

    def _follow(self, first: Commit) -> list[Commit]:
        """Compare the program with the turn that this commit began, or continued after later turns."""
        self.number = first.turn
        begun = first.inputs[0] if first.status == CONTINUES else first.seq
        parts = [c for c in self._begun if c.seq <= first.seq and begun in (c.seq, *c.inputs)]
        commits = [c for part in parts for c in self.play.source.turn(self.id, part.turn)]
        self.script = Script([c for c in commits if c.seq > parts[0].seq])
        return commits

    def _has_key(self, first: Commit, key: str) -> bool:
        return bool(key) and first.known("key") in (key, self.scrub(key, None))

    def _done(self, key: str) -> Commit | None:
        """The turn of a key that came before and ended: the program was given it from the record."""
        upto = self._turns_left[0].seq if self._turns_left else scripts.NEVER
        found = [c for c in self._begun if c.seq < upto and self._has_key(c, key)]
        return found[-1] if found else None

    def _answer(self, first: Commit) -> TurnStart:
        self.answered = True
        ends = [c for c in self._follow(first) if c.kind == "turn_end" and c.status == "ok"]
        value = ends[-1].known("output") if ends else None
        return TurnStart(retype(first.id, "turn"), first.turn, "reused", value=lambda: value)

    def _asked(self, first: Commit, prompt: Any) -> bool:
        if known.same_value(first, "input", prompt, self.scrub):
            return True
        if isinstance(first.content.get("input"), Gone):
            return True
        return is_redacted(first, "input") and scripts.alike(first.known("input"), prompt)

    def submit(self, draft: Draft) -> str:
        """The commit that recorded what the program records now."""
        play = self.play
        play.check()
        if draft.kind not in COMPARED:
            return draft.id
        with play.lock:
            found, same = self.script.mark(draft, self.scrub)
        if found is None:
            if not self.script.left and self.ends_here(self.number):
                play.end(f"the record ends in t{self.number}, where the program records more")
            extra = Divergence(
                what=f"the program makes a record of kind {draft.kind} that it did not make then",
                turn=self.number,
                got=_said(draft),
            )
            if draft.kind == "entry":  # the rest of the turn builds on it
                play.diverge(extra, self.id)
            play.differ(extra, self.id)
            return draft.id
        if not same:
            before, now = _recorded(found), _said(draft)
            difference = Divergence(
                what=f"a record of kind {draft.kind} says something else",
                turn=self.number,
                seq=found.seq,
                commit=found.id,
                expected=before,
                got=now,
                diff=scripts.unified(before, now),
            )
            (play.diverge if draft.kind == "entry" else play.differ)(difference, self.id)
        with play.lock:
            play.report.records += same
        play.reach(self.id, found.seq)
        return found.id

    def turn_ended(self, status: str, cause: str) -> None:
        """The program ended its turn: so must the record have."""
        script, play = self.script, self.play
        left = scripts.leftover(script, self.number)
        if left is not None:
            said = f"; it was left by {cause}" if cause else ""
            play.diverge(msgspec.structs.replace(left, what=left.what + said), self.id)
        kind, recorded = cause.partition(":")[0], script.cause.partition(":")[0]
        found = Divergence(
            what=f"the turn ended {script.status} ({script.cause})".replace(" ()", "")
            + f" in the record, and now {status} ({cause})".replace(" ()", ""),
            turn=self.number,
            seq=script.last,
        )
        if status == "interrupted" and script.status in ("ok", "aborted"):
            play.diverge(found, self.id)
        # A record that breaks off here does not show how the program would have ended.
        open_end = status != script.status and self.ends_here(self.number)
        differs = not open_end and (status, kind) != (script.status, recorded)
        if differs:
            play.differ(found, self.id)
        play.reach(self.id, script.last)

    def ends_here(self, number: int) -> bool:
        """Whether the record of this session breaks off in that turn."""
        return number == self._last_turn and self.script.status in ("", "interrupted")

    def broke_off(self) -> bool:
        """Whether the run the record is of was interrupted."""
        log = self.play.source.logs[self.id]
        ends = [c for c in log if c.kind in ("run", "resume", "run_end")]
        return bool(ends) and (ends[-1].kind != "run_end" or ends[-1].status == "interrupted")

    def _finish_records(self) -> None:
        """What the program did not record of what it had, up to here."""
        play = self.play
        for commit in self.script.unmade():
            found = Divergence(
                what=f"a record of kind {commit.kind} was made then and is not made now",
                turn=commit.turn,
                seq=commit.seq,
                commit=commit.id,
                expected=_recorded(commit),
            )
            (play.diverge if commit.kind == "entry" else play.differ)(found, self.id)
        self.script = Script([])

    def finish(self) -> None:
        """The program is done: nothing of the record may be left."""
        self.play.check()
        if self._turns_left:
            first = self._turns_left[0]
            found = Divergence(
                what="the program ended and never began this turn",
                turn=first.turn,
                seq=first.seq,
                commit=first.id,
                expected={"prompt": first.known("input")},
            )
            self.play.diverge(found, self.id)
        self._check_rewound(scripts.NEVER)
        self._finish_records()

    # -- rewinds ----------------------------------------------------------------------------------

    def rewind(self, to: str) -> Rewound:
        """Go back as the record did; what can be read is what was there then."""
        play = self.play
        play.check()
        check_between_turns(self)
        self._finish_records()
        coming = self._turns_left[0].seq if self._turns_left else scripts.NEVER
        made = next((c for c in self._rewinds_left if c.seq < coming), None)
        if made is None:
            if not self._turns_left and self.broke_off():
                play.end(f"the record ends after t{self.number}: its run was interrupted")
            said = f"the program goes back to {to}, and did not then"
            play.diverge(Divergence(what=said[:200], turn=self.number), self.id)
        self._rewinds_left.remove(made)
        target, left = made.inputs
        play.reach(self.id, int(left))
        found = rewinding.plan(self.store, self.id, to)
        if found.end != target:
            said = f"the program goes back to @{found.end} ({found.shown}), and then to @{target}"
            away = Divergence(what=said, turn=self.number, seq=made.seq, commit=made.id)
            play.diverge(away, self.id)
        play.reach(self.id, made.seq)
        self.forget_view()
        return msgspec.structs.replace(found, seq=made.seq)

    def _check_rewound(self, upto: int) -> None:
        """Where the program went back then, it must do so now."""
        for made in self._rewinds_left:
            if made.seq < upto:
                said = f"the program went back to @{made.inputs[0]} here, and does not now"
                found = Divergence(what=said, turn=self.number, seq=made.seq, commit=made.id)
                self.play.diverge(found, self.id)


class ReplayTurn(OpenTurn):
    """A turn that takes everything from its script."""

    driver: ReplayDriver

    def __init__(self, driver: ReplayDriver, prompt: Any, **options: Any) -> None:
        super().__init__(driver, prompt, **options)
        self.has_record = True
        self._script = driver.script

    def take(self, asking: ProgramRequest) -> Cue:
        """The next thing in the script, if it is what is asked for; else the replay ends."""
        self.check_open()
        play, driver = self.driver.play, self.driver
        with play.lock:
            play.check()
            cue = self._script.take(asking)
        if cue is not None:
            return cue
        if not self._script.left and driver.ends_here(self.number):
            play.end(
                f"the record ends in t{self.number}, where the program asks for {asking.asked}"
            )
        play.diverge(scripts.explain(self._script, asking, self.number), driver.id)

    # -- what a turn asks of its record -----------------------------------------------------------

    def submit(self, draft: Draft) -> str:
        self.check_open()
        return self.recorded(draft) or draft.id

    def check_verified(self, draft: Draft) -> None:
        """What the record has was checked when it was recorded."""

    def recorded(self, draft: Draft) -> str | None:
        return self.driver.submit(draft)

    def answer_from_record(
        self, asked: Asked, tool: Tool[..., Any], origin: tuple[str, str] | None
    ) -> Generator[EffectOf, Answer, Outcome | Asked]:
        yield from ()
        return self._outcome(asked.given, tool, origin)

    def _outcome(
        self, given: dict[str, Any], tool: Tool[..., Any], origin: tuple[str, str] | None
    ) -> Outcome:
        driver, play = self.driver, self.driver.play
        hashes = [known.fingerprint(given, how) for how in (driver.scrub, None)]
        asking = ProgramRequest(
            kind="call", name=tool.name, given=given, key=tool.key, origin=origin, hashes=hashes
        )
        cue = self.take(asking)
        call = cue.call
        assert call is not None
        if not scripts.same_arguments(cue, asking):
            how = "under the key it had" if call.key else "as the answer to the same request"
            found = self._divergence(
                f"{call.tool} was called with other arguments, {how}",
                cue,
                expected={"tool": call.tool, "arguments": cue.given},
                got={"tool": call.tool, "arguments": given},
                diff=scripts.unified(cue.given, given),
            )
            play.diverge(found, driver.id)
        if call.status == "awaiting approval":
            raise ApprovalNeeded(
                f"{call.tool} waited for a person's word · call {short(call.call)}",
                call=call.call,
                tool=call.tool,
            )
        if call.ending is None and driver.ends_here(self.number):
            play.end(f"the record ends in t{self.number}, before {call.tool} had an outcome")
        if call.ending is not None:
            self._held(call.ending, f"what {call.tool} returned")
            play.reach(driver.id, call.ending.seq)
        with play.lock:
            play.report.calls += 1
        return _as_told(self._script, cue)

    def _divergence(self, what: str, cue: Cue, **fields: Any) -> Divergence:
        return Divergence(
            what=what,
            turn=self.number,
            place=self._script.place - 1,
            seq=cue.seq,
            commit=cue.commit,
            **fields,
        )

    def _held(self, commit: Commit, what: str) -> None:
        """Check that the record still has what the program is to be given. An erased content is a
        divergence and no end: what comes after it would pass unchecked."""
        gone = commit.content.get("output")
        if isinstance(gone, Gone):
            hole = Divergence(
                what=f"{what} was erased by @{gone.by}: the replay cannot go on",
                turn=self.number,
                place=self._script.place - 1,
                seq=commit.seq,
                commit=commit.id,
            )
            self.driver.play.diverge(hole, self.driver.id)

    def next_entry(self, question: Mapping[str, Any] | None = None) -> Commit:
        cue = self.take(ProgramRequest(kind="answer"))
        play = self.driver.play
        if question is not None and not scripts.same_question(cue.given, question):
            difference = self._divergence(
                "the model was asked otherwise",
                cue,
                expected={"model": cue.given},
                got={"model": dict(question)},
                diff=scripts.unified(cue.given, dict(question)),
            )
            play.differ(difference, self.driver.id)
        play.reach(self.driver.id, cue.end)
        with play.lock:
            play.report.answers += 1
        if cue.failed is not None:
            raise cue.failed.to_error()
        assert cue.entry is not None
        self._held(cue.entry, "what the model said")
        return cue.entry

    # -- ending -----------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        return self._recorded_value if self.driver.answered else self._given

    def end(
        self,
        status: Literal["ok", "aborted", "interrupted"],
        cause: str,
        value: Any = msgspec.UNSET,
    ) -> None:
        self.ended, self.how = True, status
        self._given = None if value is msgspec.UNSET else canon.loads(canon.dumps(value))
        # What was answered from the record then, the program need not go through again.
        if not self.driver.play.halted and not self.driver.answered:
            self.driver.turn_ended(status, cause)


def _as_told(script: Script, cue: Cue) -> Outcome:
    """What the program was given of a call; secrets that were redacted stay out."""
    call = cue.call
    assert call is not None
    told = call.outcome()
    if call.instead:  # it was given the call because of which this one did not run
        doubt = next((c.call for c in script.cues if c.call and c.call.call == call.instead), None)
        if doubt is not None and doubt.status in ("started", "in doubt"):
            return msgspec.structs.replace(doubt.outcome(), cause=call.cause)
        if doubt is None and call.cause == known.left_in_doubt(call.instead):  # in another turn
            return msgspec.structs.replace(
                told, call=call.instead, status="in doubt", error="", value=None
            )
    if call.redacted and call.status == "ok" and call.ending is not None:
        return msgspec.structs.replace(told, value=call.ending.known("output"))
    return told


def _said(draft: Draft) -> dict[str, Any]:
    """What a draft would record, for a report."""
    said = {
        name: value
        for name in ("input", "output")
        if (value := getattr(draft, name)) is not msgspec.UNSET
    }
    records = [msgspec.to_builtins(r, enc_hook=str) for c in draft.changes if (r := _of(c))]
    return {**said, **({"records": records} if records else {})}


def _of(change: Any) -> Any:
    return getattr(change, "record", None)


def _recorded(commit: Commit) -> dict[str, Any]:
    said = {name: commit.known(name) for name in ("input", "output") if commit.has(name)}
    records = [msgspec.to_builtins(op.record) for op in commit.delta if isinstance(op, Put)]
    return {**said, **({"records": records} if records else {})}
