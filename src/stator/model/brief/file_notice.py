"""The notice for an agent that another one changed its file. Pure."""

from __future__ import annotations

import msgspec

from stator.model.brief.quotes import Quoting
from stator.model.log.shown_text import cut_short

NAME_MAX = 60
PATH_MAX = 300
LISTED = 5
MINUTE_US, HOUR_US = 60_000_000, 3_600_000_000


class ForeignChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change by another session."""

    path: str
    agent: str
    session: str
    """Its handle, as commands take it."""
    name: str = ""
    tool: str = ""
    ago_us: int = 0


def notice_text(changes: list[ForeignChange]) -> str:
    """The notice: who changed what and when, and what to do."""
    quoting = Quoting()
    lines = []
    for change in changes[:LISTED]:
        name = f" {quoting.quoted(cut_short(change.name, NAME_MAX))}" if change.name else ""
        tool = f" with {cut_short(change.tool, NAME_MAX)}" if change.tool else ""
        lines.append(
            f"Another agent changed {quoting.quoted(cut_short(change.path, PATH_MAX))} after you last read it: "
            f"{change.agent}, session {change.session}{name},{tool} {_ago(change.ago_us)}."
        )
    more = len(changes) - LISTED
    if more > 0:
        lines.append(f"It is the same with {more} more files of this call.")
    lines.append(
        "Read the file again before you write it. If you have just written it, check that the other change is still "
        f"there. What the other session does: stator log {changes[0].session}"
    )
    return "\n".join(lines)


def _ago(us: int) -> str:
    if us < MINUTE_US:
        return "less than a minute ago"
    return f"{us // MINUTE_US} min ago" if us < HOUR_US else f"{us // HOUR_US} h ago"
