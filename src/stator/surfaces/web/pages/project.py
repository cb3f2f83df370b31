"""What a project knows: conflicts first, then what is in force and what it replaced, and the next session's brief."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from stator.errors import NotFound
from stator.model.log.query import SessionQuery
from stator.model.views.project_state import OPEN, ProjectState, StateEntry, StateValue
from stator.model.window.words import tokens
from stator.runtime.views import project_state
from stator.surfaces.http.served import Served, served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.projects import KnownProject, known_projects
from stator.surfaces.web.slow_answers import SlowAnswers

BUDGETS = (700, 4000, 100)
"""The smallest and largest brief that can be looked at, in tokens, and the step."""
BUDGET = 1200
ENTRIES = 30
"""Entries of a collection that are shown."""
RECAPS = 6
AGAIN_S = 2
"""Seconds after which a browser asks again for a page that could not be made yet."""
FINDS = ("decisions", "facts", "preferences", "dead_ends", "plan", "revisions")


class DecisionPoint(msgspec.Struct, frozen=True):
    """A decision on the time line: one in force, or one that was replaced."""

    value: StateValue
    replaced_by: StateEntry | None = None
    replaces: str = ""


def current(request: Request) -> Response:
    """The project that the service was started in, or the one that was worked in last."""
    found = served(request)
    projects = known_projects(found)
    names = [one.name for one in projects]
    if not names:
        return render(request, "project_none.html", tab="project")
    return _page(request, found.project if found.project in names else names[0], projects)


def project(request: Request) -> Response:
    name = request.path_params["project"]
    projects = known_projects(served(request))
    if name not in [one.name for one in projects]:
        page = served(request).store.port.sessions(SessionQuery(project=name), limit=1)
        if not page.rows:
            raise HTTPException(404, "There is no such project.")
    return _page(request, name, projects)


def _page(request: Request, name: str, projects: Sequence[KnownProject]) -> Response:
    found = served(request)
    slow: SlowAnswers = request.app.state.slow_answers
    report = slow.reports("projects")
    whole = slow.soon(
        "projects", lambda: found.store.state(project=name, limit=ENTRIES, progress=report)
    )
    store = found.store
    state = whole or project_state.known_so_far(store.port, store.context, name, limit=ENTRIES)
    shown = {kind: state[kind] for kind in FINDS}
    conflicts = [one for kind in FINDS for one in shown[kind] if one.conflicts]
    budget = _budget(request)
    answer = render(
        request,
        "project.html",
        tab="project",
        name=name,
        projects=[one for one in projects if one.name != name],
        about=next((one for one in projects if one.name == name), None),
        state=state,
        conflicts=conflicts,
        decisions=_points(shown["decisions"]),
        steps=[one for one in shown["plan"] if getattr(one.record, "status", "") in OPEN],
        standing=len(shown["decisions"]) + state.more.get("decisions", 0),
        is_empty=_is_empty(state),
        budgets=BUDGETS,
        budget=budget or BUDGET,
        brief=_brief(found, name, budget) if budget and whole else None,
        is_reading=whole is None,
        progress=slow.progress("projects"),
    )
    if whole is None:  # the browser asks again, without a script too
        answer.headers["Refresh"] = str(AGAIN_S)
    return answer


def brief(request: Request) -> Response:
    """The brief at a budget: the part of the page that the slider changes."""
    name = request.path_params["project"]
    if not is_fragment(request):
        return RedirectResponse(f"/projects/{name}?budget={_budget(request) or BUDGET}", 303)
    found = _brief(served(request), name, _budget(request) or BUDGET)
    return render(request, "brief.html", brief=found, budget=_budget(request) or BUDGET)


def recap(request: Request) -> Response:
    """What the last sessions of a project were asked, did, and how they ended."""
    name = request.path_params["project"]
    found = served(request).store.recap(project=name, limit=RECAPS)
    return render(request, "recap.html", tab="project", name=name, recaps=found)


def _points(entries: Sequence[StateEntry]) -> list[DecisionPoint]:
    """Decisions in the order in which they were made, the newest first, with those that they replaced."""
    found = []
    for entry in entries:
        replaces = _what(entry.earlier[0]) if entry.earlier else ""
        found.append(DecisionPoint(entry, None, replaces))
        found += [DecisionPoint(value, entry) for value in entry.earlier]
    return sorted(found, key=lambda point: -point.value.happened)[: 2 * ENTRIES]


def _what(value: StateValue) -> str:
    return str(getattr(value.record, "what", ""))


def _is_empty(state: ProjectState) -> bool:
    return not any(state[kind] for kind in FINDS)


def _budget(request: Request) -> int:
    """The budget that is asked for, within bounds; 0 if none is."""
    text = request.query_params.get("budget", "")
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        return 0
    return min(max(int(text), BUDGETS[0]), BUDGETS[1])


def _brief(found: Served, project: str, budget: int) -> dict[str, Any] | None:
    """The brief of the session that was worked in last, line by line with its tokens."""
    try:
        view = found.store.read("last", project=project)
    except NotFound:
        return None
    made = view.brief(max_tokens=budget)
    return {
        "session": view.row,
        "tokens": made.tokens,
        "sections": [
            {
                "title": section.title,
                "lines": [(line, tokens(line.text)) for line in section.lines],
            }
            for section in made.sections
            if section.lines
        ],
        "left_out": [
            (section.title, section.left_out) for section in made.sections if section.left_out
        ],
    }


ROUTES = (
    Route("/project", current),
    Route("/projects/{project:path}/brief", brief),
    Route("/projects/{project:path}/recap", recap),
    Route("/projects/{project:path}", project),
)
