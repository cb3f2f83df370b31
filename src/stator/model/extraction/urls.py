"""Reads addresses without what must not be kept of them: names and passwords. Pure."""

from __future__ import annotations

import re

from stator.model.values.late_pattern import late

_USER = late(r"(?<=://)[^/@\s]*@")
_URL = late(
    r"(?P<scheme>[a-z][a-z0-9+.-]{1,30})://(?:[^/@\s?#]*@)?"
    r"(?P<host>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?P<port>:\d{1,5})?(?P<path>/[^?#\s]*)?(?:[?#]\S*)?",
    re.IGNORECASE,
)
URL_MAX = 2_000
WEB = ("http", "https")


def without_credentials(url: str) -> str:
    """An address without the name and the password in it, and without a query."""
    return _USER.sub("", url).partition("?")[0]


def host_of(url: str) -> str:
    """The host of an address of the web, with its port if it has one; "" if it is none."""
    match = _parts(url)
    if match is None or match["scheme"].lower() not in WEB:
        return ""
    return f"{match['host'].lower()}{match['port'] or ''}"


def place_of(url: str) -> tuple[str, str]:
    """The scheme of an address, and its host and path; empty if it is none."""
    match = _parts(url)
    if match is None:
        return "", ""
    return match["scheme"].lower(), f"{match['host'].lower()}{match['path'] or ''}".rstrip("/")


def _parts(url: str) -> re.Match[str] | None:
    return _URL.fullmatch(url) if len(url) <= URL_MAX else None
