"""Carries out the effects of a call's life, synchronously or on an event loop."""

from __future__ import annotations

from typing import Protocol

from stator.model.calls.life import (
    Answer,
    Await,
    Life,
    Note,
    Outcome,
    Pause,
    Reconcile,
    RunTool,
    ToolRaised,
    ToolReturned,
)


class Hands(Protocol):
    """What a synchronous driver needs to be able to do."""

    def append(self, note: Note) -> Answer: ...
    def run(self, effect: RunTool) -> ToolReturned | ToolRaised: ...
    def pause(self, effect: Pause) -> None: ...
    def answer(self) -> Answer: ...
    def reconcile(self, effect: Reconcile) -> Answer: ...


class AsyncHands(Protocol):
    """The same, awaited."""

    async def append(self, note: Note) -> Answer: ...
    async def run(
        self, effect: RunTool
    ) -> tuple[ToolReturned | ToolRaised, BaseException | None]: ...
    async def pause(self, effect: Pause) -> None: ...
    async def answer(self) -> Answer: ...
    async def reconcile(self, effect: Reconcile) -> Answer: ...


def drive(life: Life, hands: Hands) -> Outcome:
    """Run a call to its outcome. An interrupt is recorded, then raised again: if it were raised at once, the
    log would have an intent without an outcome, and a write would be in doubt for no reason."""
    answer: Answer = None
    interrupt: BaseException | None = None
    while True:
        try:
            effect = life.send(answer)
        except StopIteration as end:
            if interrupt is not None:
                raise interrupt from None
            return end.value  # type: ignore[no-any-return]
        if isinstance(effect, Note):
            answer = hands.append(effect)
        elif isinstance(effect, RunTool):
            answer = hands.run(effect)
            if isinstance(answer, ToolRaised) and not isinstance(answer.error, Exception):
                interrupt = answer.error
        elif isinstance(effect, Pause):
            answer = hands.pause(effect)  # type: ignore[func-returns-value]
        elif isinstance(effect, Await):
            answer = hands.answer()
        else:
            answer = hands.reconcile(effect)


async def adrive(life: Life, hands: AsyncHands) -> Outcome:
    """The same on an event loop. A cancellation is recorded, then raised again, also where the tool
    could still finish."""
    answer: Answer = None
    interrupt: BaseException | None = None
    while True:
        try:
            effect = life.send(answer)
        except StopIteration as end:
            if interrupt is not None:
                raise interrupt from None
            return end.value  # type: ignore[no-any-return]
        if isinstance(effect, Note):
            answer = await hands.append(effect)
        elif isinstance(effect, RunTool):
            answer, interrupt = await hands.run(effect)
        elif isinstance(effect, Pause):
            answer = await hands.pause(effect)  # type: ignore[func-returns-value]
        elif isinstance(effect, Await):
            answer = await hands.answer()
        else:
            answer = await hands.reconcile(effect)
