"""Asks a running inspector for pages as a browser would, without one."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from http.cookiejar import CookieJar

from web.running import RunningInspector

BYTES_MAX, NODES_MAX = 300_000, 5_000
_TAG = re.compile(rb"<[a-z]")


class PlainBrowser:
    """Keeps its cookie; sees the bytes of pages."""

    def __init__(self, inspector: RunningInspector) -> None:
        self.address = inspector.address
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        self._opener = urllib.request.build_opener(jar)
        self.get(inspector.link.removeprefix(self.address))

    def get(self, path: str) -> tuple[int, bytes]:
        """The status and the bytes of a page."""
        try:
            with self._opener.open(f"{self.address}{path}") as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def page(self, path: str) -> bytes:
        """A page that is there and within the limits of every page."""
        status, body = self.get(path)
        assert status == 200, (path, status, body[-400:])
        assert len(body) <= BYTES_MAX, (path, len(body))
        assert len(_TAG.findall(body)) <= NODES_MAX, (path, len(_TAG.findall(body)))
        return body
