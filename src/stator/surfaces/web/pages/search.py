"""Search over everything: as you type where there is a script, by a plain form without one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.errors import BadQuery, StatorError
from stator.runtime.views.search import Hit
from stator.surfaces.http.served import served
from stator.surfaces.web.page import is_fragment, render
from stator.surfaces.web.slow_answers import SlowAnswers

HITS = 40
TYPED = 15
"""Matches that are shown while a person types."""
WORDS_MAX = 300
"""Characters of a query that are looked at."""
KINDS = (
    ("", "Everything"),
    ("turn", "Prompts"),
    ("entry", "Answers"),
    ("call", "Calls"),
    ("outcome", "Results"),
    ("decision", "Decisions"),
    ("fact", "Facts"),
    ("file", "Files"),
)
"""What can be searched alone: the kind of commit, and its word."""
WORDS = {"turn": "prompt", "entry": "answer", "outcome": "result", "dead_end": "dead end"}


def search(request: Request) -> Response:
    words = request.query_params.get("q", "")[:WORDS_MAX].strip()
    kind = request.query_params.get("kind", "")
    kind = kind if kind in dict(KINDS) else ""
    project = request.query_params.get("project", "")
    typed = is_fragment(request)
    hits: list[Hit] = []
    wrong = ""
    is_reading = False
    if words:
        try:
            found = _found(request, _prefixed(words) if typed else words, kind, project, typed)
        except (BadQuery, StatorError) as error:
            wrong = str(error)
        else:
            hits, is_reading = found
    return render(
        request,
        "search_found.html" if typed else "search.html",
        words=words,
        kind=kind,
        kinds=KINDS,
        project=project,
        hits=[(hit, list(marked(hit)), WORDS.get(hit.kind, hit.kind)) for hit in hits],
        more=len(hits) == (TYPED if typed else HITS),
        wrong=wrong,
        typed=typed,
        is_reading=is_reading,
        progress=request.app.state.slow_answers.progress("search"),
        again=f"/search?{request.url.query}",
    )


def _found(
    request: Request, words: str, kind: str, project: str, typed: bool
) -> tuple[list[Hit], bool]:
    """What matches; while the index of words is filled, what of it is there already, and True."""
    slow: SlowAnswers = request.app.state.slow_answers
    search = partial(
        served(request).store.search,
        words,
        kinds=(kind,) if kind else (),
        project=project or None,
        limit=TYPED if typed else HITS,
    )
    found = slow.soon("search", lambda: search(progress=slow.reports("search")))
    return (search(fresh=False), True) if found is None else (found, False)


def _prefixed(words: str) -> str:
    """A query that is still being typed: its last word may only be the beginning of one."""
    return f"{words}*" if words[-1].isalnum() and words.count('"') % 2 == 0 else words


def marked(hit: Hit) -> Iterator[tuple[str, bool]]:
    """The snippet in pieces, and whether each matched."""
    end = 0
    for low, high in hit.matched:
        if low > end:
            yield hit.snippet[end:low], False
        yield hit.snippet[max(low, end) : high], True
        end = max(end, high)
    if end < len(hit.snippet):
        yield hit.snippet[end:], False


ROUTES = (Route("/search", search),)
