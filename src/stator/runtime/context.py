"""What the runtime is given instead of taking: time, ids, and who is running.

Filled in by `connect` (and by `testing`, with fakes); nothing in `runtime` reads a clock, draws
randomness or looks at the environment by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stator.model.commit import Draft
from stator.model.ids import Mint


@dataclass(frozen=True)
class Context:
    """The world as the runtime sees it."""

    clock: Callable[[], int]
    """µs since 1970. Displayed and recorded; never used to order anything."""
    mint: Mint
    secret: Callable[[int], bytes]
    host: str = ""
    pid: int = 0
    program: str = ""
    principal: str = ""
    project: str = ""
    root: str = ""
    """The folder file paths are relative to; empty where there is none."""


Submit = Callable[[Draft], str]
"""Appends a draft (or adds it to the open batch) and gives its commit id."""
