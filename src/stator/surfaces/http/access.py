"""Who may use the service: a link that works once and becomes a cookie, or a token for programs.

Loopback alone proves nothing: every user and every web page of this machine reaches it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from typing import Literal

SECRET_BYTES = 32
COOKIES_MAX = 64
"""How many browsers are remembered; the oldest is forgotten first."""
BEARER = "bearer "

Caller = Literal["browser", "program"]


class Access:
    """Links that were given out, browsers that came through one, and the token of programs.

    Only digests are kept, so a dump of this process shows no secret that still works.
    """

    def __init__(self, port: int, draw: Callable[[int], bytes]) -> None:
        """`draw` returns that many random bytes."""
        self.cookie_name = f"stator_{port}"
        """Cookies do not know ports: two services of one machine must not overwrite each other's."""
        self._draw = draw
        self._lock = Lock()
        self._links: set[str] = set()
        self._cookies: dict[str, None] = {}
        self._token = ""

    def new_link(self) -> str:
        """Return the secret of a link that works once."""
        secret = self._draw(SECRET_BYTES).hex()
        with self._lock:
            self._links.add(_digest(secret))
        return secret

    def new_token(self) -> str:
        """Return the token for programs; an earlier one works no longer."""
        secret = self._draw(SECRET_BYTES).hex()
        self._token = _digest(secret)
        return secret

    def enter(self, link: str) -> str | None:
        """Use up a link and return the cookie it becomes; None if it was used or is unknown."""
        with self._lock:
            if _digest(link) not in self._links:
                return None
            self._links.discard(_digest(link))
            cookie = self._draw(SECRET_BYTES).hex()
            self._cookies[_digest(cookie)] = None
            while len(self._cookies) > COOKIES_MAX:
                del self._cookies[next(iter(self._cookies))]
        return cookie

    def caller(self, cookies: list[str], authorization: list[str]) -> Caller | None:
        """Who sent a request, by its headers; None for a stranger."""
        if any(self._has_token(value) for value in authorization):
            return "program"
        if any(_digest(value) in self._cookies for value in self._values(cookies)):
            return "browser"
        return None

    def _has_token(self, value: str) -> bool:
        given = value[len(BEARER) :] if value.lower().startswith(BEARER) else ""
        return bool(self._token) and hmac.compare_digest(_digest(given), self._token)

    def _values(self, headers: list[str]) -> list[str]:
        found = []
        for header in headers:
            try:
                morsel = SimpleCookie(header).get(self.cookie_name)
            except CookieError:
                continue
            if morsel is not None:
                found.append(morsel.value)
        return found


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
