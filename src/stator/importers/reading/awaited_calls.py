"""Remembers what must be known of a call until its result comes, in a form that a cursor can hold."""

from __future__ import annotations

from typing import Any

import msgspec

from stator.importers.reading.fields import record
from stator.model.exchange.hunks import texts_of
from stator.model.exchange.items import Step, Touch
from stator.model.exchange.kept_contents import holds_secret
from stator.model.records.types import Effect

CALLS_MAX = 64
"""The most calls without a result that are remembered; the oldest are forgotten."""
TOUCHES_MAX = 20
"""The most files of one call that are remembered."""
STEPS_MAX = 50
"""The most steps of a plan that are remembered; a longer plan is not recorded."""
TEXT_MAX = 100_000
"""The most characters of files that are remembered, over all calls. Of a file beyond that only the digest is."""


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
        room = TEXT_MAX - sum(_length(touch) for one in self._calls.values() for touch in one.files)
        files = _within(call.files, room) if len(call.files) <= TOUCHES_MAX else ()
        steps = call.steps if len(call.steps) <= STEPS_MAX else ()
        self._calls[name] = msgspec.structs.replace(call, files=files, steps=steps)
        while len(self._calls) > CALLS_MAX:
            del self._calls[next(iter(self._calls))]

    def pop(self, name: str) -> AwaitedCall | None:
        return self._calls.pop(name, None)

    def state(self) -> dict[str, Any]:
        return {name: msgspec.to_builtins(call) for name, call in self._calls.items()}


def _within(files: tuple[Touch, ...], room: int) -> tuple[Touch, ...]:
    """Files with as much of their texts as there is room for. A text with a secret is not remembered: what is kept
    of it between two reads would be another text."""
    found: list[Touch] = []
    for touch in files:
        texts = [touch.before_text or "", touch.after_text or "", *texts_of(touch.places)]
        if _length(touch) > room or any(map(holds_secret, texts)):
            touch = msgspec.structs.replace(touch, before_text=None, after_text=None, places=())
        room -= _length(touch)
        found.append(touch)
    return tuple(found)


def _length(touch: Touch) -> int:
    texts = (touch.before_text or "", touch.after_text or "", *texts_of(touch.places))
    return sum(map(len, texts))
