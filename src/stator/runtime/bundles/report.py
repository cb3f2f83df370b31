"""Says what an import of a bundle did, or would do: for each session, and what of this store it takes away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from stator.errors import ErasesHere
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import (
    ApprovalRecord,
    ChildRecord,
    FlagRecord,
    SessionRecord,
)
from stator.runtime.base.project_flags import HOLD
from stator.runtime.bundles.reconcile import Fate

Erasures = Literal["refuse", "apply"]
"""What to do if a bundle's erasures would take content away that is here."""


class ErasedHere(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a session of this store that erasures of a bundle take away."""

    session: str
    name: str
    commits: int
    fields: int
    """Prompts, answers, arguments, results and other fields of commits."""
    records: int
    """Facts, decisions and other records of the state, each version counted."""


class Carried(msgspec.Struct, kw_only=True):
    """What the new commits of a session hold that a person may want to know of first."""

    erasures: int = 0
    """Commits that erase."""
    grants: int = 0
    """Approvals. They answer no call here."""
    children: int = 0
    """Sessions it names as its children."""
    keeping: int = 0
    """Retention policies and holds. They have no effect here: only a project's own session sets them."""


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session of a bundle."""

    session: str
    """Its id in the bundle; `into` is where its commits are now."""
    name: str
    fate: Fate
    into: str
    project: str
    commits: int
    """How many were new."""
    head: str
    seq: int
    moved: str = ""
    """The project it was in where it came from, if it is in another here."""
    carried: Carried = msgspec.field(default_factory=Carried)
    """What its new commits hold."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did, or with `dry_run` would do."""

    path: str
    bytes: int
    commits: int
    sessions: list[ImportedSession]
    withheld: int = 0
    locked: bool = False
    dry_run: bool = False
    names: list[str] = []
    """Names that were free in this store: those of new sessions and of forks."""
    erased: list[ErasedHere] = []
    """What of this store was erased, or would be, with `erasures="apply"`."""


_COUNTED = frozenset(
    name
    for name, one in COLLECTIONS.items()
    if one.type in (ApprovalRecord, ChildRecord, FlagRecord, SessionRecord)
)


class Tally:
    """Counts what a session brings, commit by commit."""

    def __init__(self) -> None:
        self._erasures = 0
        self._grants: set[str] = set()
        self._children: set[str] = set()
        self._holds: set[str] = set()
        self._policies = 0

    def take(self, commit: Commit) -> None:
        self._erasures += commit.kind == "erasure"
        for op in commit.delta:
            if op.collection not in _COUNTED:
                continue
            record = op.record if isinstance(op, Put) else None
            if isinstance(record, ApprovalRecord):
                self._grants.add(op.id)
            elif isinstance(record, ChildRecord):
                self._children.add(record.session)
            elif isinstance(record, FlagRecord) and record.name == HOLD:
                self._holds.add(op.id)
            elif isinstance(record, SessionRecord):
                self._policies = len(record.retention)

    @property
    def carried(self) -> Carried:
        return Carried(
            erasures=self._erasures,
            grants=len(self._grants),
            children=len(self._children),
            keeping=len(self._holds) + self._policies,
        )


class Losses:
    """Collects what of this store a bundle's erasures take away."""

    def __init__(self) -> None:
        self.items: list[tuple[Commit, set[str]]] = []
        """The commits as they are here, and which content of each goes."""

    def add(self, mine: Commit, names: set[str]) -> None:
        self.items.append((mine, names))

    def summed(self, names: dict[str, str]) -> list[ErasedHere]:
        """By session; `names` has what each is called."""
        by_session: dict[str, list[set[str]]] = {}
        for mine, gone in self.items:
            by_session.setdefault(mine.session, []).append(gone)
        return [
            ErasedHere(
                session=session,
                name=names.get(session, session),
                commits=len(several),
                fields=sum(not name.startswith("put") for gone in several for name in gone),
                records=sum(name.startswith("put") for gone in several for name in gone),
            )
            for session, several in by_session.items()
        ]


def erases_here(path: str, erased: Sequence[ErasedHere]) -> ErasesHere:
    """The refusal of a bundle whose erasures would take content away here."""
    first = erased[0]
    parts = ((first.fields, "field"), (first.records, "record"))
    what = " and ".join(f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in parts if n)
    more = f", and more of {len(erased) - 1} others" if len(erased) > 1 else ""
    return ErasesHere(
        f"{path} would erase {what} of session {first.name!r:.80}{more}",
        hint="nothing was imported; see what goes with --dry-run, then import it with --erase "
        '(erasures="apply")',
        session=first.session,
    )
