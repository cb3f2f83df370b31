"""Shows a progress bar on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stator.surfaces.cli.render.screen import Screen

ProgressCallback = Callable[[str, int, int], None]
"""Called with a description, the amount done and the total amount (0: unknown)."""


@contextmanager
def bar(screen: Screen, *, of_bytes: bool = False) -> Iterator[ProgressCallback | None]:
    """A callback that updates a progress bar; None if stderr is not a terminal."""
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

        def update(what: str, done: int, total: int) -> None:
            from stator.surfaces.cli.render.escape import bounded

            progress.update(
                task, description=bounded(what, 60), completed=done, total=total or None
            )

        yield update
