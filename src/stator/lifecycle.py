"""Lifecycle: the types that `store.lifecycle` and `store.doubts` give.

with stator.connect() as store:
    store.lifecycle.pause("fix-login")  # a live driver stops at its next call
    for doubt in store.doubts.open("fix-login"):
        store.doubts.settle(doubt.call, "not done", why="the bank has no such payment")
"""

from __future__ import annotations

from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.settlement import Doubt, Settled, Verdict
from stator.runtime.facade.outside import Doubts, Lifecycle

__all__ = ["Doubt", "Doubts", "Lifecycle", "Moved", "Settled", "Verdict"]
