"""`stator search`: finds text in prompts, answers, calls, decisions, facts and paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stator.index_files import keeps_index
from stator.model.log.query import PAGE_MAX, check_limit
from stator.model.values.ids import short
from stator.runtime.views.search import Hit
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.progress import delayed_bar
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import parse_since, stamp

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        CountOption,
        JsonFlag,
        KindOption,
        NoPagerFlag,
        NotOption,
        SessionOption,
        SinceOption,
        StoreOption,
        UntilOption,
        WordsArgument,
    )

EXAMPLES = """
stator search jwt login            both words, in this project
stator search 'session store' --all   a phrase, in the whole store
stator search 'migrat*' --kind decision --since 30d
stator search timeout --tool bash --path tests/ --not retry
stator search jwt --json | jq -r '"\\(.session):@\\(.seq)"'
"""
LIMIT = 20
QUOTES = re.compile('["“”„«»]')
TURN = 5
"""Smallest width of the turn column."""
DAY = 86_400_000_000


def search(
    words: WordsArgument = None,
    *,
    not_: NotOption = None,
    all: AllFlag = False,
    session: SessionOption = None,
    agent: str | None = None,
    tool: str | None = None,
    path: str | None = None,
    kind: KindOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: CountOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Search the sessions of this project, or of the whole store.

    Searches prompts, answers, tool calls and their results, decisions, facts, plans, dead ends, artifacts and
    paths. Ignores case and accents, and finds names by their parts (login finds user_login). Matches are
    grouped by session, best match first. The index is a file beside the store; each search updates it, and it
    can be deleted at any time.

    Parameters
    ----------
    agent
        Only sessions of this agent.
    tool
        Only calls of this tool.
    path
        Only matches about this path or part of a path.
    """
    wanted = check_limit(LIMIT if limit is None else limit)
    asked = " ".join([*map(_as_term, words or ()), *map(_as_excluded_term, not_ or ())])
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        with delayed_bar(screen, opened.store.context.monotonic) as progress:
            found = opened.store.search(
                asked,
                project=None if all or session is not None else opened.project,
                agent=agent,
                tool=tool,
                path=path,
                session=session,
                kinds=kind or (),
                since=0 if since is None else parse_since(since, opened.now),
                until=0 if until is None else _until(until, opened.now),
                limit=min(wanted + 1, PAGE_MAX),
                progress=progress,
            )
        shown = found[:wanted]
        if json:
            for hit in shown:
                screen.item(_as_json(hit))
        else:
            screen.lines(_lines(shown, projects=all))
            if len(found) > wanted:
                screen.line(
                    Line(f"… more matches; show them with -n {min(wanted * 2, PAGE_MAX)}", "dim")
                )
            screen.lines(_hint(shown))
        if not keeps_index(opened.store.port):
            note("cannot write a search index beside this store, so each search reads all of it")
        if not found:
            return opened.report_empty(
                _empty_message(opened, everywhere=all or session is not None)
            )
    return 0


def _until(text: str, now: int) -> int:
    """A time in µs; a date alone means the end of that day."""
    whole_day = DAY - 1 if len(text) == len("2026-11-15") and "-" in text else 0
    return parse_since(text, now) + whole_day


def _as_term(word: str) -> str:
    """One search term: an argument with spaces in it was quoted in the shell, so it is a phrase."""
    return f'"{word}"' if len(word.split()) > 1 and not QUOTES.search(word) else word


def _as_excluded_term(word: str) -> str:
    """An argument of --not as an excluded word or phrase."""
    bare = QUOTES.sub(" ", word).strip()
    return f'-"{bare}"' + ("*" if bare.endswith("*") else "")


def _empty_message(opened: OpenedStore, *, everywhere: bool) -> str:
    others = not everywhere and bool(opened.store.sessions(limit=1).rows)
    return "no matches" + (" in this project; --all searches every project" if others else "")


def _lines(hits: list[Hit], *, projects: bool) -> Iterator[Line]:
    """Hits grouped by session; the session with the best hit comes first."""
    grouped: dict[str, list[Hit]] = {}
    for hit in hits:
        grouped.setdefault(hit.session, []).append(hit)
    places = widest((f"@{hit.seq}" for hit in hits), 10)
    turns = max(TURN, widest((f" t{hit.turn}" for hit in hits), 12))
    kinds = widest((hit.kind for hit in hits), 12)
    for number, (session, group) in enumerate(grouped.items()):
        first = group[0]
        if number:
            yield Line()
        line = Line(first.name, "title").add(" ").add(short(session), "id")
        line.add(f" · {first.agent}" if first.agent else "", "dim")
        line.add(f" · {first.project}" if projects and first.project else "", "dim")
        yield line.add(f" · {count(len(group), 'hit')}", "dim")
        for hit in group:
            yield _line(hit, places, turns, kinds)


def _hint(hits: list[Hit]) -> Iterator[Line]:
    """The command that opens the best hit."""
    if hits:
        yield Line()
        what = "the match" if len(hits) == 1 else "the first match"
        yield Line(f"show {what}: stator show {short(hits[0].session)}:@{hits[0].seq}", "dim")


def _line(hit: Hit, places: int, turns: int, kinds: int) -> Line:
    line = Line("  ").add(f"@{hit.seq}", "id", width=places).add(" ")
    line.add(stamp(hit.at), "dim").add(f" t{hit.turn}" if hit.turn else "", "dim", width=turns)
    line.add(" ").add(hit.kind, width=kinds).add(" ")
    if hit.rewound:
        line.add("(rewound) ", "dim")
    place = 0
    for start, end in hit.matched:
        line.add(hit.snippet[place:start]).add(hit.snippet[start:end], "match")
        place = end
    return line.add(hit.snippet[place:])


def _as_json(hit: Hit) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(hit)
    return {"schema": "stator.hit/1", **plain}
