"""Whether anything more is expected of a recorded session, and when its agent last started, for readers.

Every reader asks this, also a hook that an agent waits for; so it loads nothing that reads transcripts.
"""

from __future__ import annotations

from stator.errors import StatorError
from stator.model.exchange.bookmark import HOOKS
from stator.model.log.query import SessionRow
from stator.model.views.open_calls import REST_US
from stator.store.port import StorePort

LOOKED_AT = (50, 2_000)
"""How many commits at the end of a log are looked at for the last one that its source told, first and then."""


def at_rest(store: StorePort, row: SessionRow, now: int) -> bool:
    """Whether nothing more is expected of a recorded session: its agent has ended or died, or, where no hook shows
    that, nothing happened for ten minutes."""
    if row.record.mode != "recorded":
        return row.record.status != "active"
    main = _main_session(store, row)
    if store.bookmark(main.id, HOOKS) is not None:
        from stator.hooks.hook_note import hook_note, rests  # an imported session has no hooks

        known = rests(hook_note(store, main.id), now)
        if known is not None:
            return known
    if main.record.status in ("paused", "closed", "archived") or now - row.updated >= REST_US:
        return True
    return now - _last_told(store, row) >= REST_US


def _last_told(store: StorePort, row: SessionRow) -> int:
    """When the last thing happened that a session's own source told, in µs. What a person or a program adds to it is
    no sign of its agent."""
    for limit in LOOKED_AT:
        for commit in store.commits(row.id, newest_first=True, limit=limit, load=False):
            if commit.origin is not None:
                return commit.used
    return row.record.created


def started(store: StorePort, row: SessionRow) -> int:
    """When the agent of a recorded session last started, as its hooks report it; 0 if they do not."""
    main = _main_session(store, row)
    if store.bookmark(main.id, HOOKS) is None:
        return 0
    from stator.hooks.hook_note import hook_note  # an imported session has no hooks

    return hook_note(store, main.id).began


def _main_session(store: StorePort, row: SessionRow) -> SessionRow:
    """The session whose hooks speak for this one: a sub-agent has none of its own."""
    for _ in range(8):
        parent = row.record.parent
        if parent is None or parent.kind != "child":
            break
        try:
            row = store.session(parent.session)
        except StatorError:
            break
    return row
