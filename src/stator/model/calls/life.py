"""Runs the life of a call as a pure generator of effects.

It decides what is recorded when, what is tried again and what is known in the end; it does no I/O.
Two small drivers (`runtime.driving.effects`) carry the effects out, one synchronous, one asynchronous, so
that both kinds of tool leave the same log.

    Note("call", awaiting approval)     only where a person must say yes
    Await()         → answered with Granted, Refused or None (no answer yet)
    Note("call", started)               on disk before anything runs
    Run()           → answered with Returned(value) or Raised(error)
    Note("outcome")
    Pause()         → between attempts, where trying again does no harm

What a tool reports is `ok` or `error`. An unreported outcome is `in doubt` if the tool may have changed
something; else it is `timeout` or `cancelled`, and may run again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal

import msgspec

from stator.errors import (
    ApprovalNeeded,
    BadType,
    CallCancelled,
    CallDenied,
    CallError,
    CallFailed,
    CallTimeout,
    InDoubt,
    InvalidInput,
    NotDone,
    StatorError,
)
from stator.model.calls import backoff
from stator.model.calls.backoff import ONCE, Policy
from stator.model.log.commit import Change
from stator.model.log.shown_text import cut_short
from stator.model.records.types import CallStatus, Effect
from stator.model.values import canon
from stator.model.values.ids import short

MESSAGE_MAX = 2000
"""Characters of a tool's error message that are kept."""
Detect = Callable[[Any], str | None]
"""Looks at a result and says what is wrong with it, if anything."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may return to say how it went, without raising: `error` set means it failed."""

    value: Any = None
    error: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended. `value` is the result if `ok`; `error` is the tool's error otherwise."""

    call: str
    tool: str
    status: CallStatus
    value: Any = None
    error: str = ""
    cause: str = ""
    attempts: int = 1
    replayed: bool = False
    """Whether it comes from the record: the tool did not run now."""
    exception: BaseException | None = None

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def result(self) -> Any:
        """The value, or the typed error of a call that did not end ok."""
        if self.status == "ok":
            return self.value
        raise self.to_error() from self.exception

    def told(self) -> dict[str, Any]:
        """The text a model is sent for a call that did not end ok, so that it can branch on it."""
        kept = {"error": self.cause, "message": self.error or self.cause}
        from stator.model.window.messages import (
            KnownResult as Told,  # a reader of calls tells no model
        )

        told = Told(status=self.status, cause=self.cause, value=kept).report()
        return {**told, "call": self.call, "attempts": self.attempts}

    def to_error(self) -> CallError:
        if self.status == "in doubt":
            return InDoubt(
                f"in doubt: {self.tool} · call {short(self.call)} · {self.cause}. "
                "It may or may not have happened",
                outcome=self,
                hint=f"check, then: stator settle {short(self.call)} --done | --not-done | --run-again",
                call=self.call,
            )
        return _ERRORS.get(self.status, CallFailed)(
            f"{self.tool} {self.status}: {self.error or self.cause} · call {short(self.call)}",
            outcome=self,
            call=self.call,
        )


_ERRORS: dict[str, type[CallError]] = {
    "cancelled": CallCancelled,
    "denied": CallDenied,
    "timeout": CallTimeout,
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call as it is asked for."""

    call: str
    tool: str
    effect: Effect
    given: dict[str, Any]
    attempt: int = 1
    """The number of its first attempt here: higher if it was tried before."""
    gate: Literal["", "ask", "deny"] = ""
    awaiting: bool = False
    """Whether the request for approval is on disk already."""
    why: str = ""
    """Of the rule that asks or denies."""
    proof: str = ""
    """What the rule demands of an approval: terminal, passphrase or signed; empty: nothing."""


class Note(msgspec.Struct, frozen=True):
    """Effect: append a commit of that kind with those fields, durably, before continuing.

    Answered with None, or with `Stop` where the run has to end before anything else runs.
    """

    kind: str
    fields: dict[str, Any]


class RunTool(msgspec.Struct, frozen=True):
    """Effect: run the tool, once."""

    attempt: int


class Pause(msgspec.Struct, frozen=True):
    """Effect: wait some time between these before the next attempt."""

    least_s: float
    most_s: float


class Await(msgspec.Struct, frozen=True):
    """Effect: see what a person says to this call."""


class Reconcile(msgspec.Struct, frozen=True):
    """Effect: ask the tool what became of this call; answered with `Reconciled`."""

    call: str
    tool: str
    arguments: Any
    at: int
    attempt: int
    key: str
    """The key it was called under, if one was given."""
    input_hash: str
    occurrence: int


class Reconciled(msgspec.Struct, frozen=True):
    """What a tool found out about a call in doubt."""

    verdict: Literal["done", "not_done", "unknown"]
    value: Any = None


class ToolReturned(msgspec.Struct, frozen=True):
    value: Any
    at: float = 0.0
    """Seconds on a clock that only goes forward; what a deadline is measured on."""
    began: float = 0.0


class ToolRaised(msgspec.Struct, frozen=True):
    error: BaseException
    at: float = 0.0
    began: float = 0.0


class Granted(msgspec.Struct, frozen=True):
    """Approved; `changes` remove a used-up grant."""

    changes: tuple[Change, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """Denied, with the reason; `changes` remove a used-up denial."""

    why: str = ""
    changes: tuple[Change, ...] = ()


class Stop(msgspec.Struct, frozen=True):
    """Nothing more may run: a pause was requested, a limit is reached, or the caller is cancelled."""

    error: BaseException
    cause: str


class TimedOut(TimeoutError):
    """The tool had not answered when its time was up; it may still be at it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer after {seconds:g} s")
        self.seconds = seconds


EffectOf = Note | RunTool | Pause | Await | Reconcile
Answer = ToolReturned | ToolRaised | Granted | Refused | Reconciled | Stop | None
Life = Generator[EffectOf, Answer, Outcome]


def life(asked: Asked, policy: Policy = ONCE, detect: Detect | None = None) -> Life:
    """A call, from its request to its outcome. Raises
    `ApprovalNeeded` where a person has not answered, `BadType` after recording if the result
    cannot be recorded, and what stops the run.
    """
    if asked.gate:
        ended = yield from _gated(asked)
        if ended is not None:
            return ended
    began: float | None = None
    attempt = asked.attempt
    while True:
        if attempt > asked.attempt or not asked.gate:
            intent = {"status": "started", "input": asked.given, "attempt": attempt}
            stop = yield Note("call", intent)
            if isinstance(stop, Stop):
                yield from _stopped(stop, attempt)
        answer = yield RunTool(attempt)
        assert isinstance(answer, (ToolReturned, ToolRaised))
        began = answer.began if began is None else began
        outcome, fields, refused = judge(asked, answer, detect)
        outcome = msgspec.structs.replace(outcome, attempts=attempt)
        ending = {"status": outcome.status, "cause": outcome.cause, "attempt": attempt, **fields}
        yield Note("outcome", ending)
        if refused is not None:
            raise BadType(
                f"{asked.tool} ended ok (call {short(asked.call)}), but its result cannot be "
                f"recorded: {refused.what}",
                hint="return plain data, such as dataclasses.asdict(value)",
                call=asked.call,
            ) from refused
        pause = _again(asked, policy, outcome, attempt, answer.at - began)
        if pause is None:
            return outcome
        yield pause
        attempt += 1


def _stopped(stop: Stop, attempt: int) -> Generator[Note, Answer, None]:
    """The run has to end before the tool runs: record that nothing was done."""
    yield Note("outcome", not_run("cancelled", stop.cause, attempt))
    raise stop.error


def _gated(asked: Asked) -> Generator[EffectOf, Answer, Outcome | None]:
    """Ask for approval first. None if the call may start, else how it ended."""
    if not asked.awaiting:
        status = "awaiting approval" if asked.gate == "ask" else "requested"
        request = {"status": status, "input": asked.given, "attempt": asked.attempt}
        demand = {"proof": asked.proof} if asked.proof else {}
        yield Note("call", {**request, "why": asked.why, **demand})
    answer = (yield Await()) if asked.gate == "ask" else Refused(asked.why or "by rule")
    if isinstance(answer, Granted):
        started = {"status": "started", "changes": answer.changes, "attempt": asked.attempt}
        answer = yield Note("approval", started)
        if isinstance(answer, Stop):
            yield from _stopped(answer, asked.attempt)
        return None
    if isinstance(answer, Refused):
        fields = not_run("denied", "denied", asked.attempt, answer.why)
        yield Note("outcome", {**fields, "changes": answer.changes})
        why = answer.why or "denied"
        return Outcome(call=asked.call, tool=asked.tool, status="denied", error=why, cause="denied")
    needs = f" (proof: {asked.proof})" if asked.proof else ""
    raise ApprovalNeeded(
        f"{asked.tool} waits for a person's word{needs} · call {short(asked.call)}",
        hint=f"stator approve {short(asked.call)} or stator deny {short(asked.call)}; then run this again",
        call=asked.call,
        tool=asked.tool,
    )


def not_run(status: str, cause: str, attempt: int, message: str = "") -> dict[str, Any]:
    """The fields of the outcome of a call whose tool did not run."""
    said = {"error": cause, "message": message or f"not run: {cause}"}
    return {"status": status, "cause": cause, "attempt": attempt, "output": said}


def _again(
    asked: Asked, policy: Policy, outcome: Outcome, attempt: int, elapsed_s: float
) -> Pause | None:
    """How long to wait before the next attempt; None if no attempt is left."""
    error = outcome.exception
    if outcome.status not in ("error", "timeout") or error is None:
        return None
    tried = attempt - asked.attempt + 1
    if tried >= policy.attempts or not backoff.may_repeat(asked.effect, error):
        return None
    least, most = backoff.wait(policy, tried, error)
    if policy.deadline_s is None:
        return Pause(least, most)
    left = policy.deadline_s - elapsed_s
    return None if left <= 0 or least > left else Pause(least, min(most, left))


def judge(
    asked: Asked, answer: ToolReturned | ToolRaised, detect: Detect | None = None
) -> tuple[Outcome, dict[str, Any], InvalidInput | None]:
    """What is known of a call whose tool answered: its outcome, what to record with it, and why its
    result cannot be recorded, if so."""
    if isinstance(answer, ToolRaised):
        return *_raised(asked, answer.error), None
    value, said = answer.value, ""
    if isinstance(value, Result):
        said, value = value.error, value.value
    elif getattr(value, "isError", False) is True:
        said = "the tool says it failed"
    try:
        # A result passes the codec the first time too: what a replay gives is what was given.
        known = canon.as_recorded(value, path="$.result")
    except InvalidInput as refused:
        lost = _outcome(asked, "ok", cause="result not recordable")
        return lost, {}, refused
    cause = "reported" if said else ""
    if not said and detect is not None and (found := detect(known)):
        said, cause = found, "detected"
    if not said:
        outcome = Outcome(call=asked.call, tool=asked.tool, status="ok", value=known)
        return outcome, {"output": value}, None
    safe = _safe(said)
    kept = {"error": cause, "message": safe, "returned": value}
    return _outcome(asked, "error", value=known, error=safe, cause=cause), {"output": kept}, None


def _raised(asked: Asked, error: BaseException) -> tuple[Outcome, dict[str, Any]]:
    status, cause = verdict(asked.effect, error)
    message = (error.what if isinstance(error, StatorError) else str(error)) or type(error).__name__
    safe = _safe(message)
    outcome = _outcome(asked, status, error=safe, cause=cause, exception=error)
    return outcome, {"output": {"error": cause, "message": safe}}


def _outcome(asked: Asked, status: CallStatus, **fields: Any) -> Outcome:
    return Outcome(call=asked.call, tool=asked.tool, status=status, **fields)


def _safe(text: str) -> str:
    return cut_short(text.encode("utf-8", "replace").decode(), MESSAGE_MAX)


def verdict(effect: Effect, error: BaseException) -> tuple[CallStatus, str]:
    """What is known of a call that raised, and why."""
    if isinstance(error, NotDone):
        return "error", "not done"
    if isinstance(error, InDoubt):
        return "in doubt", "the tool does not know"
    if not isinstance(error, Exception):
        unknown: CallStatus = "in doubt" if effect == "write" else "cancelled"
        return unknown, f"interrupted by {type(error).__name__}"
    if isinstance(error, TimedOut) or backoff.is_timeout(error):
        limit = f"timeout after {error.seconds:g} s" if isinstance(error, TimedOut) else "timeout"
        return ("in doubt" if effect == "write" else "timeout"), limit
    if backoff.is_lost(error):
        return ("in doubt" if effect == "write" else "error"), "connection lost"
    return "error", type(error).__name__


def settled(found: Reconciled) -> dict[str, Any]:
    """The fields of a commit that settles a call as its tool says."""
    done = found.verdict == "done"
    value = msgspec.UNSET if not done or found.value is None else found.value
    return {"status": "ok" if done else "error", "cause": "reconciled", "output": value}
