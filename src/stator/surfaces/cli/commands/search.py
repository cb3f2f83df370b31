"""`stator search`: finds text in prompts, answers, calls, decisions, facts and paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stator.index_files import keeps_index
from stator.model.log.query import PAGE_MAX, CallQuery, SessionRow, check_limit, read
from stator.model.values.ids import short
from stator.model.views.search import PREFIX_MIN
from stator.runtime.base.one_answer import ahead
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.glance.calls import precise
from stator.runtime.views.last_acts import acted
from stator.runtime.views.search import Hit, Spread, search_counted
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.parts.question.typed_kind import typed_kinds
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.lines import Line, cells, widest
from stator.surfaces.cli.render.progress import delayed_bar
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.session_words import name_line
from stator.surfaces.cli.render.table import Column, table
from stator.surfaces.cli.render.times import NO_TIME, ago, parse_since, stamp

if TYPE_CHECKING:
    from stator.runtime.facade.store import Store
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        KindOption,
        LimitOption,
        NoPagerFlag,
        NotOption,
        ProjectFlag,
        SessionOption,
        SinceOption,
        StoreOption,
        UntilOption,
        WordsArgument,
    )

EXAMPLES = """
stator search jwt login            both words, in this project
stator search 'session store' --everywhere   a phrase, in the whole store
stator search 'migrat*' --kind decision --since 30d
stator search timeout --tool bash --path tests/ --not retry
stator search jwt --json | jq -r '"\\(.session):@\\(.seq)"'
"""
LIMIT = 20
QUOTES = re.compile('["“”„«»]')
WORD_ALONE = re.compile(rf"(?<!\S)(\w{{{PREFIX_MIN},}})(?!\S)")
"""A word that is asked for as it is: no phrase, no beginning, and not excluded."""
BEGINNING = re.compile(r"\w+\*\Z")
STEM_MIN, SHORTENED = 3, 3
"""Letters that are left of a word without matches, and words of which beginnings are tried."""
TURN = 5
"""Smallest width of the turn column."""
DAY = 86_400_000_000
SESSIONS_MAX = 15
"""Sessions that are listed of those with matches."""
ENDINGS_MAX = 100
"""Calls among the matches of which it is looked up how they ended."""
LEAST = 3
"""Matches of each session that are shown, as far as there is room."""
NAME_LEAST = 16
"""Cells of the name above the matches of a session, at least."""
SPREAD = (
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="AGENT", most=14, drop=2),
    Column(title="LAST USED", drop=1),
    Column(title="MATCHES", right=True),
    Column(title="ID"),
    Column(title="PROJECT", shrinks=True, most=24),
)


def search(
    words: WordsArgument = None,
    *,
    not_: NotOption = None,
    session: SessionOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    agent: str | None = None,
    tool: str | None = None,
    path: str | None = None,
    kind: KindOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Search the sessions of this project, or of the whole store.

    Searches prompts, answers with what the agent thought, tool calls and their results, decisions, facts,
    plans, dead ends, artifacts and paths. Does not search recorded contents of files (only what calls wrote,
    read or printed of them), definitions of tools, settings and usage. A match is a commit: a request for a tool
    counts once, as the call. Ignores case and accents, and finds whole words, and names by their parts (login
    finds user_login). Matches are grouped by session, best match first. The index is a file beside the store;
    each search updates it, and it can be deleted at any time.

    Parameters
    ----------
    agent
        Only sessions of this agent.
    tool
        Only calls of this tool.
    path
        Only what is about this path, or a part of one.
    """
    wanted = check_limit(LIMIT if limit is None else limit)
    asked = " ".join([*map(_as_term, words or ()), *map(_as_excluded_term, not_ or ())])
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope = scope_of(opened, session=session, project=project, everywhere=everywhere)
        kinds = typed_kinds(kind or ())
        first = 0 if since is None else parse_since(since, opened.now)
        last = 0 if until is None else _until(until, opened.now)

        def chosen(scope: QuestionScope) -> dict[str, Any]:
            return {
                "project": None if scope.view is not None else scope.project,
                "session": _searched(scope),
                "agent": agent, "tool": tool, "path": path, "kinds": kinds,
                "since": first, "until": last,
            }  # fmt: skip

        def find(scope: QuestionScope, terms: str) -> bool:
            return bool(opened.store.search(terms, limit=1, **chosen(scope)))

        with delayed_bar(screen, opened.store.context.monotonic) as progress:
            most = min(wanted + 1, PAGE_MAX)
            found, spread = search_counted(
                opened.store.port, opened.store.context, asked,
                limit=most, progress=progress, **chosen(scope),
            )  # fmt: skip
        whole = None
        if len(found) > wanted:
            whole = spread
            if not json:

                def best_of(session: str, most: int) -> list[Hit]:
                    within = {**chosen(scope), "project": None, "session": session}
                    return opened.store.search(asked, limit=most, **within)

                found = _some_of_each(found, whole, wanted, best_of)
        _show(screen, scope, found, wanted, whole, asked=limit is not None)
        if not keeps_index(opened.store.port):
            note("cannot write a search index beside this store, so each search reads all of it")
        if not found:
            return _report_nothing(scope, asked, find)
    return 0


def _searched(scope: QuestionScope) -> str | None:
    """The session that is searched, or the part of it; None for several."""
    if scope.view is None:
        return None
    return f"{scope.view.id}:{scope.span}" if scope.span else scope.view.id


def _report_nothing(
    scope: QuestionScope, asked: str, finds: Callable[[QuestionScope, str], bool]
) -> int:
    """Say that nothing matches, and what would: longer words, or a wider scope."""
    longer = _as_beginnings(asked)
    if longer != asked and finds(scope, longer):
        note(f"no matches in {scope.shown}; longer words match: stator search '{longer}'")
        return 0
    if shorter := _shorter(longer, lambda terms: finds(scope, terms)):
        note(f"no matches in {scope.shown}; try: stator search '{shorter}'")
        return 0
    return scope.report_empty("no matches", lambda wider: finds(wider, asked))


def _shorter(asked: str, finds: Callable[[str], bool]) -> str:
    """The same terms with shorter beginnings of words, as long as they can be to match; empty if none does. Asks for
    each word about as often as its length has digits in base two."""
    words = asked.split()
    begun = [n for n, word in enumerate(words) if BEGINNING.match(word)]
    for n in begun[:SHORTENED]:
        least, most = (
            STEM_MIN - 1,
            len(words[n]) - 2,
        )  # shorter than the word itself, and than its star
        while least < most:
            middle = (least + most + 1) // 2
            if finds(" ".join([*words[:n], f"{words[n][:middle]}*", *words[n + 1 :]])):
                least = middle
            else:
                most = middle - 1
        if least >= STEM_MIN:
            return " ".join([*words[:n], f"{words[n][:least]}*", *words[n + 1 :]])
    return ""


def _some_of_each(
    best: list[Hit], whole: Spread, wanted: int, best_of: Callable[[str, int], list[Hit]]
) -> list[Hit]:
    """As many matches as are wanted: the best of all, but some of each session, so that none is lost behind others.
    Only the best if they are too few for that."""
    sessions = [session for session, _ in whole.sessions]
    if not _has_room(whole, wanted):
        return best
    least = max(1, min(LEAST, wanted // len(sessions)))
    kept: list[Hit] = []
    for session in sessions:
        own = [hit for hit in best[:wanted] if hit.session == session][:least]
        kept += own if len(own) == least else best_of(session, least)
    rest = [hit for hit in best if hit not in kept][: max(0, wanted - len(kept))]
    order = [hit for hit in best if hit in kept or hit in rest]
    return order + [hit for hit in kept if hit not in order]


def _has_room(whole: Spread, wanted: int) -> bool:
    """Whether each session with matches can have one."""
    return 1 < len(whole.sessions) <= min(wanted, SESSIONS_MAX)


def _show(
    screen: Screen,
    scope: QuestionScope,
    found: list[Hit],
    wanted: int,
    whole: Spread | None,
    *,
    asked: bool,
) -> None:
    """The best matches; if there are more, first how many there are in which sessions."""
    shown = found[:wanted]
    if screen.json:
        for hit in shown:
            screen.item(documents.hit(hit))
        if whole is not None and not asked:
            screen.item({"cut": _cut_json(scope.opened.store, whole, wanted)})
        elif whole is not None:
            note(f"… more matches than {wanted:,}: {_all(whole, wanted)}")
        return
    sessions = len(whole.sessions if whole else {hit.session for hit in shown})
    matches = whole.matches if whole else len(shown)
    more = "" if whole is None or whole.is_whole else "more than "
    if shown and scope.view is None:
        words = "match" if matches == 1 else "matches"
        scope.head(screen, f"{more}{matches:,} {words} in {count(sessions, 'session')}")
    if whole is not None and len(whole.sessions) > 1:
        _show_spread(screen, whole, scope)
        spread_out = f"{wanted:,} of them: the best, and some of each session"
        title = spread_out if _has_room(whole, wanted) else f"The best {wanted:,} of them"
        screen.line(Line(title, "title"))
        screen.line()
    statuses = _statuses(scope.opened.store, shown)
    screen.lines(
        _lines(
            shown, statuses,
            projects=scope.everywhere, is_cut=whole is not None, width=screen.width,
        )
    )  # fmt: skip
    if whole is not None:
        screen.line(Line(f"… {matches - len(shown):,} more matches; {_all(whole, wanted)}", "dim"))
    screen.lines(_hint(shown))


def _statuses(opened: Store, hits: Sequence[Hit]) -> dict[tuple[str, int], str]:
    """How the calls among some hits ended, by session and seq; of few hits, in one call of the store."""
    calls = [hit for hit in hits if hit.kind == "call"]
    if not calls or len(calls) > ENDINGS_MAX:
        return {}
    asks = [
        read("calls", CallQuery(session=one.session, after=one.seq - 1), cursor=(one.seq + 1,), limit=1)
        for one in calls
    ]  # fmt: skip
    store = for_one_answer(opened.as_read)
    ahead(store, *asks)
    rows = [row for one in asks for row in store.calls(*one.args, **one.options).rows]
    return {(row.session, row.seq): row.status for row in precise(store, rows)}


def _all(whole: Spread, wanted: int) -> str:
    """How to see the matches that are not shown."""
    if whole.is_whole and whole.matches <= PAGE_MAX:
        return f"-n {whole.matches} shows all"
    return f"-n {min(wanted * 2, PAGE_MAX)} shows more"


def _show_spread(screen: Screen, whole: Spread, scope: QuestionScope) -> None:
    """One line a session: how many matches it has, those with most first."""
    opened = scope.opened
    ordered = sorted(whole.sessions, key=lambda one: -one[1])
    rows = _rows(opened.store, ordered[:SESSIONS_MAX])
    used = {row.id: row for row in acted(opened.store.as_read, list(rows.values()))}
    cells: list[list[Line | str]] = [
        [
            name_line(row),
            row.record.agent,
            Line(ago(used[row.id].used, opened.now) if row.has_times else NO_TIME, "dim"),
            f"{many:,}",
            Line(short(row.id), "id"),
            Line(opened.project_shown(row.record.project) if scope.everywhere else "", "dim"),
        ]
        for session, many in ordered[:SESSIONS_MAX]
        if (row := rows.get(session)) is not None
    ]
    screen.lines(table(SPREAD, cells, screen.width))
    if len(ordered) > SESSIONS_MAX:
        more = ordered[SESSIONS_MAX:]
        screen.line(
            Line(f"… {sum(many for _, many in more):,} in {len(more):,} more sessions", "dim")
        )
    screen.line()


def _rows(store: Store, counted: Sequence[tuple[str, int]]) -> dict[str, SessionRow]:
    """The rows of sessions with matches, in one call; without those that were purged in this moment."""
    found = store.port.together(*(read("session", session) for session, _ in counted))
    return {row.id: row for row in found if isinstance(row, SessionRow)}


def _cut_json(store: Store, whole: Spread, shown: int) -> dict[str, Any]:
    rows = _rows(store, whole.sessions)
    return {
        "shown": shown,
        "of": whole.matches,
        "what": "matches",
        "more": f"-n {shown * 2}",
        "sessions": [
            {"session": session, "name": rows[session].record.name, "matches": many}
            for session, many in whole.sessions
            if session in rows
        ],
    }


def _until(text: str, now: int) -> int:
    """A time in µs; a date alone means the end of that day."""
    whole_day = DAY - 1 if len(text) == len("2026-11-15") and "-" in text else 0
    return parse_since(text, now) + whole_day


def _as_term(word: str) -> str:
    """One search term: an argument with spaces in it was quoted in the shell, so it is a phrase."""
    return f'"{word}"' if len(word.split()) > 1 and not QUOTES.search(word) else word


def _as_beginnings(asked: str) -> str:
    """The same terms, each word that stands alone as the beginning of one."""
    return WORD_ALONE.sub(r"\1*", asked) if not QUOTES.search(asked) else asked


def _as_excluded_term(word: str) -> str:
    """An argument of --not as an excluded word or phrase."""
    bare = QUOTES.sub(" ", word).strip()
    return f'-"{bare}"' + ("*" if bare.endswith("*") else "")


def _lines(
    hits: list[Hit],
    statuses: Mapping[tuple[str, int], str],
    *,
    projects: bool,
    is_cut: bool,
    width: int = 0,
) -> Iterator[Line]:
    """Hits grouped by session; the session with the best hit comes first. `is_cut`: there are more than these."""
    grouped: dict[str, list[Hit]] = {}
    for hit in hits:
        grouped.setdefault(hit.session, []).append(hit)
    places = widest((f"@{hit.seq}" for hit in hits), 10)
    turns = max(TURN, widest((f"  t{hit.turn}" for hit in hits), 12))
    kinds = widest((hit.kind for hit in hits), 12)
    ends = max(map(cells, statuses.values()), default=0)
    for number, (session, group) in enumerate(grouped.items()):
        first = group[0]
        if number:
            yield Line()
        line = Line(" ").add(short(session), "id")
        line.add(f" · {first.agent}" if first.agent else "", "dim")
        line.add(f" · {first.project}" if projects and first.project else "", "dim")
        line.add(f" · {count(len(group), 'hit')}{' shown' * is_cut}", "dim")
        name = Line(first.name, "title")
        yield (name.cut_plain(max(NAME_LEAST, width - line.width)) if width else name).extend(line)
        for hit in group:
            status = statuses.get((hit.session, hit.seq), "")
            yield _line(hit, status, (places, turns, kinds, ends))


def _hint(hits: list[Hit]) -> Iterator[Line]:
    """The command that opens the best hit."""
    if hits:
        yield Line()
        what = "the match" if len(hits) == 1 else "the first match"
        yield Line(f"show {what}: stator show {short(hits[0].session)}:@{hits[0].seq}", "dim")


def _line(hit: Hit, status: str, widths: tuple[int, int, int, int]) -> Line:
    places, turns, kinds, ends = widths
    line = Line("  ").add(f"@{hit.seq}", "id", width=places).add("  ")
    line.add(stamp(hit.at), "dim").add(f"  t{hit.turn}" if hit.turn else "", "dim", width=turns)
    line.add("  ").add(hit.kind, width=kinds).add("  ")
    if ends:
        line.status(status, width=ends).add("  ")
    if hit.rewound:
        line.add("(rewound) ", "dim")
    place = 0
    for start, end in hit.matched:
        line.add(hit.snippet[place:start]).add(hit.snippet[start:end], "match")
        place = end
    return line.add(hit.snippet[place:])
