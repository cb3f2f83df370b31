"""Decides which HTTP requests the proxy accepts and which headers it passes on.

A web page can reach loopback under any name that resolves to it. Host and Origin must therefore match, and a
body that a page could send without a CORS preflight is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import getproxies, proxy_bypass

from stator.errors import InvalidInput
from stator.surfaces.loopback import AllowedCallers, Headers, header_values, is_json

METHODS = ("GET", "POST", "DELETE")
WELL_KNOWN = "/.well-known/"
"""Where servers publish how clients authorize; the protocol needs it beside the server's own path."""
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that belong to one connection and are never passed on."""
_OURS = frozenset({b"host", b"content-length", b"accept-encoding", b"expect"})
_QUERY_SAFE = "%/:?@!$&'()*+,;=~-._"


_TRAVERSAL = re.compile(r"\.\.|%2e|%2f|%5c|\\", re.IGNORECASE)


class Upstream:
    """The server behind the proxy, from the address given at the start."""

    def __init__(self, url: str) -> None:
        try:
            parts: SplitResult = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        if not known or parts.fragment or parts.username is not None:
            raise InvalidInput(
                f"not an HTTP address of a server: {_without_password(url)!r:.200}",
                hint="for example http://127.0.0.1:3001/mcp",
            )
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.path = parts.path or "/"
        self.query = quote(parts.query, safe=_QUERY_SAFE)
        self.host = host = (parts.hostname or "").lower()
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.netloc = parts.netloc.removesuffix(":80")
        # traffic to this machine never leaves it, even if the environment names an HTTP proxy
        local = host in ("127.0.0.1", "localhost", "::1") or proxy_bypass(host)
        self.proxy = None if local else getproxies().get(parts.scheme)
        self.is_direct = parts.scheme == "http" and self.proxy is None and parts.netloc.isascii()
        """Whether its connections need neither certificates nor an HTTP proxy nor another spelling of its name."""

    def target(self, path: str, query: bytes) -> str | None:
        """Return the path, with its query, to which a request is passed on; None if it is not."""
        if path != self.path and (not path.startswith(WELL_KNOWN) or _TRAVERSAL.search(path)):
            return None
        given = query.decode("latin-1")
        own = self.query if path == self.path else ""
        both = "&".join(part for part in (own, given) if part)
        return path + (f"?{both}" if both else "")


def _without_password(url: str) -> str:
    """Return an address that is safe to print: the part before an @ may be a password."""
    return re.sub(r"//.*@", "//…@", url)


class RequestPolicy:
    """Refuses requests that the proxy must not pass on."""

    def __init__(self, port: int) -> None:
        self._callers = AllowedCallers(port)

    def refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        """Return the status and text of a refusal; None if the request is accepted."""
        refusal = self._callers.refusal(headers)
        if refusal is not None:
            return refusal
        if method not in METHODS:
            return 405, "method not allowed: use GET, POST or DELETE"
        if method == "POST" and not is_json(headers):
            return 415, "Content-Type must be application/json"
        return None


def request_headers(headers: Headers, upstream: Upstream) -> Headers:
    """Return the headers of a request as the server receives them: all but those of one connection.

    The server is asked for an uncompressed response, since the proxy reads a copy of it. An Origin of the
    proxy, which was checked before, becomes the server's.
    """
    kept = [
        (name, upstream.origin.encode() if name.lower() == b"origin" else value)
        for name, value in _end_to_end(headers)
        if name.lower() not in _OURS
    ]
    return [*kept, (b"accept-encoding", b"identity")]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a response as the client receives them."""
    return _end_to_end(list(headers))


def _end_to_end(headers: Headers) -> Headers:
    named = {
        name.strip().lower().encode("latin-1")
        for value in header_values(headers, b"connection")
        for name in value.split(",")
    }
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in HOP_BY_HOP and name.lower() not in named
    ]
