"""One connection to PostgreSQL that never waits without end and never takes a cancelled wait for an answer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any

import psycopg

DEADLINE_S = 3.0
"""How long a statement may take. A server that was stopped keeps its connections, and gives no answer."""
CANCELLED_WAIT = "01000"
"""The SQLSTATE of the warning that a commit is on this server only: its wait for the standby was cancelled."""


class NoAnswer(Exception):
    """It is not known whether the statement was carried out."""


class Wire:
    """A connection, opened when it is needed. `believes`: takes a commit whose wait was cancelled for a commit."""

    def __init__(self, url: str, *, believes: bool = False) -> None:
        self._url, self._believes = url, believes
        self._connection: psycopg.Connection[Any] | None = None
        self._warnings: list[str] = []

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement, which commits by itself; its rows."""
        self._warnings.clear()
        try:
            connection = self._open()
            with self._deadline(connection.fileno()):
                cursor = connection.execute(query.encode(), values or None)
                rows = cursor.fetchall() if cursor.description else []
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
            self.drop()
            raise NoAnswer(str(error).strip() or type(error).__name__) from error
        if self._warnings and not self._believes:
            raise NoAnswer(f"on one server only: {self._warnings[0]}")
        return rows

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            # A pooler gives each statement another connection of its own: nothing is prepared.
            self._connection = psycopg.connect(self._url, autocommit=True, prepare_threshold=None)
            self._connection.add_notice_handler(self._notice)
        return self._connection

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.sqlstate == CANCELLED_WAIT:
            self._warnings.append(notice.message_primary or "a warning")

    @contextlib.contextmanager
    def _deadline(self, descriptor: int) -> Any:
        """Cut the connection where no answer comes in time."""
        own = os.dup(descriptor)
        timer = threading.Timer(DEADLINE_S, _cut, [own])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            os.close(own)

    def drop(self) -> None:
        """Give the connection up; the next question opens another."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _cut(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)
