"""Drivers: carry out the effects of a call's life, synchronously or on an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stator.model.call import Life, Note, Outcome, Raised, Returned

Append = Callable[[Note], Any]
Answer = Returned | Raised | None


def drive(life: Life, append: Append, run: Callable[[], Any]) -> Outcome:
    """Run a call to its outcome. An interrupt is recorded, then raised again."""
    answer: Answer = None
    interrupt: BaseException | None = None
    while True:
        try:
            effect = life.send(answer)
        except StopIteration as end:
            return _ended(end.value, interrupt)
        if isinstance(effect, Note):
            append(effect)
            answer = None
            continue
        try:
            answer = Returned(run())
        except Exception as error:
            answer = Raised(error)
        except BaseException as error:
            answer, interrupt = Raised(error), error


async def adrive(
    life: Life,
    append: Callable[[Note], Awaitable[Any]],
    run: Callable[[], Awaitable[Any]],
) -> Outcome:
    """The same for a tool that is awaited; a cancellation is recorded, then raised again."""
    answer: Answer = None
    interrupt: BaseException | None = None
    while True:
        try:
            effect = life.send(answer)
        except StopIteration as end:
            return _ended(end.value, interrupt)
        if isinstance(effect, Note):
            await append(effect)
            answer = None
            continue
        try:
            answer = Returned(await run())
        except Exception as error:
            answer = Raised(error)
        except BaseException as error:
            answer, interrupt = Raised(error), error


def _ended(outcome: Outcome, interrupt: BaseException | None) -> Outcome:
    if interrupt is not None:
        raise interrupt
    return outcome
