"""`stator ls`: lists sessions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadQuery
from stator.model.log.query import SessionQuery, SessionRow, check_limit
from stator.model.sessions.lifecycle import SHOWN, recorded_status
from stator.model.values.ids import short
from stator.runtime.base.pages import matching
from stator.runtime.base.project_flags import Trash, in_trash, tombstones
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.glance.listed import ENDS, ListedSession, ended_so, listed
from stator.runtime.views.last_acts import by_last_act
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.documents import session_row, used_row
from stator.surfaces.cli.render.lines import ENDED_STYLES, STATUS_STYLES, Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.session_words import names_apart, prompt_beside_name
from stator.surfaces.cli.render.table import Column, report_cut, table
from stator.surfaces.cli.render.times import ago, parse_since

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        LongFlag,
        NoPagerFlag,
        SinceOption,
        StoreOption,
    )

EXAMPLES = """
stator ls                          sessions of this project
stator ls -l                       with ids and statuses
stator ls --everywhere             sessions of every project, and those replaced by adopt
stator ls --status "in doubt"      sessions with a call in doubt that you are asked about
stator ls --trash                  sessions in the trash, and records of purged ones
stator ls --since 2d --json | jq -r .name
"""
LIMIT = 50
COLUMNS = (
    Column(title="SESSION", shrinks=True, least=20),
    Column(title="AGENT", most=16, drop=7),
    Column(title="WHEN"),
    Column(title="TURNS", right=True, drop=5),
    Column(title="FILES", right=True, drop=4),
    Column(title="TOKENS", right=True, drop=3),
    Column(title="CACHED", right=True, drop=8),
    Column(title="COST", right=True, drop=1),
    Column(title="ENDED"),
    Column(title="ASKED", shrinks=True, least=20, drop=9),
    Column(title="PROJECT", shrinks=True, most=24, drop=2),
    Column(title="STATUS"),
    Column(title="ID"),
    Column(title="REPLACED BY"),
)
CACHED = [one.title for one in COLUMNS].index("CACHED")
TRASH_COLUMNS = (
    Column(title="ID"),
    Column(title="SESSION", shrinks=True, least=12),
    Column(title="STATUS"),
    Column(title="WHEN"),
    Column(title="WHY", shrinks=True, least=12),
)


def ls(
    *,
    everywhere: EverywhereFlag = False,
    agent: str | None = None,
    status: str | None = None,
    since: SinceOption = None,
    trash: bool = False,
    long: LongFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List sessions with their tokens, cost and end, most recently used first.

    FILES counts the files that a session changed. A cost with ~ was computed from tokens and prices (those of
    stator.toml, else list prices), one with > lacks something; – is unknown. ENDED says how it ended, what asks for you
    first: waiting (for approval), in doubt, active, interrupted, failed, pushed or committed (to version control), ok.

    Parameters
    ----------
    agent
        Only sessions of this agent; the beginning of its name is enough.
    status
        Only those with this status, which JSON calls shown: open, active, paused, closed or archived; or that ended
        so, as the column ENDED says it (JSON: ended): ok, pushed, in doubt, interrupted, waiting, failed. A session
        is in doubt if you are asked about a call of it; older doubts of imported sessions are history, which stator
        calls --open lists too.
    trash
        List sessions in the trash, and what is still known about purged ones.
    """
    wanted = check_limit(LIMIT if limit is None else limit)
    known = tuple(dict.fromkeys((*ENDS, *SHOWN)))
    if status is not None and status not in known:
        raise BadQuery(f"unknown status {status!r:.40}", hint=", ".join(known))
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        floor = parse_since(since, opened.now) if since is not None else 0
        if trash:
            return _trash(opened, screen, None if everywhere else opened.project, limit)
        project = None if everywhere else opened.project
        asked = AskedSessions(agent=_agent(opened, agent, project), status=status, since=floor)
        found = list(islice(_matching(opened, project, asked), wanted + 1))
        if json:
            for one in listed(opened.store.as_read, found[:wanted], opened.prices()):
                screen.item(used_row(one))
        else:
            screen.lines(
                _lines(opened, found[:wanted], screen.width, projects=everywhere, long=long)
            )
        if len(found) > wanted:
            report_cut(screen, wanted, "sessions", f"-n {wanted * 2}", asked=limit is not None)
        if not found:
            return opened.report_empty(_empty_message(opened, project, asked))
    return 0


def _agent(opened: OpenedStore, text: str | None, project: str | None) -> str | None:
    """The agent that is asked for, whose name may be given by its beginning."""
    if not text:
        return text
    from stator.runtime.views.refs import agent_named  # most lists name no agent

    return agent_named(opened.store.as_read, text, project) or text


def _trash(opened: OpenedStore, screen: Screen, project: str | None, limit: int | None) -> int:
    """List sessions in the trash, then the records of purged ones: at most so many."""
    port = opened.store.port
    found: list[tuple[str, dict[str, Any]]] = []
    for session, mark in in_trash(port).items():
        row = port.session(session)
        about: dict[str, Any] = {"trashed": mark.at, "purged": None, "by": mark.by}
        found.append((row.record.project, {**session_row(row), **about, "policy": mark.why}))
    for one in tombstones(port):
        about = {"id": one.session, "name": one.name, "project": one.project, "trashed": None}
        about |= {"purged": one.at, "by": one.by, "policy": one.policy, "about": one.about}
        found.append((one.project, about))
    everything = [about for of, about in found if project is None or of == project]
    wanted = LIMIT if limit is None else limit
    shown = everything[:wanted]
    if screen.json:
        for about in shown:
            screen.item(about)
    rows: list[list[Line | str]] = [
        [
            Line(short(about["id"]), "id"),
            Line(about["name"], "bold"),
            Line("purged" if about["purged"] else "in trash", "dim"),
            ago(about["purged"] or about["trashed"], opened.now),
            f"{about['policy']} {about['by']}",
        ]
        for about in shown
    ]
    if not screen.json:
        screen.lines(table(TRASH_COLUMNS, rows, screen.width))
    if len(everything) > wanted:
        report_cut(screen, wanted, "sessions", f"-n {wanted * 2}", asked=limit is not None)
    return 0 if shown else opened.report_empty("the trash is empty")


class AskedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are asked for."""

    agent: str | None = None
    status: str | None = None
    since: int = 0

    @property
    def is_end(self) -> bool:
        """Whether the status may be a word for how a session ended, which is known when more of it was read."""
        return self.status in (*ENDS, "interrupted")

    def wants(self, row: SessionRow) -> bool:
        """Whether it is one of them. A project's own session never is: no agent works in it. Of one without times,
        nobody knows whether it was used since."""
        return (
            row.record.mode != "project"
            and (self.status is None or self.is_end or row.shown == self.status)
            and (not self.since or (row.has_times and row.used >= self.since))
        )


def _matching(
    opened: OpenedStore, project: str | None, asked: AskedSessions
) -> Iterator[SessionRow]:
    """The sessions that are asked for, those used last first; of every project, with those replaced by another."""
    store = for_one_answer(opened.store.as_read)
    status = None if asked.is_end else recorded_status(asked.status)
    query = SessionQuery(project=project, agent=asked.agent, status=status)
    rows = takewhile(lambda row: row.updated >= asked.since, matching(store, query))
    listed = (row for row in rows if project is None or not row.record.adopted)
    trash = Trash(store)
    used = by_last_act(store, filter(asked.wants, listed))
    found = (row for row in filter(asked.wants, used) if row not in trash)
    return ended_so(store, found, [asked.status]) if asked.is_end and asked.status else found


def _empty_message(opened: OpenedStore, project: str | None, asked: AskedSessions) -> str:
    """That there is nothing, and the nearest wider question that has an answer."""
    where = "" if project is None else " in this project"
    if project is not None and next(_matching(opened, None, asked), None) is not None:
        return f"no matching sessions{where}; --everywhere finds some in other projects"
    if asked != AskedSessions() and next(_matching(opened, project, AskedSessions()), None):
        return f"no matching sessions{where}; stator ls without options lists others"
    return f"no sessions{where}"


def _lines(
    opened: OpenedStore, rows: list[SessionRow], width: int, *, projects: bool, long: bool
) -> Iterator[Line]:
    found = listed(opened.store.as_read, rows, opened.prices())
    shown = [opened.project_shown(one.row.record.project) if projects else "" for one in found]
    names = names_apart([one.row for one in found])
    cells = [
        _cells(one, name, opened.now, project, long=long)
        for one, name, project in zip(found, names, shown, strict=True)
    ]
    if not any(amounts.cached_tokens(one.cost.spend) for one in found):
        for row in cells:
            row[CACHED] = ""  # no dash in every row
    yield from table(COLUMNS, cells, width)


def _cells(
    one: ListedSession, name: Line, now: int, project: str, *, long: bool
) -> list[Line | str]:
    row, spend = one.row, one.cost.spend
    files = amounts.UNKNOWN if one.files is None else f"{one.files:,}"
    return [
        name,
        row.record.agent,
        Line(ago(row.used, now) if row.has_times else amounts.UNKNOWN, "dim"),
        str(row.turns),
        files if one.files is None or one.files else "",
        amounts.tokens(spend) if row.turns else "",
        Line(amounts.cached(spend) if row.turns else "", "dim"),
        amounts.money(spend) if row.turns else "",
        Line(one.ended or amounts.UNKNOWN, ENDED_STYLES.get(one.ended, "dim")),
        Line(prompt_beside_name(one), "dim"),
        Line(project, "dim"),
        Line(row.shown if long else "", STATUS_STYLES.get(row.shown, "")),
        Line(short(row.id) if long else "", "id"),
        Line(f"→ {short(row.record.adopted)}" if row.record.adopted else "", "dim"),
    ]
