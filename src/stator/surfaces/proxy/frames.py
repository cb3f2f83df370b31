"""Splits byte streams into messages: lines (stdio) and server-sent events (HTTP), within a size limit.

Bytes never change: a line keeps its line break. A line longer than the limit is passed on in parts, and only
its size, digest and ends are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

LINE_MAX = 16 * 1024 * 1024
"""Longest message, in bytes, that is decoded; a longer one is passed on undecoded."""
EDGE = 2_048
"""Bytes kept from each end of a message that is not decoded."""


@dataclass(slots=True)
class LongMessage:
    """Size, digest and both ends of a message that was too long to decode."""

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
class WholeLine:
    """A whole line with its line break; the last line of a stream may have none."""

    data: bytes


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a line that is too long; only the part that ends the line has `last`."""

    data: bytes
    last: LongMessage | None = None


class LineSplitter:
    """Splits a byte stream into lines."""

    def __init__(self, limit: int = LINE_MAX) -> None:
        self._limit = limit
        self._waiting = bytearray()
        self._searched = 0  # bytes that are known to contain no line break
        self._long: LongMessage | None = None

    def feed(self, chunk: bytes) -> Iterator[WholeLine | LinePart]:
        """Yield the lines that a chunk completes, and parts of a line that is too long."""
        self._waiting += chunk
        while (end := self._waiting.find(b"\n", self._searched)) >= 0:
            data = bytes(self._waiting[: end + 1])
            del self._waiting[: end + 1]
            self._searched = 0
            yield self._ended(data)
        self._searched = len(self._waiting)
        if self._long is not None or self._searched > self._limit:
            yield self._part()

    def close(self) -> Iterator[WholeLine | LinePart]:
        """Yield what is left when the stream has ended."""
        data = bytes(self._waiting)
        self._waiting.clear()
        self._searched = 0
        if data or self._long is not None:
            yield self._ended(data)

    def _part(self) -> LinePart:
        data = bytes(self._waiting)
        self._waiting.clear()
        self._searched = 0
        self._long = self._long or LongMessage()
        self._long.add(data)
        return LinePart(data)

    def _ended(self, data: bytes) -> WholeLine | LinePart:
        if self._long is None and len(data) <= self._limit:
            return WholeLine(data)
        whole, self._long = self._long or LongMessage(), None
        whole.add(data)
        return LinePart(data, last=whole)


class EventStreamReader:
    """Reads the data of each message from a copy of a `text/event-stream`."""

    def __init__(self, limit: int = LINE_MAX) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._cr = False  # the last chunk ended with CR: a LF that follows belongs to it
        self.resumable = False
        """Whether messages have ids, so that a client can reconnect and ask for those it missed."""
        self.unread = 0
        """Number of messages that were too long to decode."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of the messages that a chunk completes."""
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
