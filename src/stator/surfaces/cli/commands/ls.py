"""`stator ls`: lists sessions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from stator.errors import BadQuery
from stator.model.log.query import SessionRow, check_limit
from stator.model.records.types import Status
from stator.model.values.ids import short
from stator.runtime.base.project_flags import Trash, in_trash, tombstones
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen
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
            screen.lines(_lines(found[:wanted], opened.now, projects=all))
        if len(found) > wanted and not json:
            screen.line(Line(f"… more sessions; show them with -n {wanted * 2}", "dim"))
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
    names = widest((about["name"] for about in shown), 32)
    for about in shown:
        if screen.json:
            screen.item(about)
            continue
        at = about["purged"] or about["trashed"]
        line = Line().add(short(about["id"]), "id", width=11)
        line.add(about["name"], "bold", width=names).add("  ")
        line.add("purged" if about["purged"] else "in trash", "dim", width=12)
        screen.line(line.add(ago(at, opened.now), width=14).add(f"{about['policy']} {about['by']}"))
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


def _lines(rows: list[SessionRow], now: int, *, projects: bool) -> Iterator[Line]:
    names = widest((row.record.name for row in rows), 32)
    agents = widest((row.record.agent for row in rows), 16)
    for row in rows:
        line = Line().add(short(row.id), "id", width=11)
        line.add(row.record.name, "bold", width=names).add("  ")
        line.status(row.shown, width=12).add(count(row.turns, "turn"), width=11)
        line.add(used(row, now), "dim", width=14).add(row.record.agent, width=agents)
        adopted = row.record.adopted
        line.add(f"  → {short(adopted)}" if adopted else "", "dim")
        yield line.add(f"  {row.record.project}" if projects else "", "dim")


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
