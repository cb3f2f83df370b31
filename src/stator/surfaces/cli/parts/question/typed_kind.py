"""Reads the kinds of commits that a person asks for: their names, or what people call them."""

from __future__ import annotations

from collections.abc import Iterable

from stator.errors import BadQuery
from stator.model.records.tables import KINDS

OTHER_NAMES = {
    **dict.fromkeys(("prompt", "question", "request", "user"), "turn"),
    **dict.fromkeys(("message", "answer", "text", "said", "model"), "entry"),
    **dict.fromkeys(("result", "output"), "outcome"),
    **dict.fromkeys(("commit", "git"), "revision"),
    **dict.fromkeys(("tool", "command"), "call"),
    **dict.fromkeys(("edit", "write"), "file"),
    "agent": "child",
    "sub-agent": "child",
    "note": "scratch",
}
"""What people call a kind → its name in the record."""


def typed_kinds(given: Iterable[str]) -> list[str]:
    """The kinds that are meant; in the plural, too."""
    return list(dict.fromkeys(map(_kind, given)))


def _kind(typed: str) -> str:
    for word in (typed, typed.removesuffix("s")):
        found = OTHER_NAMES.get(word, word)
        if found in KINDS:
            return found
    raise BadQuery(f"unknown kind of commit {typed!r:.40}", hint=", ".join(sorted(KINDS)))
