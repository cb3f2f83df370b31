"""Tells a history to a store: carries each step out through the public API, and in the oracle too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from laws.branch_acts import BranchActs
from laws.call_acts import CallActs
from laws.keeping_acts import KeepingActs
from laws.record_acts import RecordActs


class Teller(RecordActs, CallActs, BranchActs, KeepingActs):
    """Everything that a history can do."""


@contextlib.contextmanager
def telling(folder: Path | None, scratch: Path, *, watch: bool = True) -> Iterator[Teller]:
    """A teller that gives its stores back."""
    teller = Teller(folder, scratch, watch=watch)
    try:
        yield teller
    finally:
        teller.close()
