"""Asks the service as a program does: with its token."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

WAIT_S = 30


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ServiceClient:
    """A program with a token, or without one."""

    def __init__(self, address: str, token: str = "") -> None:
        self._address = urlsplit(address).netloc
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Reply:
        asked = f"/v1{path}?{urlencode(query, doseq=True)}" if query else f"/v1{path}"
        return self._get(asked, headers or {})

    def page(self, path: str) -> str:
        """The text of a page."""
        return self._get(path, {}).body.decode()

    def _get(self, asked: str, headers: dict[str, str]) -> Reply:
        connection = http.client.HTTPConnection(self._address, timeout=WAIT_S)
        try:
            connection.request("GET", asked, headers={**self._headers, **headers})
            got = connection.getresponse()
            return Reply(got.status, got.headers, got.read())
        finally:
            connection.close()

    def items(self, path: str, **query: Any) -> Iterator[Any]:
        """The items of every page."""
        cursor: dict[str, Any] = {}
        while True:
            got = self.get(path, **query, **cursor)
            assert got.status == 200, got.body
            yield from got.json["items"]
            if got.json["next"] is None:
                return
            cursor = {"cursor": got.json["next"]}
