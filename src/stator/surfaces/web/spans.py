"""Counts days, weeks and months, each named by a text: a day and the Monday of a week 2026-11-16, a month 2026-11."""

from __future__ import annotations

from datetime import date, timedelta

_DAY = len("2026-11-16")
_DAYS = {"day": 1, "week": 7}


def begin(period: str, text: str) -> str:
    """The period that a day, or the name of a period, is in; empty where the text is neither."""
    try:
        day = date.fromisoformat(text if len(text) == _DAY else f"{text}-01")
    except ValueError:
        return ""
    if period == "month":
        return f"{day:%Y-%m}"
    return (day - timedelta(days=day.weekday() if period == "week" else 0)).isoformat()


def back(period: str, name: str, number: int) -> str:
    """The period so many before another."""
    if period != "month":
        return (date.fromisoformat(name) - number * timedelta(days=_DAYS[period])).isoformat()
    year, month = divmod(_months(name) - number, 12)
    return f"{year:04}-{month + 1:02}"


def between(period: str, first: str, last: str) -> int:
    """How many there are from one to another, with both."""
    if period == "month":
        return _months(last) - _months(first) + 1
    return (date.fromisoformat(last) - date.fromisoformat(first)).days // _DAYS[period] + 1


def shown(period: str, name: str) -> str:
    """3 Feb 2026, for a week too, which begins then; Feb 2026."""
    if period == "month":
        return f"{date.fromisoformat(f'{name}-01'):%b %Y}"
    day = date.fromisoformat(name)
    return f"{day.day} {day:%b %Y}"


def _months(name: str) -> int:
    year, month = map(int, name.split("-"))
    return 12 * year + month - 1
