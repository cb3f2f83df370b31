"""Stator: session state for AI agents. The part that stays fixed while the agent turns.

    import stator

    with stator.open("fix-login", agent="my-agent") as s:
        with s.turn("fix the login bug") as t:
            source = t.call(read_file, path="auth.py")
            t.decide("use JWT", topic="auth", why="no shared session store")
    print(s.diff())

Everything here is loaded when it is first used; importing `stator` itself does nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from stator import aio, errors
    from stator.connect import connect, open
    from stator.errors import ApprovalNeeded, BudgetSpent, InDoubt, NotDone, Paused, StatorError
    from stator.model.approval import Rule
    from stator.model.call import Outcome, Result
    from stator.runtime.reading import SessionView
    from stator.runtime.runs import Run
    from stator.runtime.sessions import Session
    from stator.runtime.stores import Store
    from stator.runtime.tools import tool
    from stator.runtime.turns import Turn

__version__ = "0.4.0"

__all__ = [
    "ApprovalNeeded",
    "BudgetSpent",
    "InDoubt",
    "NotDone",
    "Outcome",
    "Paused",
    "Result",
    "Rule",
    "Run",
    "Session",
    "SessionView",
    "StatorError",
    "Store",
    "Turn",
    "aio",
    "connect",
    "errors",
    "open",
    "tool",
]

_HOMES = {
    "ApprovalNeeded": "stator.errors",
    "BudgetSpent": "stator.errors",
    "InDoubt": "stator.errors",
    "NotDone": "stator.errors",
    "Outcome": "stator.model.call",
    "Paused": "stator.errors",
    "Result": "stator.model.call",
    "Rule": "stator.model.approval",
    "Run": "stator.runtime.runs",
    "Session": "stator.runtime.sessions",
    "SessionView": "stator.runtime.reading",
    "StatorError": "stator.errors",
    "Store": "stator.runtime.stores",
    "Turn": "stator.runtime.turns",
    "aio": "stator.aio",
    "connect": "stator.connect",
    "errors": "stator.errors",
    "open": "stator.connect",
    "tool": "stator.runtime.tools",
}


def __getattr__(name: str) -> object:
    """PEP 562: fetch a public name from its home on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stator' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(home)
    found = (
        module if home == f"stator.{name}" and name in ("aio", "errors") else getattr(module, name)
    )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
