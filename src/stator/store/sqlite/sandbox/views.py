"""Fills the views of `stator sql` from the tables of the file, on a connection that the query does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import apsw

from stator.model.records.tables import COLLECTIONS, NUMBERED
from stator.store.sandbox.commit_reader import CommitReader
from stator.store.sandbox.view_tables import Bounds, View
from stator.store.sql import script, statements
from stator.store.sqlite.connection import one, translate
from stator.store.sqlite.versions import unpack_id

_BLOB = statements("sqlite.sql")["blob_get"]
BY_PLACE = {
    "sessions": "s = :s",
    "spend": "s = :s",
    "commits": "k BETWEEN (:s << 40) + :low AND (:s << 40) + :high",
    "turns": "s = :s AND turn BETWEEN :low AND :high",
}
"""Which rows of a view are those of a session between two places, where that is not by seq."""
BY_SEQ = "s = :s AND seq BETWEEN :low AND :high"


class SqliteRows:
    """Reads a store with a connection on which `prepare` made the views."""

    def __init__(self, store: apsw.Connection, path: str) -> None:
        self._store, self._path = store, path

    def ordinal(self, identifier: bytes) -> int | None:
        found = one(self._store, "SELECT s FROM session WHERE id = ?", (identifier,))
        return None if found is None else int(found[0])

    def rows(
        self, view: View, columns: Collection[str], bounds: Bounds | None
    ) -> Iterator[tuple[Any, ...]]:
        # What the query does not use is not read.
        used = [name if name in columns else "NULL" for name in view.names]
        question = f"SELECT {', '.join((*used, *view.key))} FROM temp.{view.name}"  # noqa: S608 - of `VIEWS` alone
        if bounds is not None:
            question += f" WHERE {BY_PLACE.get(view.name, BY_SEQ)}"
        try:
            yield from self._store.execute(question, None if bounds is None else bounds._asdict())
        except apsw.Error as error:
            raise translate(error, self._path) from error


def prepare(store: apsw.Connection) -> None:
    """Make the views themselves, and the functions they need, on the connection that reads the store."""
    reader = CommitReader(lambda digest: _blob(store, digest))
    commit_field = reader.field

    def collection_name(number: Any) -> Any:
        return NUMBERED[number].name if number in NUMBERED else None

    def collection_number(name: Any) -> Any:
        return COLLECTIONS[name].number

    def record_id(data: Any) -> Any:
        return unpack_id(data) if isinstance(data, (bytes, str)) else None

    functions: tuple[tuple[str, int, Any], ...] = (
        ("commit_field", 2, commit_field),
        ("commit_content", 2, reader.content),
        ("commit_used", 2, reader.used),
        ("put_text", 2, reader.put),
        ("collection_name", 1, collection_name),
        ("collection_number", 1, collection_number),
        ("record_id", 1, record_id),
    )
    for name, arguments, function in functions:
        store.create_scalar_function(name, function, arguments, deterministic=True)
    store.execute(script("sqlite_views.sql"))


def _blob(store: apsw.Connection, digest: bytes) -> bytes | None:
    """A content that is kept beside the log, in the first slot with its digest."""
    slot = int.from_bytes(digest[:8], "big") >> 1
    while (row := one(store, _BLOB, (slot,))) is not None:
        if row[0] == digest:
            return bytes(row[1])
        slot += 1
    return None
