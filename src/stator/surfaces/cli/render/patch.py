"""Patches on a screen: escaped and coloured for people; through a pipe exactly as they are, so that
`git apply` and `patch` take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stator.model.views.patch import FilePatch, text_of
from stator.surfaces.cli.render.escape import lines
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

STYLES = {"+": "added", "-": "removed", "@": "id", "#": "dim", "d": "bold"}
HEADERS = ("+++ ", "--- ")


def show(screen: Screen, patches: Sequence[FilePatch]) -> None:
    """Every patch, one after the other."""
    if screen.is_terminal:
        screen.whole(coloured(patches))
    else:
        screen.verbatim(text_of(patches))


def coloured(patches: Iterable[FilePatch]) -> Iterator[Line]:
    """The lines of patches as a terminal may show them."""
    for shown in lines(text_of(patches)):
        if shown:
            style = "bold" if shown.startswith(HEADERS) else STYLES.get(shown[:1], "")
            yield Line(shown, style)


def plain(patch: FilePatch) -> dict[str, Any]:
    """A patch for programs."""
    found: dict[str, Any] = msgspec.structs.asdict(patch)
    return found
