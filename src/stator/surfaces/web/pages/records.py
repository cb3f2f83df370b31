"""Pages about one thing of a session: a commit, a call, its decisions, files, tree, proof, and what left the view."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stator.model.views.tree import Tree
from stator.runtime.base.provenance import imported_upto
from stator.runtime.views.browse import records as reading
from stator.runtime.views.browse.turns import head_of
from stator.runtime.views.refs import locate
from stator.runtime.views.tree import tree_of
from stator.runtime.window.recall import Evicted, evicted
from stator.surfaces import web_addresses as addresses
from stator.surfaces.cli.render.turns.subject import base_of, relative, without
from stator.surfaces.http.served import served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.pages.session import reader, session_id
from stator.surfaces.web.shape import call_view, record_view
from stator.surfaces.web.shape.tree_rows import tree_rows

TREE_MAX = 150
"""Sessions of a tree that are drawn."""
KEYS_MAX = 150
"""Keys that left the view that are listed, what matters most first."""
ASKED = ("decision", "constraint", "number")


def attempt(request: Request) -> Response:
    """One attempt at a turn (t5.2): the turn of the retry that it is."""
    store, session = reader(request), session_id(request)
    named = f"t{request.path_params['turn']}.{request.path_params['attempt']}"
    point = locate(store, session, named)
    number = store.head(point.session).turn
    return RedirectResponse(addresses.turn(point.session, number), status_code=303)


def commit(request: Request) -> Response:
    """One commit in full."""
    session = session_id(request)
    found = reading.one_commit(reader(request), session, request.path_params["seq"])
    shown = record_view.of_commit(session, found.commit)
    return _shown(request, "commit.html", found.head, commit=found.commit, shown=shown)


def call(request: Request) -> Response:
    """One call: what it was given, how it ended, what it answered."""
    session = session_id(request)
    found = reading.one_call(reader(request), session, request.path_params["call"])
    body = record_view.body_of(session, found.intent, found.outcome)
    act = call_view.act_of(found.intent.tool)
    took = None
    if found.outcome is not None and found.head.row.has_times:
        took = found.outcome.when - found.intent.when
    return _shown(
        request, "call.html", found.head, intent=found.intent, outcome=found.outcome, row=found.row,
        body=body, took=took, icon_name=call_view.ACTS.get(act, ("term", "", ""))[0],
        fragment=is_fragment(request),
    )  # fmt: skip


def decisions(request: Request) -> Response:
    """Every decision of a session, and what superseded it."""
    found = reading.decisions(reader(request), session_id(request))
    return _shown(
        request, "decisions.html", found.head, lines=found.lines, times=found.times,
        is_cut=found.is_cut, by_id={line.id: line for line in found.lines},
    )  # fmt: skip


def left(request: Request) -> Response:
    """What left the agent's view."""
    store, session = reader(request), session_id(request)
    found = evicted(store, session, most=KEYS_MAX + 1)
    paths = [_path(one) for one in found if one.kind == "file"]
    base = base_of(paths)
    keys = [LeftView.of(one, base) for one in found[:KEYS_MAX]]
    return _shown(
        request, "evicted.html", head_of(store, session), any=bool(keys),
        is_cut=len(found) > KEYS_MAX, files=[one for one in keys if one.kind == "file"],
        asked=[one for one in keys if one.kind in ASKED],
        talk=[one for one in keys if one.kind not in (*ASKED, "file")],
    )  # fmt: skip


class LeftView(msgspec.Struct, frozen=True, kw_only=True):
    """A key that left the view, as the page shows it."""

    key: str
    name: str
    """Of a file, its path below the folder of the work."""
    kind: str
    what: str
    status: str
    window: bool
    turn: int
    seq: int

    @classmethod
    def of(cls, one: Evicted, base: str) -> LeftView:
        return cls(
            key=one.key, name=relative(_path(one), base), kind=one.kind, status=one.status,
            what=without(one.what, base), window=one.window, turn=one.turn, seq=one.seq,
        )  # fmt: skip


def _path(one: Evicted) -> str:
    return one.key.partition(":")[2].removeprefix("//")


def tree(request: Request) -> Response:
    """Forks, retries and sub-agents of the tree that a session is in."""
    store, session = reader(request), session_id(request)
    found: Tree = tree_of(store, session, limit=TREE_MAX)
    return _shown(
        request, "tree.html", head_of(store, session), picture=tree_rows(found.branches), tree=found
    )


def proof(request: Request) -> Response:
    """The chain of a session's commits: where its head is, and on request whether every commit matches its hash."""
    store, session = reader(request), session_id(request)
    head = head_of(store, session)
    walked = reading.walked(store, session) if request.query_params.get("check") else None
    return _shown(
        request, "verify.html", head, tip=store.head(session), walked=walked,
        imported=imported_upto(served(request).store.port, head.row.record),
    )  # fmt: skip


def _shown(request: Request, template: str, head: Any, **values: Any) -> Response:
    return render(request, template, tab="sessions", head=head, **values)


ROUTES = (
    Route("/s/{session}/t{turn:int}.{attempt:int}", attempt),
    Route("/s/{session}/@{seq:int}", commit),
    Route("/s/{session}/calls/{call}", call),
    Route("/s/{session}/decisions", decisions),
    Route("/s/{session}/evicted", left),
    Route("/s/{session}/tree", tree),
    Route("/s/{session}/verify", proof),
)
