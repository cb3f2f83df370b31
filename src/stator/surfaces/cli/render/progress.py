"""A bar for work that takes a while: on stderr, and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stator.surfaces.cli.render.screen import Screen

Moved = Callable[[str, int, int], None]
"""(what is done, how much of it, of how much)."""


@contextmanager
def bar(screen: Screen, *, of_bytes: bool = False) -> Iterator[Moved | None]:
    """What to tell how far it is, in bytes or in whatever it is; None where nobody would see it."""
    if screen.json or not screen.colour or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn() if of_bytes else TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def moved(what: str, done: int, total: int) -> None:
            from stator.surfaces.cli.render.escape import bounded

            progress.update(
                task, description=bounded(what, 60), completed=done, total=total or None
            )

        yield moved
