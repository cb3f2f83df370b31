"""Asks the person at the terminal to confirm something."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stator.errors import BadQuery
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import note

if TYPE_CHECKING:
    from stator.runtime.bundles.report import ErasedHere


def refuse_both(*, dry_run: bool, yes: bool) -> None:
    """Refuse a command that is to show only what it would do, and to do it."""
    if dry_run and yes:
        raise BadQuery("--dry-run only shows what --yes does", hint="give one of them")


def can_ask() -> bool:
    """Whether a person can answer: all three streams are a terminal."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def agreed(question: str, *, json: bool) -> bool:
    """Whether a person who has seen the preview says yes; False where nobody can answer."""
    return not json and can_ask() and asks_yes(question)


def asks_yes(question: str) -> bool:
    """Ask a question; only "y" or "yes" is a yes. What it is about is shown before: a `Screen` that is still open
    must be flushed by the caller, because lines wait in it for a pager."""
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def erasing_agreed(erased: Sequence[ErasedHere], *, json: bool) -> bool:
    """Whether what was shown may be erased here; where nobody can answer, it says how to do it."""
    if json or not can_ask():
        note("nothing was imported; import it and erase with --yes")
        return False
    fields, records = (sum(getattr(one, name) for one in erased) for name in ("fields", "records"))
    return asks_yes(f"Erase {count(fields, 'field')} and {count(records, 'record')} for ever?")
