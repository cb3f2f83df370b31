"""Appends commits to a session, with its lease or without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from stator.model.log.commit import Commit, Draft
from stator.runtime.base.context import Context
from stator.store.port import StorePort


class SessionWriter(Protocol):
    """What appends to one session: its driver, or a contributor from outside."""

    store: StorePort
    context: Context
    id: str
    """Of the session."""
    root: str
    """The folder that file paths are relative to; may be empty."""
    principal: str
    """Who writes."""

    def draft(self, kind: str, **fields: Any) -> Draft: ...
    def append(self, drafts: Sequence[Draft]) -> list[Commit]: ...


class OutsideWriter:
    """Appends to a session that this program does not drive.

    The store accepts only the closed list of kinds that need no lease from it.
    """

    def __init__(self, store: StorePort, session: str, context: Context, principal: str) -> None:
        self.store = store
        self.id = session
        self.context = context
        self.principal = principal
        self.root = context.root

    def draft(self, kind: str, **fields: Any) -> Draft:
        fields.setdefault("actor", "user")
        return Draft(
            id=fields.pop("id", "") or self.context.mint("commit"),
            session=self.id,
            kind=kind,
            principal=fields.pop("principal", self.principal),
            **fields,
        )

    def append(self, drafts: Sequence[Draft]) -> list[Commit]:
        # A person waits for the answer: it must survive a power cut before they read it.
        return self.store.append(self.id, drafts, barrier=True)
