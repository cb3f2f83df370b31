"""Remembers what must be known of a call until its result comes, in a form that a cursor can hold."""

from __future__ import annotations

from typing import Any

import msgspec

from stator.importers.reading.fields import record
from stator.model.exchange.items import Step, Touch
from stator.model.records.types import Effect

CALLS_MAX = 64
"""The most calls without a result that are remembered; the oldest are forgotten."""
TOUCHES_MAX = 20
"""The most files of one call that are remembered."""
STEPS_MAX = 50
"""The most steps of a plan that are remembered; a longer plan is not recorded."""


class AwaitedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call without a result."""

    tool: str = ""
    effect: Effect = "write"
    files: tuple[Touch, ...] = ()
    """The files it touches if it succeeds."""
    steps: tuple[Step, ...] = ()
    """The plan it sets if it succeeds."""


class AwaitedCalls:
    """The calls without a result, by our id."""

    def __init__(self, state: Any) -> None:
        self._calls: dict[str, AwaitedCall] = {}
        for name, given in record(state).items():
            try:
                self._calls[name] = msgspec.convert(given, AwaitedCall)
            except msgspec.ValidationError:
                continue  # a cursor that another program changed

    def add(self, name: str, call: AwaitedCall) -> None:
        files = call.files if len(call.files) <= TOUCHES_MAX else ()
        steps = call.steps if len(call.steps) <= STEPS_MAX else ()
        self._calls[name] = msgspec.structs.replace(call, files=files, steps=steps)
        while len(self._calls) > CALLS_MAX:
            del self._calls[next(iter(self._calls))]

    def pop(self, name: str) -> AwaitedCall | None:
        return self._calls.pop(name, None)

    def state(self) -> dict[str, Any]:
        return {name: msgspec.to_builtins(call) for name, call in self._calls.items()}
