"""Shows patches: escaped and coloured on a terminal; in a pipe unchanged, so that `git apply` accepts them."""

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
    """Show all patches."""
    if screen.is_terminal:
        screen.whole(coloured(patches))
    else:
        screen.verbatim(text_of(patches))


def coloured(patches: Iterable[FilePatch]) -> Iterator[Line]:
    """The lines of patches, escaped and coloured."""
    for shown in lines(text_of(patches)):
        if shown:
            style = "bold" if shown.startswith(HEADERS) else STYLES.get(shown[:1], "")
            yield Line(shown, style)


def as_json(patch: FilePatch) -> dict[str, Any]:
    """A patch as JSON."""
    found: dict[str, Any] = msgspec.to_builtins(patch)
    return found
