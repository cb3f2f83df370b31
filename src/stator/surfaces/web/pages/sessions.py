"""Sessions: those at work first, then the others by when they were used, each with how it ended and what it cost."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.errors import BadQuery
from stator.model.views.name_words import is_words_of
from stator.runtime.views.browse.session_list import PagedSession, session_page
from stator.surfaces.cli.render import amounts
from stator.surfaces.http.served import served
from stator.surfaces.web.page import render
from stator.surfaces.web.shape.prose import unmarked

CURSOR_MAX = 4
"""Numbers of a cursor."""
TEXT_MAX = 240
FILTERS_MAX = 12
BROKEN_OFF = ("interrupted", "aborted", "cancelled")
"""How a last turn ended that somebody stopped: that is no failure."""


class SessionLine(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the list shows it."""

    id: str
    head: int
    name: str
    asked: str
    """What it was asked, where its name does not say so."""
    ended: str
    said: str
    state: str
    """live, doubt, wait, fail, cut, done or rest: what its icon says."""
    project: str
    agent: str
    updated: int
    has_times: bool
    cost: str
    turns: int


def page(request: Request) -> Response:
    """A page of sessions, of a project and an agent if the address names them."""
    chosen = {name: request.query_params.get(name, "") for name in ("project", "agent")}
    found = session_page(
        served(request).store.as_read,
        project=chosen["project"] or None,
        agent=chosen["agent"] or None,
        cursor=_cursor(request.query_params.get("after", "")),
    )
    live, rest = [list(map(_line, rows)) for rows in (found.live, found.rest)]
    older = ""
    if found.cursor is not None:
        after = ".".join(map(str, found.cursor))
        older = "/sessions?" + urlencode({k: v for k, v in chosen.items() if v} | {"after": after})
    return render(
        request, "sessions.html", tab="sessions", live=live, older=older, chosen=chosen,
        rest=[line for line in rest if line.has_times],
        undated=[line for line in rest if not line.has_times],
        several=bool(chosen["project"]) or len({line.project for line in [*live, *rest]}) > 1,
        is_first="after" not in request.query_params, filters=_filters([*live, *rest]),
    )  # fmt: skip


def _filters(lines: list[SessionLine]) -> list[tuple[str, list[str]]]:
    """What the list can be narrowed to; agents are left out where each has a project of its name."""
    found = {
        name: sorted({getattr(line, name) for line in lines if getattr(line, name)})
        for name in ("project", "agent")
    }
    if found["agent"] == found["project"]:
        found["agent"] = []
    return [(name, values[:FILTERS_MAX]) for name, values in found.items()]


def _cursor(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    parts = text.split(".")
    known = len(parts) <= CURSOR_MAX and all(_is_number(part) for part in parts)
    if not known:
        raise BadQuery(f"not a place in the list of sessions: {text!r:.40}", hint="open /sessions")
    return tuple(map(int, parts))


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 19


def _line(one: PagedSession) -> SessionLine:
    recap, row = one.recap, one.row
    asked = "" if is_words_of(row.record.name, recap.asked) else recap.asked
    return SessionLine(
        id=row.id,
        head=row.head,
        name=row.record.name,
        asked=unmarked(asked)[:TEXT_MAX],
        ended=_ended(one),
        said=unmarked(recap.said)[:TEXT_MAX],
        state=_state(one),
        project=row.record.project,
        agent=row.record.agent,
        updated=row.used,
        has_times=row.has_times,
        cost=_cost(one.spend),
        turns=row.turns,
    )


def _ended(one: PagedSession) -> str:
    """How it ended, in a few words; what asks for a person first."""
    words = []
    if one.doubts:
        words.append(f"{one.doubts} in doubt")
    if one.waiting:
        words.append(f"{one.waiting} waiting for you")
    said = {"nothing open", "still at work", *(["interrupted"] if words else [])}
    words += [word for word in one.recap.ended if word not in said]
    return ", ".join(words)


def _state(one: PagedSession) -> str:
    if one.doubts:
        return "doubt"
    if one.waiting:
        return "wait"
    if one.row.shown in ("active", "silent"):
        return "live"
    if one.recap.last_turn == "error":
        return "fail"
    if one.row.shown == "interrupted" or one.recap.last_turn in BROKEN_OFF:
        return "cut"
    return "done" if one.recap.last_turn == "ok" or one.recap.revisions else "rest"


def _cost(spend: dict[str, int]) -> str:
    price = amounts.money(spend)
    if price != amounts.UNKNOWN:
        return price
    return f"{amounts.tokens(spend)} tok" if "tokens" in spend else ""


ROUTES = (Route("/sessions", page),)
