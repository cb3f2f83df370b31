"""Read connections of a store: each shows one consistent snapshot at a time, and is kept for the next reader."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import apsw

from stator.store.sqlite import connection
from stator.store.sqlite.connection import FileGuard
from stator.store.sqlite.queries.lineage import SessionPlace
from stator.store.sqlite.store_lock import ReadLock, check_log


class _Reader:
    """A connection, the lock on what it reads, and the files it opened."""

    def __init__(self, path: str) -> None:
        check_log(path)
        self.lock = ReadLock(path)
        try:
            self.lock.acquire()
            self.db = connection.open_connection(path, "read")
            self.lock.release()
            self.lock.open(create=True)
        except BaseException:
            self.lock.close()
            raise
        self.guard = FileGuard(path)

    def close(self) -> None:
        self.db.close()
        self.guard.close()
        self.lock.close()


class ReadPool:
    """The read connections of one store object."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.on_stale: Callable[[], None] = self.drop
        """Called when a reader's files were removed, to close what else keeps them open."""
        self._closed = False
        self._idle: list[_Reader] = []
        self._shared = threading.local()

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Have all reads of this thread see one snapshot."""
        with self.snapshot() as db:
            self._shared.db, self._shared.places = db, {}
            try:
                yield
            finally:
                self._shared.db = self._shared.places = None

    @property
    def places(self) -> dict[str, SessionPlace]:
        """Where sessions lie in the snapshot that all reads of this thread share: kept as long as they share it."""
        found: dict[str, SessionPlace] | None = getattr(self._shared, "places", None)
        return {} if found is None else found

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection inside a read transaction."""
        shared: apsw.Connection | None = getattr(self._shared, "db", None)
        if shared is not None:
            yield shared
            return
        with self._reader() as db, connection.translated(self._path):
            db.execute("BEGIN")
            try:
                yield db
            finally:
                if db.in_transaction:
                    with contextlib.suppress(apsw.Error):
                        db.execute("ROLLBACK")

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        reader = self._taken()
        try:
            reader.lock.acquire()
            yield reader.db
        finally:
            reader.lock.release()
            if self._closed:
                reader.close()
            else:
                self._idle.append(reader)

    def _taken(self) -> _Reader:
        while self._idle:
            try:
                reader = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not reader.guard.is_stale():
                return reader
            # Of files that nobody writes any more: it would show an old state for ever.
            reader.close()
            self.on_stale()
        return _Reader(self._path)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[apsw.Connection]:
        """A connection that nobody has used before or will use after, without a transaction."""
        reader = _Reader(self._path)
        try:
            with connection.translated(self._path):
                reader.lock.acquire()
                yield reader.db
        finally:
            reader.lock.release()
            reader.close()

    def drop(self) -> None:
        """Close idle readers: one that maps the files of a lost log keeps SQLite from seeing the new."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        self._closed = True
        self.drop()
