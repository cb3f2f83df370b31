"""The desk: who is asking, what they may see, and the shapes that several tools answer with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stator.model.log.query import SessionRow
from stator.model.records.text import arguments_text
from stator.model.values.escape import visible
from stator.runtime.base.context import Context
from stator.runtime.driving import settlement
from stator.runtime.facade.view import SessionView
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools.answers import when

Given = dict[str, Any]

SOURCE = "mcp"
"""Where what is recorded here came from, in a commit's origin and in its principal."""
CLIENT_MAX = 80
"""Characters of what a client calls itself."""

DOUBTS_SHOWN = 50
"""Calls in doubt in one answer."""


@dataclass(frozen=True)
class Desk:
    """Who is asking, and what they may see."""

    scope: Scope
    client: str
    """What the client calls itself. Nobody has checked that."""

    @property
    def principal(self) -> str:
        return f"{SOURCE}:{self.client}"

    def find(self, given: Given) -> tuple[SessionRow, SessionView]:
        row = self.scope.find(given["session"])
        return row, self.scope.view(row)

    def context(self, row: SessionRow | None = None) -> Context:
        """The world in which this client adds to a session; without one, begins its own."""
        if row is None:
            return replace(self.scope.store.context, principal=self.principal)
        return self.scope.context(row, self.principal)


def client_name(name: str | None) -> str:
    """What a client calls itself, as it may be recorded: visible, on one line, short."""
    return visible((name or "").strip()[:CLIENT_MAX]) or "unknown"


def about(row: SessionRow) -> dict[str, Any]:
    """A session as answers name it; `session` is its handle."""
    return {"session": row.id, "name": row.record.name, "status": row.shown}


def head_of(view: SessionView) -> dict[str, Any]:
    head = view.head
    return {"seq": head.seq, "hash": head.hash, "turn": head.turn}


def doubts_of(desk: Desk, row: SessionRow) -> list[dict[str, Any]]:
    """Calls of a session that may or may not have happened."""
    found = settlement.doubts(desk.scope.store.port, session=row.id)
    rows: list[dict[str, Any]] = [
        {
            "call": doubt.call,
            "tool": doubt.tool,
            "asked": arguments_text(doubt.tool, doubt.arguments),
            "since": when(doubt.since),
            "cause": doubt.cause,
            "turn": doubt.turn,
            "seq": doubt.seq,
        }
        for doubt in found[:DOUBTS_SHOWN]
    ]
    if len(found) > DOUBTS_SHOWN:
        rows.append({"what": f"{len(found) - DOUBTS_SHOWN} more: they show once these are settled"})
    return rows


def filled(**fields: Any) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value not in ("", None, [])}
