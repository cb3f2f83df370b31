"""Holds who makes a request and what they may see, and builds rows that several tools answer with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from stator.errors import InvalidInput
from stator.model.exchange.items import commit_id
from stator.model.log.query import SessionRow
from stator.model.log.shown_text import cut_short, legible
from stator.model.records.text import arguments_text
from stator.model.values.escape import visible
from stator.model.values.ids import short
from stator.runtime.base.context import Context
from stator.runtime.base.ownership import require_own
from stator.runtime.driving import settlement
from stator.runtime.facade.view import SessionView
from stator.runtime.ingest.self_report import is_own_orderer
from stator.runtime.views.trust.names import is_name_from_here, session_name_origin
from stator.runtime.views.trust.unverified import unverified
from stator.surfaces.mcp.keys import split_key
from stator.surfaces.mcp.scope import Scope, session_label
from stator.surfaces.mcp.tools.answers import iso_time

Arguments = dict[str, Any]

SOURCE = "mcp"
"""The source recorded in a commit's origin and in its principal."""
CLIENT_MAX = 80
"""Maximum number of characters of a client's name."""

DOUBTS_SHOWN = 50
"""Maximum number of calls in doubt in one answer."""
ASKED_MAX = 400
"""Maximum number of characters of what a call was asked to do, where calls are listed."""


@dataclass(frozen=True)
class RequestContext:
    """Who makes a request, and which sessions they may see."""

    scope: Scope
    client: str
    """The name the client gives itself; it is not verified."""
    use: str = ""
    """The client's own id of the call that this request is, if it gives one."""
    handles: dict[str, str] = field(default_factory=dict)
    """The short handles of sessions, looked up once for a request."""
    names: dict[str, str] = field(default_factory=dict)
    """From where the names of sessions came, looked up once for a request."""

    @property
    def principal(self) -> str:
        return f"{SOURCE}:{self.client}"

    def find(self, given: Arguments) -> tuple[SessionRow, SessionView]:
        if not given.get("session"):
            raise InvalidInput(
                "say which session",
                path="$.session",
                hint="the handle that stator_open returns, or a key that names it: s_1f2e3d4c:@12",
            )
        row = self.scope.find(given["session"])
        return row, self.scope.view(row)

    def find_by_key(
        self, given: Arguments, name: str = "key"
    ) -> tuple[SessionRow, SessionView, str]:
        """The session that an argument names, or the one that was given, and the rest of the argument."""
        text = given.get(name, "")
        session, key = split_key(text)
        if session:
            given = {**given, "session": session}
        return *self.find(given), key

    def key(self, row: SessionRow, key: str) -> str:
        """A key with its session, as every tool takes it."""
        return self.key_in(row.id, key)

    def key_in(self, session: str, key: str) -> str:
        """A key with its session, of which the id is known."""
        if session not in self.handles:
            self.handles[session] = self.scope.short_handle(session)
        return f"{self.handles[session]}:{key}"

    def marked(self, session: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of a session, each with from where, if it rests on something that nobody vouches for."""
        seqs = [row["seq"] for row in rows if row.get("seq")]
        found = unverified(self.scope.store.as_read, session, seqs)
        named = self.name_origin(session) if any(map(_names_session, rows)) else ""

        def origin(row: dict[str, Any]) -> str:
            return found.get(row.get("seq", 0), "") or (named if _names_session(row) else "")

        return [
            {**row, "unverified": f"from {origin(row)}"} if origin(row) else row for row in rows
        ]

    def label(self, row: SessionRow) -> str:
        """A session as the first line of an answer names it: without a name that came from elsewhere."""
        if is_name_from_here(self.scope.store.as_read, row):
            return session_label(row)
        return short(row.id)

    def name_origin(self, session: str) -> str:
        """From where the name of a session came, if nobody vouches for that."""
        if session not in self.names:
            store = self.scope.store.as_read
            self.names[session] = session_name_origin(store, store.session(session))
        return self.names[session]

    def call_in(self, row: SessionRow) -> str:
        """The commit of the call that this request is, in the session of the client's agent; "" if it is not known."""
        if not self.use or not row.record.aliases:
            return ""
        return commit_id(row.id, "call", (row.record.aliases[0][0], legible(self.use)), 1)

    def context(self, row: SessionRow | None = None) -> Context:
        """Return the context in which this client adds to a session, or creates one if `row` is None."""
        require_own(self.scope.store.port, "record in it")
        if row is None:
            return replace(self.scope.store.context, principal=self.principal)
        return self.scope.context(row, self.principal)


def _names_session(row: dict[str, Any]) -> bool:
    """Whether a row holds the name of its session."""
    return ("name" in row and "session" in row) or row.get("kind") in ("open", "describe")


def client_name(name: str | None) -> str:
    """Return a client's name in the form that is recorded: visible, on one line, short."""
    return visible(cut_short((name or "").strip(), CLIENT_MAX)) or "unknown"


def session_fields(row: SessionRow) -> dict[str, Any]:
    """Return the fields by which answers name a session; `session` is its handle."""
    record = row.record
    takes_more = record.status == "open" and is_own_orderer(record)  # no agent drives it
    status = record.status if takes_more else row.shown
    return {"session": row.id, "name": record.name, "status": status}


def head_fields(view: SessionView) -> dict[str, Any]:
    head = view.head
    return {"seq": head.seq, "hash": head.hash, "turn": head.turn}


def in_doubt_rows(request: RequestContext, row: SessionRow) -> list[dict[str, Any]]:
    """Return the calls of a session that may or may not have happened."""
    found = settlement.doubts(request.scope.store.as_read, session=row.id)
    rows: list[dict[str, Any]] = [
        {
            "key": request.key(row, f"call:{doubt.call}"),
            "call": doubt.call,
            "tool": cut_short(doubt.tool, CLIENT_MAX),
            "asked": cut_short(arguments_text(doubt.tool, doubt.arguments), ASKED_MAX),
            "since": iso_time(doubt.since),
            "cause": cut_short(doubt.cause, ASKED_MAX),
            "turn": doubt.turn,
            "seq": doubt.seq,
        }
        for doubt in found[:DOUBTS_SHOWN]
    ]
    rows = request.marked(row.id, rows)
    if len(found) > DOUBTS_SHOWN:
        rows.append(
            {"what": f"{len(found) - DOUBTS_SHOWN} more: they are listed once these are settled"}
        )
    return rows


def without_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value not in ("", None, [])}
