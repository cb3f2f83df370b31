"""`stator du`: shows what uses space in the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from heapq import nlargest
from typing import TYPE_CHECKING, Any, cast

from stator.errors import BadQuery
from stator.model.log.query import check_limit, read
from stator.model.values.ids import is_id, short
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import counts_of
from stator.runtime.views.as_read import for_one_answer
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import size
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import header

if TYPE_CHECKING:
    from stator.model.log.query import UsageBy
    from stator.surfaces.cli.options import (
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator du                          the store, and its largest sessions
stator du -n 3
stator du --by tier                space per tier: transcript, state, file contents, artifacts
stator du --by kind -s fix-login   one session, by kind of commit
stator du --json | jq .usage
"""
LIMIT = 10
WAYS = ("session", "tier", "kind")
MEANING = {
    "file": "the store's file",
    "log": "commits",
    "blobs": "large payloads, each stored once",
    "indexes": "indexes and projections, can be rebuilt",
    "free": "free pages, reused automatically",
    "wal": "newest commits, not yet copied into the file",
}


def du(
    *,
    by: str | None = None,
    session: SessionOption = None,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what uses space in the store.

    Parameters
    ----------
    by
        Sum it up by session, tier (transcript, state, file contents, artifacts) or kind of commit.
    """
    count = check_limit(LIMIT if limit is None else limit)
    if by is not None and by not in WAYS:
        raise BadQuery(f"cannot break the space down by {by!r:.40}", hint=", ".join(WAYS))
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        if by is not None or session is not None:
            return _split(opened, screen, "tier" if by is None else by, session)
        usage = dict(opened.store.port.usage())
        if not getattr(opened.store.port, "remote", False):
            usage["wal"] = _wal(opened)
        held = opened.store.port.usage(by="recorded")
        sessions, more = _largest(opened, held, count), len(held) - count
        if json:
            cut = {"shown": count, "of": len(held)} if more > 0 else None
            found = {"store": opened.place.shown, "usage": usage, "sessions": sessions, "cut": cut}
            screen.document("stator.du/1", found)
            return 0
        screen.line(Line(opened.place.shown, "title").add(f" ({opened.place.why})", "dim"))
        screen.line(header(("        SIZE", 14), ("PART", 9), ("WHAT IT HOLDS", 0)))
        for name, count_of in usage.items():
            line = Line().add(size(count_of), "bold", width=12, right=True)
            screen.line(line.add(f"  {name:9}").add(MEANING.get(name, ""), "dim"))
        if sessions:
            screen.line()
            screen.line(Line("Largest sessions (recorded content, before compression)", "title"))
            screen.line(header(("        SIZE", 14), ("ID", 11), ("SESSION AND COMMITS", 0)))
        names = widest((row["name"] for row in sessions), 40)
        for row in sessions:
            line = Line().add(size(row["bytes"]), "bold", width=12, right=True).add("  ")
            line.add(short(row["session"]), "id").add(" ").add(row["name"], width=names)
            screen.line(line.add(f"  {row['commits']:,} commits", "dim"))
        if more > 0:
            noun = "session" if more == 1 else "sessions"
            screen.line(Line(f"… {more:,} more {noun}: -n {len(held)}", "dim"))
    return 0


def _split(opened: OpenedStore, screen: Screen, by: str, session: str | None) -> int:
    """Show the parts that the store, or one session, is made of; they add up to the total."""
    view = None if session is None else opened.session(session)
    usage = opened.store.port.usage(by=cast("UsageBy", by), session=view.id if view else None)
    whole = sum(usage.values())
    if screen.json:
        found = {"store": opened.place.shown, "session": view.id if view else None, "by": by}
        screen.document("stator.du_by/1", {**found, "usage": usage, "total": whole})
        return 0
    names = opened.names()
    screen.line(Line(view.name if view else opened.place.shown, "title").add(f" by {by}", "dim"))
    for name, amount in usage.items():
        line = Line().add(size(amount), "bold", width=12, right=True).add("  ")
        if is_id(name, "session"):
            line.add(short(name), "id").add(" ").add(names[name])
        else:
            line.add(name, "dim" if name.startswith("(") else "")
        screen.line(line)
    screen.line(Line().add(size(whole), "bold", width=12, right=True).add("  total", "dim"))
    return 0


def _wal(opened: OpenedStore) -> int:
    path = opened.store.info().detail.get("path", "")
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0


def _largest(opened: OpenedStore, held: Mapping[str, int], count: int) -> list[dict[str, Any]]:
    """The sessions that hold most, with what a list shows of them."""
    store = for_one_answer(opened.store.as_read)
    chosen = nlargest(count, held, key=lambda session: held[session])
    ahead(store, *(read("session", session, counted=True) for session in chosen))
    return [
        {
            "session": session,
            "name": store.session(session).record.name,
            "bytes": held[session],
            "commits": counts_of(store, session).commits,
        }
        for session in chosen
    ]
