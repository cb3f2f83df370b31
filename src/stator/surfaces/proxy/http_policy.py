"""Who may speak to the proxy over HTTP, and which headers go on to the other side.

A page in a browser can reach loopback too, under any name that resolves to it: so Host and Origin are
held against what they must be, and a body that a page could send without asking first is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from stator.errors import InvalidInput
from stator.surfaces.loopback import Callers, Headers, is_json, values

METHODS = ("GET", "POST", "DELETE")
WELL_KNOWN = "/.well-known/"
"""Where servers say how to be authorized; part of the protocol, beside its own path."""
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that are between two neighbours, and nobody else's."""
_OURS = frozenset({b"host", b"content-length", b"accept-encoding", b"expect"})


_CLIMBS = re.compile(r"\.\.|%2e|%2f|%5c|\\", re.IGNORECASE)


class Upstream:
    """The server behind the proxy, as whoever started it named it."""

    def __init__(self, url: str) -> None:
        try:
            parts: SplitResult = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known or parts.fragment or parts.username is not None:
            raise InvalidInput(
                f"not the address of a server: {_shown(url)!r:.200}",
                hint="for example http://127.0.0.1:3001/mcp",
            )
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path or "/"
        self.query = parts.query
        host = (parts.hostname or "").lower()
        # what is said to this machine stays on it, whatever proxies the environment names
        local = host in ("127.0.0.1", "localhost", "::1") or proxy_bypass(host)
        self.proxy = None if local else getproxies().get(parts.scheme)

    def target(self, path: str, query: bytes) -> str | None:
        """Where a request for that path goes; None if it goes nowhere."""
        if path != self.path and (not path.startswith(WELL_KNOWN) or _CLIMBS.search(path)):
            return None
        given = query.decode("latin-1")
        own = self.query if path == self.path else ""
        both = "&".join(part for part in (own, given) if part)
        return self.origin + path + (f"?{both}" if both else "")


def _shown(url: str) -> str:
    """An address as it may be said: what stands before an @ in it may be a password."""
    return re.sub(r"//.*@", "//…@", url)


class Gate:
    """Says why a request is not let in."""

    def __init__(self, port: int) -> None:
        self._callers = Callers(port)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """The status and the words with which a request is turned away; None: it is let in."""
        refusal = self._callers.refusal(headers)
        if refusal is not None:
            return refusal
        if method not in METHODS:
            return 405, "GET, POST or DELETE"
        if method == "POST" and not is_json(headers):
            return 415, "a message is application/json"
        return None


def onward(headers: Headers, upstream: Upstream) -> Headers:
    """The headers of a request as the server gets them: all but those between neighbours.

    The answer is asked for as it is, not compressed, since a copy of it is read here. Our own origin
    becomes the server's: it was checked here.
    """
    kept = [
        (name, upstream.origin.encode() if name.lower() == b"origin" else value)
        for name, value in _end_to_end(headers)
        if name.lower() not in _OURS
    ]
    return [*kept, (b"accept-encoding", b"identity")]


def back(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer as the client gets them."""
    return _end_to_end(list(headers))


def _end_to_end(headers: Headers) -> Headers:
    named = {
        name.strip().lower().encode("latin-1")
        for value in values(headers, b"connection")
        for name in value.split(",")
    }
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in HOP_BY_HOP and name.lower() not in named
    ]
