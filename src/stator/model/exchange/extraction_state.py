"""What extraction (`model.extraction`) remembers from one commit to the next. It is kept with what drafting remembers,
and does not grow with the conversation."""

from __future__ import annotations

from typing import Any

import msgspec


class HeldCall(msgspec.Struct, omit_defaults=True):
    """A call without an outcome, as far as a rule needs it."""

    intent: str
    """The commit that records what was asked."""
    tool: str
    about: str = ""
    """The call in a few words."""
    given: Any = None
    """The part of its input that a rule reads; None if none does."""


class ExtractionState(msgspec.Struct, omit_defaults=True):
    """What the rules must know of what came before."""

    calls: dict[str, HeldCall] = {}
    """The newest calls without an outcome."""
    known: list[str] = []
    """The newest entries of the working set that were found: each is recorded once."""
    staged: list[str] = []
    """Files that were added to git's index since the last revision."""
    unpushed: list[list[str]] = []
    """The newest revisions that were not pushed so far: sha and branch."""
    refused: list[str] = []
    """The last call that a person refused without a word, until something else succeeds: the commits of its outcome
    and its intent, and the call in a few words."""
