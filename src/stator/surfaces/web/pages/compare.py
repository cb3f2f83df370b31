"""Two tries, forks or sessions side by side: where they part, why, and what each led to."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stator.model.calls.costs import Prices
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import LOOKS, FileRecord, file_key
from stator.runtime.base.costs import SessionCosts, model_in, spend_of
from stator.runtime.views.as_read import for_one_answer, prices_in
from stator.runtime.views.ranges import between, common
from stator.runtime.views.reflog import turn_at
from stator.runtime.views.refs import Point
from stator.runtime.views.tree import tree_of
from stator.surfaces.cli.render.turns.fold import TurnFold, fold
from stator.surfaces.cli.render.turns.subject import base_of
from stator.surfaces.http.served import Served, served
from stator.surfaces.web.lanes import Lane, laid_out, lane, verdict
from stator.surfaces.web.page import render
from stator.surfaces.web.pictures.fork import fork_picture
from stator.surfaces.web.shape.call_view import ACTS, act_of

COMMITS_MAX = 1500
"""Commits of a lane that are read; what a longer one did after that is not compared."""
CHOICES_MAX = 30


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    row: SessionRow
    point: Point
    lane: Lane

    @property
    def ref(self) -> str:
        return f"{self.row.id}:{self.point.shown}"


def compare(request: Request) -> Response:
    found = served(request)
    asked = request.query_params
    if not asked.get("a") or not asked.get("b"):
        return _choose(request, found, asked.get("a", ""))
    store = for_one_answer(found.store.as_read)
    a, b = (_point(found, asked[name]) for name in ("a", "b"))
    trunk = common(store, a, b)
    left, right = (_side(found, point, trunk) for point in (a, b))
    lanes = laid_out(left.lane.steps, right.lane.steps)
    return render(
        request,
        "compare.html",
        tab="sessions",
        a=left,
        b=right,
        lanes=lanes,
        trunk=trunk,
        parted=turn_at(store, a.session, trunk) if trunk else 0,
        verdict=verdict(left.lane, right.lane),
        picture=fork_picture(lanes.rows, left.lane.steps, right.lane.steps),
        decisions=between(store, a, b).of("decisions") if trunk else [],
        looks=looks,
    )


def of_session(request: Request) -> Response:
    """`/s/SESSION/compare/t5..t5.2` is the same page."""
    session = request.path_params["session"]
    a, _, b = request.path_params["range"].partition("..")
    refs = (ref if ":" in ref else f"{session}:{ref}" for ref in (a, b or "head"))
    return RedirectResponse("/compare?a={}&b={}".format(*refs), status_code=303)


def _point(found: Served, ref: str) -> Point:
    session, colon, position = ref.partition(":")
    view = found.store.read(session)
    return view.at(position if colon and position else "head")


def _side(found: Served, point: Point, trunk: int) -> ComparedSide:
    store = found.store.as_read
    commits = store.commits(point.session, after=trunk, upto=point.seq, limit=COMMITS_MAX)
    row = store.session(point.session)
    model = model_in(store.entries(point.session, "settings", at=point.seq))
    turns = _turns(commits, prices_in(store), model)
    is_cut = bool(commits) and commits[-1].seq < point.seq
    files = {file_key(one.root, one.path) for one in _touched(commits) if one.op not in LOOKS}
    made = lane(turns, files=len(files), times=row.has_times, cut=is_cut)
    if is_cut and not trunk:  # what all of it cost is known without its other steps
        made = replace(made, spend=_spent(found, row, point), spend_is_whole=True)
    return ComparedSide(row=row, point=point, lane=made)


def _spent(found: Served, row: SessionRow, point: Point) -> dict[str, int]:
    """What a session cost up to a point."""
    store = for_one_answer(found.store.as_read)
    spend, prices = spend_of(store.entries(row.id, "spend", at=point.seq)), prices_in(store)
    return SessionCosts(store, row, prices, spend).of(spend) if prices is not None else spend


def looks(verb: str) -> tuple[str, str]:
    """The icon and the word for what a step did, as on the page of its session."""
    icon, word, _ = ACTS.get(act_of(verb), ("", "", ""))
    known = {"decided": "split", "agent": "agent", "revision": "git", "plan": "plan"}
    return (icon, word) if icon else (known.get(verb, "ring"), verb.capitalize())


def _touched(commits: list[Commit]) -> list[FileRecord]:
    """What commits say of files that they read or changed."""
    puts = (op.record for commit in commits for op in commit.delta if isinstance(op, Put))
    return [record for record in puts if isinstance(record, FileRecord)]


def _turns(commits: list[Commit], prices: Prices | None, model: str) -> list[TurnFold]:
    base = base_of(one.path for one in _touched(commits))
    return [
        fold(list(group), {}, base, times=True, prices=prices, model=model)
        for turn, group in groupby(commits, key=lambda commit: commit.turn)
        if turn
    ]


def _choose(request: Request, found: Served, a: str) -> Response:
    """What can be compared with a session: its other branches, then the sessions used last."""
    if not a:
        page = found.store.as_read.sessions(SessionQuery(), limit=CHOICES_MAX)
        return render(
            request, "compare_choose.html", tab="sessions", a=None, ref="", rows=page.rows
        )
    view = found.store.read(a.partition(":")[0])
    branches = [b for b in tree_of(found.store.as_read, view.id).branches if b.id != view.id]
    page = found.store.as_read.sessions(
        SessionQuery(project=view.record.project), limit=CHOICES_MAX
    )
    near: set[str] = {branch.id for branch in branches}
    others: list[Any] = [row for row in page.rows if row.id not in near | {view.id}]
    return render(
        request,
        "compare_choose.html",
        tab="sessions",
        a=view.row,
        ref=a,
        branches=branches[:CHOICES_MAX],
        rows=others,
    )


ROUTES = (
    Route("/compare", compare),
    Route("/s/{session}/compare/{range}", of_session),
)
