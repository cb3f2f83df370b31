"""Moving a session from outside: what `pause`, `close` and `archive` have in common."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stator.model.values.ids import short
from stator.runtime.driving.lifecycle import Moved
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen


def move(
    how: Callable[..., Moved],
    session: str | None,
    *,
    reason: str,
    store: str | None,
    json: bool,
    pager: bool,
) -> int:
    """Move the session a person means, in their name, and show what became of it."""
    with open_to_write(store) as opened, Screen(json=json, pager=pager) as screen:
        view, context = opened.session(session), opened.store.context
        moved = how(opened.store.port, context, view.id, reason=reason, by=context.principal)
        _show(screen, moved)
    return 0


def _show(screen: Screen, moved: Moved) -> None:
    """The session and its status now, or who was asked to stop."""
    if screen.json:
        screen.document("stator.moved/1", msgspec.to_builtins(moved))
        return
    line = Line(moved.name, "bold").add(" ").add(short(moved.session), "id").add(": ")
    if moved.asked is None:
        line.status(moved.status).add(f" ({moved.reason})" if moved.reason else "", "dim")
    else:
        driver = moved.asked
        line.add(f"asked {driver.program} on {driver.host}, pid {driver.pid}")
        line.add("; it stops at its next call", "dim")
    screen.line(line)
