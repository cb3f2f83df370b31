"""One session: its turns, newest first; one turn; a run of calls; a text that is long."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.errors import NotFound
from stator.model.log.commit import CONTENT, Gone, gone
from stator.model.values.ids import is_id
from stator.model.window.reply import dialect, text_of
from stator.runtime.base.pages import commits_at
from stator.runtime.views.browse import turns as reading
from stator.runtime.views.browse.turns import SessionHead
from stator.runtime.views.refs import find_session
from stator.surfaces.cli.render.record_line import size, value_of
from stator.surfaces.http.served import served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.pictures.turn_time import turn_time
from stator.surfaces.web.shape import texts, turn_view
from stator.surfaces.web.shape.timeline import timeline
from stator.surfaces.web.shape.turn_view import TurnView

NUMBER_MAX = 10**12


def session_id(request: Request) -> str:
    """The session that an address names: by its id, or by the end of one."""
    named: str = request.path_params["session"]
    return named if is_id(named, "session") else find_session(reader(request), named).id


def reader(request: Request) -> Any:
    """The store as readers see it."""
    return served(request).store.as_read


def number(request: Request, name: str) -> int:
    """A number of an address; 0 if it is missing or not a number."""
    text = request.query_params.get(name, "")
    return min(int(text), NUMBER_MAX) if text.isascii() and text.isdecimal() else 0


def page(request: Request) -> Response:
    """The newest turns of a session, or older ones."""
    before = number(request, "before")
    found = reading.newest_turns(reader(request), session_id(request), before=before)
    return _turns(
        request, "session.html", found.head, turn_view.in_short(found),
        older=found.older, newer=bool(before), follow="" if before else tail_of(found.head),
    )  # fmt: skip


def turn(request: Request) -> Response:
    """One turn in full."""
    wanted: int = request.path_params["turn"]
    after, every = number(request, "after"), bool(request.query_params.get("every"))
    found = reading.one_turn(reader(request), session_id(request), wanted, after=after)
    is_last = wanted == found.head.row.turns
    views = turn_view.in_full(found, runs=not every)
    return _turns(
        request, "turn.html", found.head, views, number=wanted, every=every,
        time=turn_time(views[0]), follow=tail_of(found.head) if is_last else "",
    )  # fmt: skip


def calls(request: Request) -> Response:
    """The calls of a range, one by one."""
    after, upto = number(request, "after"), number(request, "upto")
    found = reading.range_of(reader(request), session_id(request), after, upto)
    views = turn_view.in_full(found, runs=False)
    return render(
        request, "lines.html", tab="sessions", head=found.head, turns=views,
        number=found.turns[0].number, fragment=is_fragment(request),
    )  # fmt: skip


def text(request: Request) -> Response:
    """A text of a commit, a part at a time."""
    session, store = session_id(request), reader(request)
    seq, field = request.path_params["seq"], request.path_params["field"]
    found = commits_at(store, session, [seq]) if field in CONTENT else []
    if not found:
        raise NotFound(f"session {session} has no {field} at @{seq}")
    item = found[0].content.get(field)
    whole = gone(item.by) if isinstance(item, Gone) else _readable(value_of(found[0], field))
    begin = number(request, "from")
    part, end = whole[begin : begin + texts.CHUNK], begin + texts.CHUNK
    rest = f"{texts.text_address(session, seq, field)}?from={end}" if end < len(whole) else ""
    left = texts.ShownText(
        text=part, rest=rest, size=f"{size(len(whole) - end)} more" if rest else ""
    )
    return render(
        request, "text.html", tab="sessions", id=session, seq=seq, field=field, shown=left,
        whole=size(len(whole)), fragment=is_fragment(request),
    )  # fmt: skip


def _readable(value: Any) -> str:
    return text_of(value) if dialect(value) != "plain" else texts.readable(value)


def tail_of(head: SessionHead) -> str:
    """Where what comes after a page is followed."""
    return f"/v1/sessions/{head.row.id}/tail?after={head.row.head}"


def _turns(
    request: Request, template: str, head: SessionHead, turns: list[TurnView], **values: Any
) -> Response:
    return render(
        request, template, tab="sessions", head=head, turns=turns, picture=timeline(turns), **values
    )


ROUTES = (
    Route("/s/{session}", page),
    Route("/s/{session}/t{turn:int}", turn),
    Route("/s/{session}/calls", calls),
    Route("/s/{session}/text/{seq:int}/{field}", text),
)
