"""Opens the indexes of a store: files beside it, or what takes their place where none can be kept."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from stator.errors import StoreReadOnly
from stator.model.log.query import SessionQuery
from stator.runtime.base.pages import matching
from stator.store import port

if TYPE_CHECKING:
    from stator.store.sqlite.index.index_file import IndexFile, Log

AnyIndex = TypeVar("AnyIndex", bound="IndexFile")
_passing: weakref.WeakKeyDictionary[port.StorePort, dict[type[Any], Any]] = (
    weakref.WeakKeyDictionary()
)
"""Indexes that are gone with the process, by their store."""


def search_index(
    store: port.StorePort, create: bool, *, on_disk: bool = True
) -> AbstractContextManager[port.Index | None]:
    """The search index of a store."""
    from stator.store.sqlite.index.search_index import SearchIndex

    return _index(SearchIndex, store, create, on_disk)


def project_index(
    store: port.StorePort, create: bool, *, on_disk: bool = True
) -> AbstractContextManager[port.ProjectIndex | None]:
    """The index of what the projects of a store know."""
    from stator.store.sqlite.index.project_index import SqliteProjectIndex

    return _index(SqliteProjectIndex, store, create, on_disk)


@contextmanager
def _index(
    made: type[AnyIndex], store: port.StorePort, create: bool, on_disk: bool
) -> Iterator[AnyIndex | None]:
    """An index of a store: a file beside it, or a temporary file if that one cannot be written. Without `on_disk` it
    is in memory only."""
    from stator.store.sqlite.index.index_file import can_be_kept, is_out_of_reach

    path = _base(store)
    beside = path + made.SUFFIX
    if on_disk and path and can_be_kept(path, made.SUFFIX):
        if not create and not os.path.exists(beside):
            yield None
            return
        index = made(beside, _identity(made, store), _log(store))
        try:
            yield index
        finally:
            index.close()
        return
    if path and not create and is_out_of_reach(path, made.SUFFIX):
        raise StoreReadOnly(f"{beside}: cannot be written", store=path)
    passing = _passing.setdefault(store, {})
    if create and made not in passing:
        # By a weak reference: an index must not keep alive the store it is gone with.
        log = _log(weakref.proxy(store))
        passing[made] = made("", _identity(made, store), log, in_memory=not on_disk)
    yield passing.get(made)


def _identity(made: type[AnyIndex], store: port.StorePort) -> str:
    """What an index is of. Of a foreign store nothing is trusted: what is known of it then is known differently."""
    foreign = made.JUDGES and store.ownership.foreign
    return f"{store.info().id} foreign" if foreign else store.info().id


def keeps_index(store: port.StorePort) -> bool:
    """Whether a store keeps its search index on disk."""
    from stator.store.sqlite.index.index_file import can_be_kept
    from stator.store.sqlite.index.search_index import SUFFIX

    path = _base(store)
    return bool(path) and can_be_kept(path, SUFFIX)


def remote_folder(home: str | None, identifier: str) -> str:
    """Beside which the indexes of a store on a server are kept, in a user's data folder; "" if none can be kept."""
    if home is None:
        return ""
    folder = os.path.join(home, "remote", identifier)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return ""
    return folder


def _base(store: port.StorePort) -> str:
    """What the indexes of a store lie beside: its file, or the folder that this machine has for a store elsewhere."""
    return path_of_store(store) or getattr(store, "index_path", "")


def path_of_store(store: port.StorePort) -> str:
    """Where a store is, if it is a file."""
    from stator.store.sqlite import SqliteStore

    return store.path if isinstance(store, SqliteStore) else ""


def _log(store: port.StorePort) -> Log:
    """What the index of a store is compared with: its own tables where it has some, else its listing."""
    from stator.store.sqlite import SqliteStore

    return store if isinstance(store, SqliteStore) else _Listed(store)


class _Listed:
    """The heads of a store that has no tables of its own to ask."""

    def __init__(self, store: port.StorePort) -> None:
        self._store = store

    def chunk_heads(self, chunk: int | None = None) -> list[tuple[str, int, int]]:
        rows = matching(self._store, SessionQuery())
        return [(row.id, row.head, row.updated) for row in rows]

    def head_sums(self) -> dict[int, str]:
        return {}
