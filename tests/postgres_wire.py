"""A proxy between a client and a PostgreSQL server that counts round trips.

A client waits for an answer after each Sync, Flush or simple query that it sends, so that these are counted: whatever
the client's own counters say. A Flush behind a Sync asks for nothing that is not on its way already.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

SYNC, FLUSH, QUERY = b"SHQ"
SOCKET = ".s.PGSQL.5432"


class WireCounter:
    """Listens on a socket of its own, and passes everything on to the server of a URL on this machine."""

    def __init__(self, url: str) -> None:
        self.trips = 0
        self.connections = 0
        parts = urlsplit(url)
        self._server = Path(unquote(parse_qs(parts.query)["host"][0])) / SOCKET
        # The path of a socket has a limit of about a hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix=f"pgw-{secrets.token_hex(2)}-"))
        self.url = (
            f"{parts.scheme}://{parts.netloc}{parts.path}?host={quote(str(self._folder), safe='')}"
        )
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / SOCKET))
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            self._open += [client, server]
            self.connections += 1
            for source, target, counted in ((client, server, True), (server, client, False)):
                thread = threading.Thread(
                    target=self._pass_on, args=(source, target, counted), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        messages = Messages()
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if counted:  # before it is sent: the answer must not come first
                    self.trips += messages.waits(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Messages:
    """What a client sends, as it comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
        self._last = 0

    def waits(self, data: bytes) -> int:
        """How many of the messages that end in this piece the client waits after."""
        count = 0
        for kind in self._kinds(data):
            count += kind in (SYNC, QUERY) or (kind == FLUSH and self._last != SYNC)
            self._last = kind
        return count

    def _kinds(self, data: bytes) -> list[int]:
        self._rest += data
        found: list[int] = []
        while True:
            head = 5 if self._begun else 4  # the first messages have no kind
            if len(self._rest) < head:
                return found
            size = int.from_bytes(self._rest[head - 4 : head], "big") + head - 4
            if len(self._rest) < size:
                return found
            message, self._rest = self._rest[:size], self._rest[size:]
            if self._begun:
                found.append(message[0])
            else:  # SSL and GSS are asked for, refused, and then the start follows
                self._begun = int.from_bytes(message[4:8], "big") >> 16 == 3
