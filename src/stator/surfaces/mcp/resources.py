"""Serves the state, brief, log and head of a session as MCP resources."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from stator.errors import BadQuery, NotFound
from stator.model.log.query import SessionRow
from stator.model.records import tables
from stator.model.values.escape import visible
from stator.runtime.facade.view import SessionView
from stator.surfaces.mcp.request_context import RequestContext, head_fields, session_fields
from stator.surfaces.mcp.tools import questions
from stator.surfaces.mcp.tools.answers import DATA_NOTE, visible_json

SCHEME = "session"
JSON, MARKDOWN = "application/json", "text/markdown"
URI_MAX = 500
ENTRIES_MAX = 200
"""Maximum number of records of one collection in a state."""
COMMITS_MAX = 100
"""Maximum number of commits in one page of a log."""
LISTED = 25
"""Maximum number of sessions in one page of the list of resources."""


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource that every session has."""

    name: str
    title: str
    mime: str
    template: str


KINDS = {
    kind.name: kind
    for kind in (
        ResourceKind("state", "Current records, by collection", JSON, "session://{id}/state"),
        ResourceKind(
            "brief", "What an agent must know to continue", MARKDOWN, "session://{id}/brief"
        ),
        ResourceKind(
            "log", "Commits after a seq, oldest first", JSON, "session://{id}/log{?after}"
        ),
        ResourceKind("head", "The latest commit: seq and hash", JSON, "session://{id}/head"),
    )
}


@dataclass(frozen=True)
class ResourceAddress:
    """The session and resource a URI names."""

    session: str
    kind: str
    after: int = 0


def parse(uri: str) -> ResourceAddress:
    """Parse a URI; raise `NotFound` if it names no resource."""
    try:
        parts = urlsplit(uri) if len(uri) <= URI_MAX else None
    except ValueError:  # brackets without an IP address
        parts = None
    kind = "" if parts is None else parts.path.removeprefix("/")
    if parts is None or parts.scheme != SCHEME or kind not in KINDS or not parts.netloc:
        raise NotFound("no such resource", hint=", ".join(k.template for k in KINDS.values()))
    after = parse_qs(parts.query).get("after", ["0"])[0]
    if not re.fullmatch(r"[0-9]{1,13}", after):
        raise BadQuery("after must be a seq", path="$.after")
    return ResourceAddress(unquote(parts.netloc), kind, int(after))


def uri_of(session: str, kind: str) -> str:
    return f"{SCHEME}://{session}/{kind}"


def listed(
    request: RequestContext, cursor: tuple[int, ...] | None
) -> tuple[list[dict[str, Any]], Any]:
    """Return the resources of the sessions used last, and the cursor of the next page."""
    page = request.scope.listed(cursor, LISTED)
    found = [
        {
            "uri": uri_of(row.id, kind.name),
            "name": visible(f"{row.record.name} {kind.name}"),
            "description": kind.title,
            "mime": kind.mime,
        }
        for row in page.rows
        for kind in KINDS.values()
    ]
    return found, page.cursor


def read(request: RequestContext, uri: str) -> tuple[str, str]:
    """Return the text and the media type of a resource."""
    address = parse(uri)
    row = request.scope.find(address.session)
    view = request.scope.view(row)
    if address.kind == "brief":
        return view.brief().text, MARKDOWN
    data = _DATA[address.kind](request, row, view, address)
    plain = {
        "schema": f"stator.session_{address.kind}/1",
        "note": DATA_NOTE,
        "session": row.id,
        **data,
    }
    return json.dumps(visible_json(plain), ensure_ascii=False, separators=(",", ":")), JSON


def _head(
    request: RequestContext, row: SessionRow, view: SessionView, address: ResourceAddress
) -> dict[str, Any]:
    return {**session_fields(row), **head_fields(view)}


def _log(
    request: RequestContext, row: SessionRow, view: SessionView, address: ResourceAddress
) -> dict[str, Any]:
    head = head_fields(view)  # read first, so that a client that continues from it misses nothing
    found = request.scope.store.as_read.commits(
        row.id, after=address.after, limit=COMMITS_MAX, load=False
    )
    rest = found[-1].seq if found and found[-1].seq < head["seq"] else None
    commits = request.marked(row.id, [questions.commit_row(c) for c in found])
    unplaced = questions.unplaced_rows(view) if rest is None else []
    return {"head": head, "commits": commits, "after": rest, "unplaced": unplaced}


def _state(
    request: RequestContext, row: SessionRow, view: SessionView, address: ResourceAddress
) -> dict[str, Any]:
    head = head_fields(view)
    at = f"@{head['seq']}"
    collections: dict[str, Any] = {}
    for name in (*tables.LISTED, "calls", "children"):
        entries = view.entries(name, at, limit=ENTRIES_MAX + 1, erased=True)
        rows = [questions.entry_row(entry) for entry in entries[:ENTRIES_MAX]]
        collections[name] = request.marked(row.id, rows)
        if len(entries) > ENTRIES_MAX:
            collections[name].append(
                {"what": "more records exist: stator_log with what=state lists them"}
            )
    return {"head": head, "state": collections, "unplaced": questions.unplaced_rows(view)}


_DATA: dict[
    str, Callable[[RequestContext, SessionRow, SessionView, ResourceAddress], dict[str, Any]]
] = {
    "head": _head,
    "log": _log,
    "state": _state,
}
