"""Continues a session with another program, which replaces this process. Used by `resume` and `retry`."""

from __future__ import annotations

import os
import shutil

from stator.errors import NotFound, WrongState
from stator.model.log.query import SessionRow
from stator.surfaces.cli.parts.open_store import OpenedStore
from stator.surfaces.cli.render.screen import note


def environ_for(row: SessionRow, opened: OpenedStore) -> dict[str, str]:
    """The environment in which `stator.open()` drives this session."""
    name = row.record.name
    if row.record.status == "archived":
        raise WrongState(f"session {name!r:.80} is archived", hint="fork it to continue")
    if row.record.project != opened.project:
        note(
            f"{name} belongs to project {row.record.project or '(none)'}, not to this one; "
            "to open it by name, a program must pass project="
        )
    url = opened.place.url
    path = url if ":" in url.partition("/")[0] else os.path.abspath(url)
    return {**os.environ, "STATOR_STORE": path, "STATOR_SESSION": name}


def check_program(command: tuple[str, ...]) -> None:
    """Check that the program exists, before anything is recorded for it."""
    if shutil.which(command[0]) is None:
        raise _no_program(command)


def become(command: tuple[str, ...], environ: dict[str, str]) -> int:
    """Replace this process with the program; returns only by raising NotFound."""
    try:
        os.execvpe(command[0], command, environ)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_program(command) from None


def _no_program(command: tuple[str, ...]) -> NotFound:
    return NotFound(f"program {command[0]!r:.80} not found", hint="check that it is on $PATH")
