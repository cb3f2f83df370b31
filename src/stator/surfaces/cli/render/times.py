"""Formats times (µs since 1970) for people, and parses the times people type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from stator.errors import BadQuery
from stator.model.log.query import SessionRow
from stator.model.values.late_pattern import late

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGE = late(r"(\d{1,6})\s*([smhdw])\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SECOND = 1_000_000
NO_TIME = "–"
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def local(moment: int) -> datetime | None:
    """The moment in the local time zone, or None if it is outside the calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=moment)).astimezone()
    except (OverflowError, ValueError, OSError):
        return None


def clock(moment: int) -> str:
    """14:02:11"""
    found = local(moment)
    return f"{found:%H:%M:%S}" if found else "--:--:--"


def stamp(moment: int) -> str:
    """2026-11-15 14:02:11"""
    found = local(moment)
    return f"{found:%Y-%m-%d %H:%M:%S}" if found else f"{moment} µs"


def day(moment: int) -> str:
    found = local(moment)
    return f"{found:%Y-%m-%d}" if found else f"{moment} µs"


def moment(at: int) -> str:
    """12 Feb 2026 20:31"""
    found = local(at)
    return f"{found.day} {found:%b %Y %H:%M}" if found else f"{at} µs"


def hour(moment: int) -> str:
    """14:02"""
    found = local(moment)
    return f"{found:%H:%M}" if found else "--:--"


def date(moment: int, now: int) -> str:
    """12 Feb; with the year if that is another one than now."""
    found, today = local(moment), local(now)
    if found is None:
        return f"{moment} µs"
    is_this_year = today is not None and found.year == today.year
    return f"{found.day} {found:%b}" if is_this_year else f"{found.day} {found:%b %Y}"


def listed(times: Sequence[int | None], now: int) -> tuple[list[str], str]:
    """Times for a column, and the day for its heading: of one day only the hours, so that no line repeats the date.
    The day is empty if it is today, or if there are several: then each line has its own. Unknown is a dash."""
    known = [moment for moment in times if moment is not None]
    days = {date(moment, now) for moment in known}
    if len(days) < 2:
        shown = [NO_TIME if one is None else clock(one) for one in times]
        return shown, "".join(days - {date(now, now)})
    return [NO_TIME if one is None else f"{date(one, now)} {hour(one)}" for one in times], ""


def ago(moment: int, now: int) -> str:
    """How long ago, in one unit; a date if it is more than a month ago, or in the future."""
    if not 0 <= (now - moment) // _SECOND < 31 * 86_400:
        return date(moment, now)
    return f"{span(now - moment)} ago"


def used(row: SessionRow, now: int) -> str:
    """How long ago a session was used. What its source does not say is not shown as if it was known: then the
    times in the log are those of the source's file."""
    return ago(row.used, now) if row.has_times else "times unknown"


def span(microseconds: int) -> str:
    """A duration in one unit: 40 s, 12 min, 3 h, 2 days."""
    seconds = max(0, microseconds) // _SECOND
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{seconds // size} {unit}"
    days = seconds // 86_400
    return f"{days} day" if days == 1 else f"{days:,} days"


def parse_until(text: str, now: int) -> int:
    """Parse `2h` (from now) or a date as µs since 1970; a time in the past raises `BadQuery`."""
    match = _AGE.match(text)
    found = now + int(match[1]) * _UNITS[match[2]] * _SECOND if match else parse_since(text, now)
    if found <= now:
        raise BadQuery(f"{text!r:.60} is not in the future", hint="try 2h, 7d or a future date")
    return found


def parse_since(text: str, now: int) -> int:
    """Parse `2h` (ago), `3d`, `today`, `monday`, `2026-11-15` or `2026-11-15T14:02` as µs since 1970; else raise
    `BadQuery`."""
    if match := _AGE.match(text):
        return max(0, now - int(match[1]) * _UNITS[match[2]] * _SECOND)
    if (back := _days_back(text.lower(), now)) is not None:
        return back
    try:
        found = datetime.fromisoformat(text)
        return (found.astimezone() - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError):
        raise BadQuery(
            f"not a time: {text!r:.60}",
            hint="try 2h, 3d, yesterday, 2026-11-15 or 2026-11-15T14:02",
        ) from None


def _days_back(word: str, now: int) -> int | None:
    """The beginning of the day that a word names: today, yesterday, or the last Monday; None if it names none."""
    today = local(now)
    if today is None:
        return None
    if word in DAYS:
        back = (today.weekday() - DAYS.index(word)) % len(DAYS)
    elif word in ("today", "yesterday"):
        back = int(word == "yesterday")
    else:
        return None
    midnight = datetime(today.year, today.month, today.day) - timedelta(days=back)
    return (midnight.astimezone() - _EPOCH) // timedelta(microseconds=1)
