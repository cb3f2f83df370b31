"""Renders templates: one environment with escaping always on, and the filters that pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context as JinjaContext
from starlette.requests import Request
from starlette.responses import HTMLResponse

from stator.model.calls.costs import is_computed
from stator.model.records.types import UNPRICED
from stator.model.values.escape import visible
from stator.model.values.ids import short
from stator.surfaces.cli.render import amounts, project_entries, times
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.turns import subject
from stator.surfaces.http.served import Served, served
from stator.surfaces.web import forms, spans, state_words
from stator.surfaces.web.shape.prose import unmarked

_SOURCE_MAX = 60
"""Characters that say who a line of a brief comes from, at most."""
_MONTH_US = 31 * 86_400 * 1_000_000
TABS = (
    ("needs", "/", "Needs you"),
    ("sessions", "/sessions", "Sessions"),
    ("project", "/project", "Project"),
    ("files", "/files", "Files"),
    ("cost", "/cost", "Cost"),
)
"""The pages that the bar at the top names: their name, address and words."""


def shown_text(value: Any) -> Any:
    """What an expression of a template becomes: text with every character visible, whatever filters it passed."""
    return visible(value, newline="\n") if type(value) is str else value


@cache
def environment(finalize: Callable[[Any], Any] = shown_text) -> Environment:
    """The templates of the package. Escaping is on for every template, and nothing is marked as safe. `finalize` is
    applied to every expression before it is escaped."""
    env = Environment(
        loader=PackageLoader("stator.surfaces.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    env.filters.update(
        visible=lambda text: visible(text, newline="\n"),
        line=visible,
        short=short,
        money=amounts.money,
        price=_price,
        money_mark=_money_mark,
        one_slash=lambda path: f"/{path.lstrip('/')}" if path.startswith("/") else path,
        tokens=amounts.tokens,
        cached=amounts.cached,
        count=amounts.short,
        took=_took,
        span=times.span,
        clock=times.clock,
        hour=times.hour,
        day=times.day,
        stamp=times.stamp,
        unmarked=unmarked,
        span_name=lambda name, by: spans.shown(by, name),
        sentence=lambda text: text[:1].upper() + text[1:],
        source_of=_source_of,
        quoted=lambda text: text.removeprefix("the user: ").removeprefix("«").removesuffix("»"),
        dashless=lambda text: text.removeprefix("- "),
        without_command=lambda words: words.partition(" (stator ")[0],
        endless=lambda text: text.rstrip("\r\n").expandtabs(4),
        below=subject.relative,
        lately=lambda moment, now: (
            times.ago(moment, now) if 0 <= now - moment < _MONTH_US else times.date(moment, now)
        ),
        state_name=state_words.name_of,
        state_words=state_words.words_of,
        resolve_with=project_entries.resolve_with,
        block=lambda text: visible(text.expandtabs(4), newline="\n"),
        date=times.date,
        period=period,
        ago=times.ago,
        number=lambda value: f"{value:,}",
        plural=count,
        folder=lambda path: path.rpartition("/")[0],
        base=lambda path: path.rpartition("/")[2],
        project_name=_project_name,
    )
    env.globals["new_form"] = forms.new_form
    return env


@pass_context
def _project_name(values: JinjaContext, project: str) -> str:
    """A project as people call it."""
    found: Served = values["served"]
    return found.store.context.project_name(project)


def _took(microseconds: int | None) -> str:
    """0.1 s, 16 s, 3 min; nothing for what took no time that a person would notice, or where it is unknown."""
    return "" if not microseconds or microseconds < 50_000 else amounts.took(microseconds)


def _price(spend: Mapping[str, int]) -> str:
    """What was spent: money where prices are known, else tokens; a dash where neither is."""
    if any(unit.startswith("money:") for unit in spend) or "tokens" not in spend:
        return amounts.money(spend)
    return f"{amounts.tokens(spend)} tokens"


def _money_mark(spend: Mapping[str, int]) -> str:
    """What the signs before an amount of money say, in a few words; the page Cost says more."""
    words = ["computed"] if is_computed(spend) else []
    lacks = UNPRICED in spend and any(unit.startswith("money:") for unit in spend)
    return ", ".join([*words, "not whole"] if lacks else words)


def _source_of(text: str) -> tuple[str, str]:
    """Of `[user] t1 …` in a brief: who it comes from, and the rest; nobody where it does not say."""
    who, closed, rest = text.partition("] ")
    is_named = bool(closed) and who.startswith("[") and len(who) <= _SOURCE_MAX
    return (who[1:], rest) if is_named else ("", text)


def period(first: int, last: int, now: int) -> str:
    """12 Feb, 16:02 to 21:03; with both days where they differ, and one time where that is all."""
    began = f"{times.date(first, now)}, {times.hour(first)}"
    if times.hour(first) == times.hour(last) and times.day(first) == times.day(last):
        return began
    if times.day(first) == times.day(last):
        return f"{began} to {times.hour(last)}"
    return f"{began} to {times.date(last, now)}, {times.hour(last)}"


def render(
    request: Request, template: str, *, tab: str = "", status: int = 200, **values: Any
) -> HTMLResponse:
    """A page, or the part of one that a script asked for. `tab` is the page that the top bar marks."""
    found = served(request)
    made = environment().get_template(template)
    values = {
        "tabs": TABS,
        "tab": tab,
        "now": found.now,
        "served": found,
        "request": request,
        **values,
    }
    text = made.render(notice=forms.said_on(request), here=_address(request), **values)
    return HTMLResponse(text, status_code=status)


def _address(request: Request) -> str:
    """Where the page is, without the host: to come back to it."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def is_fragment(request: Request) -> bool:
    """Whether a script asked for a part of the page, to put it into one that is shown."""
    return "hx-request" in request.headers
