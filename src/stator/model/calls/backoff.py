"""Retries: which failures may pass by themselves, how often to try again and how long to wait.

Decisions only. A read or an idempotent call may be repeated; of a write only what certainly did not
happen (`NotDone`). Nothing that is in doubt is ever repeated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stator.errors import InvalidInput, NotDone
from stator.model.records.types import Effect

ATTEMPTS_MAX = 100
PASSING_CODES = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that say: not now."""
_TIMEOUTS = ("Timeout", "TimeoutError", "TimeoutException", "TimeoutExpired")
_LOST = frozenset(
    {
        "ConnectionError",
        "APIConnectionError",
        "NetworkError",
        "ProtocolError",
        "TransportError",
        "URLError",
    }
)
"""Names of exceptions that say the other side went away, as the usual clients call them."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how patiently a call is tried."""

    attempts: int = 3
    first_s: float = 0.2
    longest_s: float = 10.0
    deadline_s: float | None = None
    """No attempt begins later than this after the first one began."""

    def check(self) -> Policy:
        if type(self.attempts) is not int or not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise InvalidInput(
                f"attempts must be a whole number from 1 to {ATTEMPTS_MAX}, got {self.attempts!r:.40}",
                path="$.attempts",
            )
        return self


ONCE = Policy(attempts=1)


def is_timeout(error: BaseException) -> bool:
    """Whether an exception says that time ran out: by its type, or by what clients call theirs."""
    return isinstance(error, TimeoutError) or any(
        kind.__name__.endswith(_TIMEOUTS) for kind in type(error).__mro__
    )


def is_lost(error: BaseException) -> bool:
    """Whether an exception says that the connection went away."""
    return any(kind.__name__ in _LOST for kind in type(error).__mro__)


def is_passing(error: BaseException) -> bool:
    """Whether the same call may well succeed a moment later."""
    if isinstance(error, NotDone) or is_timeout(error) or is_lost(error):
        return True
    return _code(error) in PASSING_CODES


def _code(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found: Any = getattr(holder, name, None)
            if type(found) is int:
                return found
    return None


def may_repeat(effect: Effect, error: BaseException) -> bool:
    """Whether trying again can neither do harm nor be pointless."""
    if isinstance(error, NotDone):
        return True
    return effect != "write" and is_passing(error)


def wait(policy: Policy, attempt: int, error: BaseException) -> tuple[float, float]:
    """(least, most) seconds to wait after that attempt: twice as long each time, or as long as the
    other side asked for."""
    asked: Any = getattr(error, "retry_after", None)
    least = float(asked) if isinstance(asked, (int, float)) and asked > 0 else 0.0
    most = min(policy.longest_s, policy.first_s * 2 ** (attempt - 1))
    return least, max(least, most)
