"""`stator du`: what takes the space."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stator.model.ids import short
from stator.model.query import check_limit
from stator.surfaces.cli.asking import Asking, asking
from stator.surfaces.cli.gist import size
from stator.surfaces.cli.paint import Line, widest
from stator.surfaces.cli.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, LimitOption, NoPagerFlag, StoreOption

EXAMPLES = """
stator du                          the store, and its largest sessions
stator du -n 3
stator du --json | jq .usage
"""
LIMIT = 10
MEANING = {
    "file": "the store's file",
    "log": "commits",
    "blobs": "large payloads, each kept once",
    "indexes": "indexes and projections: can be made again",
    "free": "free pages: used again by themselves",
    "wal": "newest commits, on their way into the file",
}


def du(
    *,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what takes the space in the store."""
    count = check_limit(LIMIT if limit is None else limit)
    with asking(store) as ask, Screen(json=json, pager=not no_pager) as screen:
        usage = dict(ask.store.port.usage())
        usage["wal"] = _wal(ask)
        sessions = _sessions(ask)[:count]
        if json:
            found = {"store": ask.place.url, "usage": usage, "sessions": sessions}
            screen.document("stator.du/1", found)
            return 0
        screen.line(Line(ask.place.url, "title").add(f" ({ask.place.why})", "dim"))
        for name, count_of in usage.items():
            line = Line().add(size(count_of), "bold", width=12, right=True)
            screen.line(line.add(f"  {name:9}").add(MEANING.get(name, ""), "dim"))
        if sessions:
            screen.line()
            screen.line(
                Line("Largest sessions, by what they recorded (before compression)", "title")
            )
        names = widest((row["name"] for row in sessions), 40)
        for row in sessions:
            line = Line().add(size(row["bytes"]), "bold", width=12, right=True).add("  ")
            line.add(short(row["session"]), "id").add(" ").add(row["name"], width=names)
            screen.line(line.add(f"  {row['commits']:,} commits", "dim"))
    return 0


def _wal(ask: Asking) -> int:
    path = ask.store.info().detail.get("path", "")
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def _sessions(ask: Asking) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for view in ask.store.views():
        counts = view.counts
        found.append(
            {
                "session": view.id,
                "name": view.name,
                "bytes": counts.content_bytes,
                "commits": counts.commits,
            }
        )
    return sorted(found, key=lambda row: -int(row["bytes"]))
