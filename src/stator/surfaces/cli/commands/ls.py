"""`stator ls`: lists sessions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from stator.errors import BadQuery
from stator.model.log.query import SessionRow, check_limit
from stator.model.records.types import SpendRecord, Status
from stator.model.values.ids import short
from stator.runtime.base.project_flags import Trash, in_trash, tombstones
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import STATUS_STYLES, Line
from stator.surfaces.cli.render.record_line import brief, value_of
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import Column, report_cut, table
from stator.surfaces.cli.render.times import ago, parse_since, used
from stator.surfaces.cli.render.wire import record

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        SinceOption,
        StoreOption,
    )

EXAMPLES = """
stator ls                          sessions of this project
stator ls --all                    sessions of every project, and those replaced by adopt
stator ls --status interrupted     sessions whose driver died
stator ls --trash                  sessions in the trash, and records of purged ones
stator ls --since 2d --json | jq -r .name
"""
LIMIT = 50
ASKED_MAX = 300
"""Characters of a prompt that a line can show."""
COLUMNS = (
    Column(title="ID"),
    Column(title="SESSION", shrinks=True, least=20),
    Column(title="AGENT", most=16, drop=3),
    Column(title="STATUS"),
    Column(title="WHEN"),
    Column(title="TURNS", right=True, drop=2),
    Column(title="TOKENS", right=True, drop=4),
    Column(title="CACHED", right=True, drop=6),
    Column(title="COST", right=True, drop=5),
    Column(title="ASKED", shrinks=True, least=24, drop=7),
    Column(title="PROJECT", shrinks=True, most=24, drop=1),
    Column(title="REPLACED BY"),
)
TRASH_COLUMNS = (
    Column(title="ID"),
    Column(title="SESSION", shrinks=True, least=12),
    Column(title="STATUS"),
    Column(title="WHEN"),
    Column(title="WHY", shrinks=True, least=12),
)
STATUSES = (*get_args(Status), "interrupted", "silent")


def ls(
    *,
    all: AllFlag = False,
    agent: str | None = None,
    status: str | None = None,
    since: SinceOption = None,
    trash: bool = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List sessions, most recently used first.

    Parameters
    ----------
    agent
        Only sessions of this agent.
    status
        Only sessions that are open, active, interrupted, paused, closed or archived.
    trash
        List sessions in the trash, and what is still known about purged ones.
    """
    wanted = check_limit(LIMIT if limit is None else limit)
    if status is not None and status not in STATUSES:
        raise BadQuery(f"unknown status {status!r:.40}", hint=", ".join(STATUSES))
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        floor = parse_since(since, opened.now) if since is not None else 0
        if trash:
            return _trash(opened, screen, None if all else opened.project)
        trashed = Trash(opened.store.port)
        rows = _rows(opened, None if all else opened.project, agent, status)
        rows = (row for row in rows if row not in trashed)
        kept = (row for row in rows if row.updated >= floor and (all or not row.record.adopted))
        found = list(islice(kept, wanted + 1))
        if json:
            for row in found[:wanted]:
                screen.item(as_json(row))
        else:
            screen.lines(_lines(opened, found[:wanted], screen.width, projects=all))
        if len(found) > wanted:
            report_cut(screen, wanted, "sessions", f"-n {wanted * 2}", asked=limit is not None)
        if not found:
            return opened.report_empty("no sessions" if all else _empty_message(opened))
    return 0


def _trash(opened: OpenedStore, screen: Screen, project: str | None) -> int:
    """List sessions in the trash, then the records of purged ones."""
    port = opened.store.port
    found: list[tuple[str, dict[str, Any]]] = []
    for session, mark in in_trash(port).items():
        row = port.session(session)
        about: dict[str, Any] = {"trashed": mark.at, "purged": None, "by": mark.by}
        found.append((row.record.project, {**as_json(row), **about, "policy": mark.why}))
    for one in tombstones(port):
        about = {"id": one.session, "name": one.name, "project": one.project, "trashed": None}
        about |= {"purged": one.at, "by": one.by, "policy": one.policy, "about": one.about}
        found.append((one.project, about))
    shown = [about for of, about in found if project is None or of == project]
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
    return 0 if shown else opened.report_empty("the trash is empty")


def _empty_message(opened: OpenedStore) -> str:
    others = bool(opened.store.sessions(limit=1).rows)
    return "no matching sessions in this project" + (
        "; --all lists every project" if others else ""
    )


def _rows(
    opened: OpenedStore, project: str | None, agent: str | None, status: str | None
) -> Iterator[SessionRow]:
    # A session recorded as active or open can be shown as interrupted or paused: filter after reading.
    recorded = {"interrupted": "active", "silent": "active", "paused": None}.get(
        status or "", status
    )
    cursor: tuple[int, ...] | None = None
    while True:
        page = opened.store.sessions(project=project, agent=agent, status=recorded, cursor=cursor)
        # The project's own session holds its policies and flags; no agent works in it.
        rows = (row for row in page.rows if project is None or row.record.mode != "project")
        yield from (row for row in rows if status is None or row.shown == status)
        cursor = page.cursor
        if cursor is None:
            return


def _lines(
    opened: OpenedStore, rows: list[SessionRow], width: int, *, projects: bool
) -> Iterator[Line]:
    yield from table(COLUMNS, [_cells(opened, row, projects) for row in rows], width)


def _cells(opened: OpenedStore, row: SessionRow, projects: bool) -> list[Line | str]:
    spend = _spend(opened, row.id)
    price = amounts.money(spend)
    return [
        Line(short(row.id), "id"),
        Line(row.record.name, "bold"),
        row.record.agent,
        Line(row.shown, STATUS_STYLES.get(row.shown, "")),
        Line(used(row, opened.now), "dim"),
        str(row.turns),
        amounts.tokens(spend) if row.turns else "",
        Line(amounts.cached(spend) if row.turns else "", "dim"),
        price if row.turns else "",
        Line(_asked(opened, row), "dim"),
        Line(row.record.project if projects else "", "dim"),
        Line(f"→ {short(row.record.adopted)}" if row.record.adopted else "", "dim"),
    ]


def _spend(opened: OpenedStore, session: str) -> dict[str, int]:
    """What a session reported that it used, by unit."""
    found = (entry.record for entry in opened.store.port.entries(session, "spend"))
    return {one.unit: one.amount for one in found if isinstance(one, SpendRecord)}


def _asked(opened: OpenedStore, row: SessionRow) -> str:
    """The first prompt, unless the session is named by it."""
    turns = opened.store.port.turns(row.id, limit=1, prompts=True) if row.turns else []
    began = turns[0].began if turns else None
    asked = brief(value_of(began, "input"), ASKED_MAX) if began is not None else ""
    words = row.record.name.rstrip("… ")
    return "" if " ".join(asked.split()).startswith(" ".join(words.split())) else asked


def as_json(row: SessionRow) -> dict[str, Any]:
    """A session as JSON: its record, its status as shown, its size and its driver."""
    holder = row.holder
    return {
        **(record(row.record) or {}),
        "status": row.record.status,
        "shown": row.shown,
        "head": row.head,
        "turns": row.turns,
        "updated": row.updated,
        "driver": None
        if holder is None
        else {
            "host": holder.host,
            "pid": holder.pid,
            "program": holder.program,
            "since": holder.since,
            "epoch": holder.epoch,
            "live": holder.live,
        },
    }
