"""What became of a session that was paused, closed or archived from outside."""

from __future__ import annotations

import msgspec

from stator.model.ids import short
from stator.runtime.lifecycle import Moved
from stator.surfaces.cli.paint import Line
from stator.surfaces.cli.screen import Screen


def show_moved(screen: Screen, moved: Moved) -> None:
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
