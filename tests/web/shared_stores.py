"""Stores that take seconds to make and are only read: each is made once for all processes of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Any


class SharedStores:
    """A folder of stores."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str, make: Callable[[Path], Any]) -> Path:
        """The store of that name, which is made if it is not there."""
        place = self._folder / name
        place.mkdir(parents=True, exist_ok=True)
        with open(place / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "made").exists():
                make(place / "store.db")
                (place / "made").touch()
        return place / "store.db"
