"""What extraction (`model.extraction`) remembers from one commit to the next. It is kept with what drafting remembers,
and does not grow with the conversation."""

from __future__ import annotations

from typing import Any, Literal

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
    place: int = 0
    """The how-manieth call it is; 0 if it began before the calls that were seen."""


class LineRun(msgspec.Struct, omit_defaults=True):
    """A run of a command line, or of a part of one, that may be a check."""

    ended: Literal["ok", "failed", "unknown"]
    intent: str
    outcome: str
    place: int = 0


class KnownCheck(msgspec.Struct, omit_defaults=True):
    """What is known of a check: the place of the last call that ran it, how it ended, and what was written since."""

    place: int = 0
    ended: Literal["ok", "failed", "unknown"] = "unknown"
    ran_in: str = ""
    wrote: list[str] = []


class WrittenFile(msgspec.Struct, omit_defaults=True):
    """A file that a command wrote, and how many calls had been seen when that ended."""

    path: str
    begun: int


class ExtractionState(msgspec.Struct, omit_defaults=True):
    """What the rules must know of what came before."""

    begun: int = 0
    """How many calls were seen."""
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
    checks: dict[str, KnownCheck] = {}
    """The checks that steps of the plan name, the newest last."""
    written: list[WrittenFile] = []
    """The newest files that commands wrote."""
    forgot: int = 0
    """How many calls had been seen when the last of those was written that are not remembered any more."""
    ran: dict[str, LineRun] = {}
    """The newest lines, and parts of lines, that ran, by digests of their texts: the step that names one as its check
    is often recorded after it."""
    handover: str = ""
    """The commit of a request for a handover that no answer has followed yet."""
    folder: str = ""
    """The folder in which the session's files are, if it is known."""
