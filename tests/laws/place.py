"""A store that a history is told to, with a clock and ids of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

import stator
from stator import testing

PRINCIPAL, OTHER = "local:law", "local:ann"
Durability = Literal["full", "barrier", "relaxed"]


def numbered_ids(seed: str) -> Callable[[str], str]:
    """Ids that are the same for the same history in every store."""
    rng = random.Random(seed)
    prefixes = {"session": "s_", "turn": "t_", "call": "c_", "commit": "k_", "run": "r_"}
    return lambda kind: prefixes[kind] + f"{rng.getrandbits(128):032x}"


class Place:
    """A store that can be closed and opened again; in memory, or a file in a folder."""

    def __init__(self, folder: Path | None, name: str, durability: Durability = "relaxed") -> None:
        self.folder, self.name, self.durability = folder, name, durability
        self.clock = testing.FakeClock(tick_s=0.001)
        self.mint = numbered_ids(name)
        self.store = self._open()

    def _open(self) -> stator.Store:
        if self.folder is None:
            store = testing.memory_store(self.clock, project=self.name, root="/project")
        else:
            path = self.folder / f"{self.name}.db"
            store = stator.connect(path, durability=self.durability, project=self.name)
        store.context = msgspec.structs.replace(
            store.context,
            clock=self.clock,
            mint=self.mint,
            sleep=self.clock.advance,
            monotonic=self.clock.monotonic,
            principal=PRINCIPAL,
            root="/project",
            policy=str,
            below=lambda store: (
                ""
            ),  # the real one names this process, which only the store in a file knows
            boot=str,
        )
        return store

    def reopen(self) -> None:
        """What a new process finds: everything cached by this one is gone."""
        if self.folder is not None:
            self.store.close()
            self.store = self._open()

    def close(self) -> None:
        self.store.close()
