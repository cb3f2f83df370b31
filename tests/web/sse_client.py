"""A reader of server-sent events that can be cut off at any byte, and knows then what a browser would know."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

WAIT_S = 30


class SeenEvent(NamedTuple):
    """One event that arrived whole."""

    name: str
    id: str
    data: Any


class EventReader:
    """A connection to a stream. As in a browser, an event counts once the blank line after it is there."""

    def __init__(self, address: str, path: str, token: str, **headers: str) -> None:
        self._socket = socket.create_connection(
            (urlsplit(address).hostname, urlsplit(address).port), WAIT_S
        )
        lines = [
            f"GET {path} HTTP/1.0",  # so that the body is not chunked
            f"Host: {urlsplit(address).netloc}",
            f"Authorization: Bearer {token}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._rest = b""
        self._left: int | None = None
        self.status = 0
        self.comments = 0

    def cut_after(self, size: int) -> None:
        """Let the connection break after that many bytes."""
        self._left = size

    def __iter__(self) -> Iterator[SeenEvent]:
        for block in self._blocks():
            fields: dict[str, str] = {}
            for line in block.split("\n"):
                name, _, value = line.partition(": ")
                fields[name] = value
            if set(fields) == {""}:
                self.comments += 1
                continue
            yield SeenEvent(
                fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            )

    def _blocks(self) -> Iterator[str]:
        while b"\r\n\r\n" not in self._rest:
            if not self._more():
                return
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        while True:
            while b"\n\n" not in self._rest:
                if not self._more():
                    return
            block, _, self._rest = self._rest.partition(b"\n\n")
            yield block.decode()

    def _more(self) -> bool:
        if self._left == 0:
            return False
        got = self._socket.recv(65_536 if self._left is None else min(self._left, 65_536))
        if self._left is not None:
            self._left -= len(got)
        self._rest += got
        return bool(got)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
