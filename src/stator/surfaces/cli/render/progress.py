"""Shows a progress bar on stderr, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from stator.surfaces.cli.render.screen import Screen

ProgressCallback = Callable[[str, int, int], None]
"""Called with a description, the amount done and the total amount (0: unknown)."""
PATIENCE_S = 0.3
"""A progress bar appears when updating the index takes longer than this."""


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


@contextmanager
def delayed_bar(screen: Screen, clock: Callable[[], float]) -> Iterator[ProgressCallback]:
    """A progress callback that shows a bar only if the work takes a while."""
    began = clock()
    shown: list[ProgressCallback | None] = []
    with ExitStack() as stack:

        def update(what: str, done: int, total: int) -> None:
            if not shown and clock() - began > PATIENCE_S:
                shown.append(stack.enter_context(bar(screen)))
            if shown and shown[0] is not None:
                shown[0](what, done, total)

        yield update
