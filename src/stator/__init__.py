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
    from stator import aio, approvals, budgets, errors, importing, lifecycle, workflows
    from stator.connect import connect, open
    from stator.errors import ApprovalNeeded, BudgetSpent, InDoubt, NotDone, Paused, StatorError
    from stator.model.calls.approval import Rule
    from stator.model.calls.life import Outcome, Result
    from stator.runtime.driving.tools import call_id, tool
    from stator.runtime.facade.run import Run
    from stator.runtime.facade.session import Session, Turn
    from stator.runtime.facade.store import Store
    from stator.runtime.facade.view import SessionView

__version__ = "0.12.0"

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
    "approvals",
    "budgets",
    "call_id",
    "connect",
    "errors",
    "importing",
    "lifecycle",
    "open",
    "tool",
    "workflows",
]

_HOMES = {
    "ApprovalNeeded": "stator.errors",
    "BudgetSpent": "stator.errors",
    "InDoubt": "stator.errors",
    "NotDone": "stator.errors",
    "Outcome": "stator.model.calls.life",
    "Paused": "stator.errors",
    "Result": "stator.model.calls.life",
    "Rule": "stator.model.calls.approval",
    "Run": "stator.runtime.facade.run",
    "Session": "stator.runtime.facade.session",
    "SessionView": "stator.runtime.facade.view",
    "StatorError": "stator.errors",
    "Store": "stator.runtime.facade.store",
    "Turn": "stator.runtime.facade.session",
    "aio": "stator.aio",
    "approvals": "stator.approvals",
    "budgets": "stator.budgets",
    "call_id": "stator.runtime.driving.tools",
    "connect": "stator.connect",
    "errors": "stator.errors",
    "importing": "stator.importing",
    "lifecycle": "stator.lifecycle",
    "open": "stator.connect",
    "tool": "stator.runtime.driving.tools",
    "workflows": "stator.workflows",
}


def __getattr__(name: str) -> object:
    """PEP 562: fetch a public name from its home on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stator' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(home)
    # `stator.connect` is a function in a module of its own name; every other such name means the module.
    found = module if home == f"stator.{name}" and name != "connect" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
