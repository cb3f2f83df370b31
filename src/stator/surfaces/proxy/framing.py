"""From bytes as they come to whole messages: lines (stdio) and server-sent data (HTTP). Bounded.

The bytes themselves are never changed: a line is handed on with the line break it came with. One that
is longer than the limit is handed on in parts, and only counted and digested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

LINE_MAX = 16 * 1024 * 1024
"""Bytes of a message that is read; a longer one is passed on unread."""
EDGE = 2_048
"""Bytes kept of both ends of one that is not."""


@dataclass(slots=True)
class Long:
    """What is known of a message that was too long to be read."""

    size: int = 0
    head: bytes = b""
    tail: bytes = b""
    _digest: Any = field(default_factory=sha256)

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self._digest.update(data)
        if len(self.head) < EDGE:
            self.head += data[: EDGE - len(self.head)]
        self.tail = (self.tail + data[-EDGE:])[-EDGE:]

    @property
    def digest(self) -> str:
        found: str = self._digest.hexdigest()
        return found


@dataclass(frozen=True, slots=True)
class Line:
    """A whole line, with its line break (the last one of a stream may have none)."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a line that is too long; `last` is with the piece that ends it."""

    data: bytes
    last: Long | None = None


class Lines:
    """Cuts a stream into lines."""

    def __init__(self, limit: int = LINE_MAX) -> None:
        self._limit = limit
        self._waiting = bytearray()
        self._looked = 0
        self._long: Long | None = None

    def feed(self, chunk: bytes) -> Iterator[Line | Part]:
        """The lines a chunk completes, and parts of one that is too long."""
        self._waiting += chunk
        while (end := self._waiting.find(b"\n", self._looked)) >= 0:
            data = bytes(self._waiting[: end + 1])
            del self._waiting[: end + 1]
            self._looked = 0
            yield self._ended(data)
        self._looked = len(self._waiting)
        if self._long is not None or self._looked > self._limit:
            yield self._part()

    def close(self) -> Iterator[Line | Part]:
        """What is left when the stream has ended."""
        data = bytes(self._waiting)
        self._waiting.clear()
        self._looked = 0
        if data or self._long is not None:
            yield self._ended(data)

    def _part(self) -> Part:
        data = bytes(self._waiting)
        self._waiting.clear()
        self._looked = 0
        self._long = self._long or Long()
        self._long.add(data)
        return Part(data)

    def _ended(self, data: bytes) -> Line | Part:
        if self._long is None and len(data) <= self._limit:
            return Line(data)
        whole, self._long = self._long or Long(), None
        whole.add(data)
        return Part(data, last=whole)


class ServerSent:
    """Reads a copy of a `text/event-stream`: the data of each message in it."""

    def __init__(self, limit: int = LINE_MAX) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._cr = False
        self.resumable = False
        """Whether messages have ids: a client may come back for what it missed."""
        self.unread = 0
        """Messages that were too long."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of messages that a chunk completes."""
        if self._cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._cr = chunk.endswith(b"\r")
        lines = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines[:-1]:
            self._add(line)
            whole = bytes(self._line)
            self._line.clear()
            yield from self._take(whole)
        self._add(lines[-1])

    def _add(self, piece: bytes) -> None:
        # one byte over the limit is enough to know that it is too long
        self._line += piece[: max(0, self._limit + 1 - len(self._line))]

    def _take(self, line: bytes) -> Iterator[bytes]:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                value = value.removeprefix(b" ")
                self._size += len(line)
                if self._size <= self._limit:
                    self._data.append(value)
            elif name == b"id" and value.strip():
                self.resumable = True
            return
        data, size = self._data, self._size
        self._data, self._size = [], 0
        if size > self._limit:
            self.unread += 1
        elif data:
            yield b"\n".join(data)
