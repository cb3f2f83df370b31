"""The film strip of a session: what was called, touched, seen and spent, and the state at one position."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.model.calls.costs import less
from stator.model.records.text import prompt_text
from stator.model.views.film_strip import context_now
from stator.runtime.base.costs import asks_cost
from stator.runtime.views.as_read import for_one_answer, prices_in
from stator.runtime.window.film_strip import KeptStrips, StripPage, read_strip
from stator.runtime.window.strip_costs import with_costs
from stator.surfaces.cli.render.turns.subject import base_of
from stator.surfaces.http.served import served
from stator.surfaces.web.page import render
from stator.surfaces.web.pictures.film import film_picture

KEPT = KeptStrips()
"""Strips of this process; the keys hold the heads of sessions, whose ids no two stores share."""
PROMPT_MAX = 300


def strip(request: Request) -> Response:
    found = served(request)
    view = found.store.read(request.path_params["session"])
    asked = request.query_params
    position = f"@{asked['commit']}" if "commit" in asked else asked.get("at", "head")
    store = for_one_answer(found.store.as_read)
    costs = asks_cost(view.id, prices_in(store))
    page = read_strip(store, view.id, position, KEPT, also=list(costs))
    if page is None:
        return render(request, "strip_empty.html", tab="sessions", row=view.row)
    page = with_costs(store, page)
    return render(request, "strip.html", tab="sessions", page=page, **_shown(page))


def _shown(page: StripPage) -> dict[str, Any]:
    frames, current, began = page.strip.frames, page.current, page.asked.began
    steps = [step for step in page.plan if step.status != "dropped"]
    return {
        "picture": film_picture(page.strip, current),
        "frame": frames[current],
        "before": frames[current - 1].position if current else _outside(frames[0].turn - 1),
        "after": frames[current + 1].position
        if current + 1 < len(frames)
        else _outside(frames[-1].turn + 1, page.turns),
        "prompt": " ".join(prompt_text(began.known("input") if began else "").split())[:PROMPT_MAX],
        "when": began.when if began else page.asked.at,
        "base": base_of(file.path for file in page.strip.files),
        "cost": _cost(page),
        "in_view": context_now(page.strip, current),
        "steps": steps,
        "done": sum(step.status == "done" for step in steps),
        "shown_turns": range(page.hidden_before + 1, frames[current].turn + 1),
    }


def _cost(page: StripPage) -> dict[str, int]:
    """What the frame of the position cost; nothing where it is not known what was spent before it."""
    spent, at = page.strip.spent, page.current
    if not at and page.strip.frames[0].turn > 1:
        return {}
    return less(spent[at], spent[at - 1] if at else {})


def _outside(turn: int, last: int | None = None) -> str:
    """The position of a turn beyond the frames that are drawn; empty beyond the first and the last."""
    return f"t{turn}" if turn >= 1 and (last is None or turn <= last) else ""


ROUTES = (Route("/s/{session}/strip", strip),)
