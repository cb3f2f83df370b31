"""Finds the file that a person named where a session or a position is expected: `files auth.py`, `show t2 auth.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from stator.errors import BadPosition, BadQuery, NotFound
from stator.model.records.types import FileRecord
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.parts.open_store import OpenedStore, is_place
from stator.surfaces.cli.parts.question.typed_path import recorded_places

SEVERAL = 4
"""Files that are named where a word may mean several."""


def may_be_file(words: Sequence[str]) -> bool:
    """Whether the last of the words looks like the name of a file: most have an ending or are in a folder."""
    return bool(words) and any(sign in words[-1].strip(".") for sign in "./")


def names_file(opened: OpenedStore, words: Sequence[str], session: str | None) -> bool:
    """Whether the last of the words is the name of a file and nothing else: neither a session nor a part of one."""
    if not may_be_file(words) or is_place(words[-1]):
        return False
    meanings = [(words[-1:], session)]
    if len(words) > 1:
        meanings.append(((words[0], words[-1]), None))
    for meant, of in meanings:
        with contextlib.suppress(BadPosition, NotFound, BadQuery):
            opened.named(meant, of)
            return False
    return True


def file_in(
    opened: OpenedStore, words: Sequence[str], session: str | None
) -> tuple[SessionView, str, FileRecord] | None:
    """The session, the position and the file that words name, the file last; None if no file there has that name."""
    if not may_be_file(words):
        return None
    try:
        view, place = opened.named(words[:-1], session)
    except (BadPosition, NotFound, BadQuery):
        return None
    if place is not None and ".." in place:
        return None
    record = _recorded(view, words[-1])
    return None if record is None else (view, place or "head", record)


def _recorded(view: SessionView, typed: str) -> FileRecord | None:
    """The record of a file of a session: by its path, else by the end of it."""
    records = [one for e in view.entries("files") if isinstance(one := e.record, FileRecord)]
    wanted = set(recorded_places(typed))
    exact = [one for one in records if (one.root, one.path) in wanted or one.path == typed]
    found = exact or [one for one in records if one.path.endswith(f"/{typed.lstrip('./')}")]
    if len(found) > 1:
        names = [one.path for one in found[:SEVERAL]]
        more = f" and {len(found) - SEVERAL} more" if len(found) > SEVERAL else ""
        raise BadQuery(
            f"{typed!r:.80} may be one of {len(found)} files", hint=", ".join(names) + more
        )
    return found[0] if found else None
