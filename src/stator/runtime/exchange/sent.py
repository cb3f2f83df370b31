"""Says what sending sessions to another store did, or would do."""

from __future__ import annotations

import msgspec

from stator.runtime.exchange.heads import SentFate


class SentSession(msgspec.Struct, frozen=True, kw_only=True):
    """How the sending of one session ended."""

    session: str
    name: str
    project: str
    """The project it has in the other store."""
    fate: SentFate
    seq: int
    """How far it is to go."""
    commits: int = 0
    """How many were new there."""
    erasures: int = 0
    """Erasures that were carried to content which the other store had."""
    withheld: int = 0
    """Content items that were left out."""
    secrets: int = 0
    """Of those, the ones that hold what the rules about secrets know."""
    held_back: int = 0
    """Commits of a turn that is open. They stay until it has ended."""
    is_own: bool = False
    """Whether it is a project's own session."""
    into: str = ""
    """The fork there that has its commits, if it diverged and was sent as one."""
    is_known: bool = False
    """Whether it was refused because another session there has its commits."""
    why: str = ""
    """Why it was refused."""
    hint: str = ""


class LeftThere(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was purged here and is, or was until now, in the other store."""

    session: str
    name: str
    project: str
    why: str = ""
    """Why it stays there."""


class LeftHere(msgspec.Struct, frozen=True, kw_only=True):
    """A session that stays where it is, and why."""

    session: str
    name: str
    why: str


class SentReport(msgspec.Struct, frozen=True, kw_only=True):
    """What sending did, or with `dry_run` would do."""

    source: str
    target: str
    sessions: list[SentSession]
    commits: int
    verified: int = 0
    """Sessions whose head in the other store was found to be the one that was sent."""
    purged: list[LeftThere] = []
    """Purged here, and still there."""
    purged_there: list[LeftThere] = []
    """Purged here, and now there too."""
    skipped: list[LeftHere] = []
    dry_run: bool = False

    @property
    def findings(self) -> list[SentSession]:
        """The sessions that the other store does not have as they are here."""
        return [one for one in self.sessions if one.fate in ("longer there", "diverged", "refused")]
