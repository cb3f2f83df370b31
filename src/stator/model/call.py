"""The life of a call, as a pure generator of effects.

It decides what is recorded when; it does no I/O. Two small drivers (`runtime.drive`) carry the
effects out, one synchronous, one asynchronous, so that both kinds of tool leave the same log.

    Note("call")  → on disk before anything runs
    Run()         → answered with Returned(value) or Raised(error)
    Note("outcome")

What a tool reports is `ok` or `error`. What nobody reported is `in doubt` if the tool may have
changed something, and `cancelled` if it only reads.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from stator.errors import (
    BadType,
    CallCancelled,
    CallError,
    CallFailed,
    InDoubt,
    InvalidInput,
    NotDone,
    StatorError,
)
from stator.model import canon
from stator.model.ids import short
from stator.model.state import CallStatus, Effect

MESSAGE_MAX = 2000
"""Characters of a tool's error message that are kept."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended. `value` is the result if `ok`; `error` says what the tool said if not."""

    call: str
    tool: str
    status: CallStatus
    value: Any = None
    error: str = ""
    cause: str = ""
    exception: BaseException | None = None

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def result(self) -> Any:
        """The value, or the typed error of a call that did not end ok."""
        if self.ok:
            return self.value
        raise self.to_error() from self.exception

    def to_error(self) -> CallError:
        if self.status == "in doubt":
            return InDoubt(
                f"in doubt: {self.tool} · call {short(self.call)} · {self.cause}. "
                "It may or may not have happened",
                outcome=self,
                hint="check what it did before you call it again",
                call=self.call,
            )
        kind = CallCancelled if self.status == "cancelled" else CallFailed
        return kind(
            f"{self.tool} {self.status}: {self.error or self.cause} · call {short(self.call)}",
            outcome=self,
            call=self.call,
        )


class Note(msgspec.Struct, frozen=True):
    """Effect: append a commit of that kind with those fields, durably, before going on."""

    kind: str
    fields: dict[str, Any]


class Run(msgspec.Struct, frozen=True):
    """Effect: run the tool."""


class Returned(msgspec.Struct, frozen=True):
    value: Any


class Raised(msgspec.Struct, frozen=True):
    error: BaseException


Life = Generator[Note | Run, Returned | Raised | None, Outcome]


def life(call: str, tool: str, effect: Effect, given: dict[str, Any]) -> Life:
    """One attempt of a call. Raises `BadType` after recording, if the result cannot be recorded."""
    yield Note("call", {"status": "started", "input": given})
    answer = yield Run()
    if isinstance(answer, Returned):
        outcome, fields, refused = _returned(call, tool, answer.value)
    else:
        assert isinstance(answer, Raised)
        outcome, fields, refused = *_raised(call, tool, effect, answer.error), None
    yield Note("outcome", {"status": outcome.status, "cause": outcome.cause, **fields})
    if refused is not None:
        raise BadType(
            f"{tool} ended ok (call {short(call)}), but its result cannot be recorded: "
            f"{refused.what}",
            hint="return plain data, such as dataclasses.asdict(value)",
            call=call,
        ) from refused
    return outcome


def _returned(
    call: str, tool: str, value: Any
) -> tuple[Outcome, dict[str, Any], InvalidInput | None]:
    """A result passes the codec the first time too: what a replay gives is what was given."""
    try:
        known = canon.from_plain(canon.to_plain(value, path="$.result"))
    except InvalidInput as refused:
        lost = Outcome(call=call, tool=tool, status="ok", cause="result not recordable")
        return lost, {}, refused
    return Outcome(call=call, tool=tool, status="ok", value=known), {"output": value}, None


def _raised(
    call: str, tool: str, effect: Effect, error: BaseException
) -> tuple[Outcome, dict[str, Any]]:
    status, cause = _verdict(effect, error)
    message = (error.what if isinstance(error, StatorError) else str(error)) or type(error).__name__
    safe = message.encode("utf-8", "replace").decode()[:MESSAGE_MAX]
    outcome = Outcome(call=call, tool=tool, status=status, error=safe, cause=cause, exception=error)
    return outcome, {"output": {"error": cause, "message": safe}}


def _verdict(effect: Effect, error: BaseException) -> tuple[CallStatus, str]:
    """What is known of a call that raised, and why."""
    if isinstance(error, NotDone):
        return "error", "not done"
    if isinstance(error, InDoubt):
        return "in doubt", "the tool does not know"
    if isinstance(error, Exception):
        return "error", type(error).__name__
    unknown: CallStatus = "in doubt" if effect == "write" else "cancelled"
    return unknown, f"interrupted by {type(error).__name__}"
