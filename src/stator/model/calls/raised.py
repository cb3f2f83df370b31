"""Raises what a tool raised: the exception itself, or, when the failure comes from the record, one of its type."""

from __future__ import annotations

import builtins

from stator.errors import CallError, CallFailed
from stator.model.calls.life import Outcome, TimedOut

_LOST: dict[str, type[Exception]] = {"connection lost": ConnectionError, "timeout": TimeoutError}
"""Causes that stand for several types → the type that they have in common."""


def as_raised(outcome: Outcome) -> BaseException:
    """The exception that a caller of the bare tool would have caught for a call that did not end ok. A program
    that runs again gets its failures from the record, and must be able to catch them as it did before."""
    error, raised = outcome.to_error(), outcome.exception
    if raised is not None:
        own = outcome.status in ("error", "timeout") and not isinstance(raised, TimedOut)
        if not own:
            error.__cause__ = raised
        return raised if own else error
    if not outcome.replayed or outcome.status not in ("error", "timeout"):
        return error
    return _recorded(outcome, error)


def _recorded(outcome: Outcome, error: CallError) -> CallError:
    """An error that is also of the type on record, where this process has one type of that name."""
    kind = _LOST.get(outcome.cause) or _type_of(outcome.cause)
    if kind is None:
        return error
    try:
        both: type[CallFailed] = type(
            kind.__name__, (CallFailed, kind), {"__module__": kind.__module__}
        )
        return both(outcome.error or outcome.cause, outcome=outcome, call=outcome.call)
    except (
        TypeError
    ):  # a type that takes other arguments, or that nothing else can be a base beside
        return error


def _type_of(name: str) -> type[Exception] | None:
    """The exception type of that name: a built-in one, or the only one that was defined."""
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known
    waiting: list[type[Exception]] = [Exception]
    seen: set[type[Exception]] = set()
    found: list[type[Exception]] = []
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind in seen:
                continue
            seen.add(kind)
            waiting.append(kind)
            if kind.__name__ == name and not issubclass(kind, CallError):
                found.append(kind)
    return found[0] if len(found) == 1 else None
