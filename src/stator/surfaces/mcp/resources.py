"""Resources: a session's state, brief, log and head, each under a URI that names its session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from stator.errors import BadQuery, NotFound
from stator.model.log.query import SessionRow
from stator.model.records import registry
from stator.model.values.escape import visible
from stator.runtime.facade.view import SessionView
from stator.surfaces.mcp.request_context import Desk, about, head_of
from stator.surfaces.mcp.tools import questions
from stator.surfaces.mcp.tools.answers import MARK, shown

SCHEME = "session"
JSON, MARKDOWN = "application/json", "text/markdown"
URI_MAX = 500
ENTRIES_MAX = 200
"""Records of one collection in a state."""
COMMITS_MAX = 100
"""Commits in one page of a log."""
LISTED = 25
"""Sessions whose resources are in one page of the list."""


@dataclass(frozen=True)
class Kind:
    """A resource every session has."""

    name: str
    title: str
    mime: str
    template: str


KINDS = {
    kind.name: kind
    for kind in (
        Kind("state", "Records that stand, by collection", JSON, "session://{id}/state"),
        Kind("brief", "What whoever goes on must know", MARKDOWN, "session://{id}/brief"),
        Kind("log", "Commits after a seq, oldest first", JSON, "session://{id}/log{?after}"),
        Kind("head", "The latest commit: seq and hash", JSON, "session://{id}/head"),
    )
}


@dataclass(frozen=True)
class Address:
    """What a URI names."""

    session: str
    kind: str
    after: int = 0


def parse(uri: str) -> Address:
    """The session and resource a URI names, or `NotFound`."""
    try:
        parts = urlsplit(uri) if len(uri) <= URI_MAX else None
    except ValueError:  # brackets that hold no address
        parts = None
    kind = "" if parts is None else parts.path.removeprefix("/")
    if parts is None or parts.scheme != SCHEME or kind not in KINDS or not parts.netloc:
        raise NotFound("no such resource", hint=", ".join(k.template for k in KINDS.values()))
    after = parse_qs(parts.query).get("after", ["0"])[0]
    if not re.fullmatch(r"[0-9]{1,13}", after):
        raise BadQuery("after is a seq", path="$.after")
    return Address(unquote(parts.netloc), kind, int(after))


def uri_of(session: str, kind: str) -> str:
    return f"{SCHEME}://{session}/{kind}"


def listed(desk: Desk, cursor: tuple[int, ...] | None) -> tuple[list[dict[str, Any]], Any]:
    """The resources of the sessions used last, and where the list goes on."""
    page = desk.scope.listed(cursor, LISTED)
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


def read(desk: Desk, uri: str) -> tuple[str, str]:
    """A resource's text, and what kind of text it is."""
    address = parse(uri)
    row = desk.scope.find(address.session)
    view = desk.scope.view(row)
    if address.kind == "brief":
        return view.brief().text, MARKDOWN
    data = _DATA[address.kind](desk, row, view, address)
    plain = {"schema": f"stator.session_{address.kind}/1", "note": MARK, "session": row.id, **data}
    return json.dumps(shown(plain), ensure_ascii=False, separators=(",", ":")), JSON


def _head(desk: Desk, row: SessionRow, view: SessionView, address: Address) -> dict[str, Any]:
    return {**about(row), **head_of(view)}


def _log(desk: Desk, row: SessionRow, view: SessionView, address: Address) -> dict[str, Any]:
    head = head_of(view)  # first, so that whoever goes on from it misses nothing
    found = desk.scope.store.port.commits(
        row.id, after=address.after, limit=COMMITS_MAX, load=False
    )
    rest = found[-1].seq if found and found[-1].seq < head["seq"] else None
    return {"head": head, "commits": [questions.commit_row(c) for c in found], "after": rest}


def _state(desk: Desk, row: SessionRow, view: SessionView, address: Address) -> dict[str, Any]:
    head = head_of(view)
    at = f"@{head['seq']}"
    collections: dict[str, Any] = {}
    for name in (*registry.LISTED, "calls", "children"):
        entries = view.entries(name, at, limit=ENTRIES_MAX + 1)
        collections[name] = [questions.entry_row(entry) for entry in entries[:ENTRIES_MAX]]
        if len(entries) > ENTRIES_MAX:
            collections[name].append({"what": "there are more: the tool log, what: state"})
    return {"head": head, "state": collections}


_DATA: dict[str, Callable[[Desk, SessionRow, SessionView, Address], dict[str, Any]]] = {
    "head": _head,
    "log": _log,
    "state": _state,
}
