"""The working folder, stores and child processes that a section of `wording.py` uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from compat import commits
from compat.make import opened
from stator.runtime.facade.store import Store


class Place:
    """A folder of its own for one section."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()

    def open(self, seed: str = "", *, store: str = "main", later_s: int = 0) -> Store:
        """A store, by name. Each opening needs a seed of its own: ids are made from it."""
        path = str(self.folder / f"{store}.db")
        root = str(self.root)
        return opened(path, root, seed=seed, later_s=later_s, durability="relaxed")

    def die(self, seed: str, work: Callable[[Store], object]) -> None:
        """Run `work` in another process, which ends by `killed`; no store may be open here."""
        child = os.fork()
        if child == 0:
            try:
                work(self.open(seed))
            finally:
                os._exit(1)  # it must have been killed
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"{seed}: the process was not killed"

    def lines(self) -> Iterator[commits.Line]:
        """Every commit of every store here; sessions of other stores than `main` have its name before theirs."""
        for path in sorted(self.folder.glob("*.db")):
            with self.open("read", store=path.stem) as store:
                for one in commits.lines(store):
                    prefix = "" if path.stem == "main" else f"{path.stem}: "
                    yield {**one, "session": prefix + one["session"]}


Section = Callable[[Place], None]


def killed(*_: object, **__: object) -> None:
    """End this process at once, as `kill -9` does; accepts any arguments of a tool."""
    os.kill(os.getpid(), 9)
