"""Shows patches: escaped and coloured on a terminal; in a pipe unchanged, so that `git apply` accepts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.views.patch import FilePatch, part_lines, text_of
from stator.surfaces.cli.render.escape import EscapedText, lines
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.runtime.views.contents import EditPlaces

STYLES = {"+": "added", "-": "removed", "@": "id", "#": "dim", "d": "bold"}
HEADERS = ("+++ ", "--- ")
INDENT = " " * 6
COMMENTED = "#   "
"""How lines of a change begin that git could not apply."""


def show(screen: Screen, patches: Sequence[FilePatch], comments: Iterable[str] = ()) -> None:
    """Show all patches, and comments after them."""
    text = text_of(patches) + "".join(f"{comment}\n" for comment in comments)
    if screen.is_terminal:
        screen.whole(_coloured(text))
    else:
        screen.verbatim(text)


def coloured(patches: Iterable[FilePatch]) -> Iterator[Line]:
    """The lines of patches, escaped and coloured."""
    return _coloured(text_of(patches))


def _coloured(text: str) -> Iterator[Line]:
    for shown in lines(text):
        if shown:
            style = "bold" if shown.startswith(HEADERS) else STYLES.get(shown[:1], "")
            yield Line(shown, style)


def of_edit(edit: EditPlaces, base: str = "") -> Iterator[Line]:
    """One write of one file: its changed lines, or why they are not known. Paths below `base` are relative."""
    path = edit.path.removeprefix(f"{base}/") if base else edit.path
    counts = f"  +{edit.added} −{edit.removed}" if edit.places else f"  ({edit.reason or edit.op})"
    yield Line(INDENT).add(path, "bold").add(counts, "dim")
    # The name of the file is in the line above, so git's own header is left out.
    for shown in lines("".join(part_lines(path, edit.places))):
        text = EscapedText(shown.removeprefix(COMMENTED))
        if text and not text.startswith(("diff --git ", *HEADERS)):
            yield Line(INDENT).add(text, STYLES.get(text[:1], ""))


def as_json(patch: FilePatch) -> dict[str, Any]:
    """A patch as JSON."""
    found: dict[str, Any] = msgspec.to_builtins(patch)
    return found
