"""Prints what a file held at a position: as it was in a pipe, escaped on a terminal."""

from __future__ import annotations

from base64 import b64encode

from stator.errors import NotFound
from stator.model.records.types import FileRecord
from stator.model.values.ids import short
from stator.model.views.patch import is_binary
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.render.escape import lines
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import size
from stator.surfaces.cli.render.screen import Screen


def show_file(screen: Screen, view: SessionView, place: str, file: FileRecord) -> None:
    """Print a file of a session at a position."""
    at = f"{short(view.id)}:{place}"
    found = view.contents(file.path, place, root=file.root)
    if found is None:
        raise NotFound(f"there was no {file.path} at {at}", hint=f"stator why {file.path}")
    if screen.json:
        is_text = _text(found.data) is not None
        about = {"session": view.id, "at": place, "path": file.path, "root": file.root}
        held = _text(found.data) if is_text else b64encode(found.data).decode("ascii")
        screen.document(
            "stator.file/1",
            {
                **about,
                "digest": found.digest,
                "size": len(found.data),
                "seq": found.seq,
                "encoding": "utf-8" if is_text else "base64",
                "content": held,
            },
        )
        return
    text = _text(found.data)
    if text is None:
        about_it = f"{file.path} at {at}: {size(len(found.data))}, no text; --json has its bytes"
        screen.line(Line(about_it, "dim"))
    elif screen.is_terminal:
        screen.line(Line(file.path, "bold").add(f" at {at}, by @{found.seq}", "dim"))
        screen.whole(Line(line) for line in lines(text.removesuffix("\n")))
    else:
        screen.verbatim(text)


def _text(data: bytes) -> str | None:
    if is_binary(data):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
