"""Pauses, closes or archives a session that this process does not drive."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stator.model.sessions.lifecycle import REASONS
from stator.model.values.ids import short
from stator.runtime.driving.lifecycle import Moved
from stator.surfaces.cli.parts.open_store import open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen


def change_status(
    how: Callable[..., Moved],
    session: str | None,
    *,
    reason: str,
    store: str | None,
    json: bool,
    pager: bool,
) -> int:
    """Change the status of a session as the current user, and show the new status."""
    with open_to_write(store) as opened, Screen(json=json, pager=pager) as screen:
        view, context = opened.session(session), opened.store.context
        said = {"reason": reason} if reason in REASONS else {"reason": "user", "why": reason}
        moved = how(opened.store.port, context, view.id, by=context.principal, **said)
        _show(screen, moved)
    return 0


def _show(screen: Screen, moved: Moved) -> None:
    """Show the session's status, or which driver was asked to stop."""
    if screen.json:
        screen.document("stator.moved/1", msgspec.to_builtins(moved))
        return
    line = Line(moved.name, "bold").add(" ").add(short(moved.session), "id").add(": ")
    if moved.asked is None:
        line.status(moved.status).add(f" ({moved.reason})" if moved.reason else "", "dim")
    else:
        driver = moved.asked
        line.add(f"asked {driver.program} on {driver.host}, pid {driver.pid}")
        line.add("; it stops before its next call", "dim")
    screen.line(line)
