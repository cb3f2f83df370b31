"""Search over everything: as you type where there is a script, by a plain form without one."""

from __future__ import annotations

from collections.abc import Iterator

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
READING = "What was recorded is being read for the first time, or there is much of it. Search again in a moment."
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
    if words:
        try:
            found = _found(request, _prefixed(words) if typed else words, kind, project, typed)
        except (BadQuery, StatorError) as error:
            wrong = str(error)
        else:
            hits, wrong = found or [], READING if found is None else ""
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
    )


def _found(request: Request, words: str, kind: str, project: str, typed: bool) -> list[Hit] | None:
    """What matches; None while the index of words is filled."""
    slow: SlowAnswers = request.app.state.slow_answers
    store = served(request).store
    return slow.soon(
        "search",
        lambda: store.search(
            words,
            kinds=(kind,) if kind else (),
            project=project or None,
            limit=TYPED if typed else HITS,
        ),
    )


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
