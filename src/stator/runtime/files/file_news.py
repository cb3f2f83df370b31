"""What other live sessions did to the files that a session knows.

A driver notes each file that its session read or wrote where hooks note theirs (`touched_files`), so that agents of any
kind learn of each other. It looks at a file again only if something was noted about it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stator.errors import StatorError
from stator.model.brief.envelope import note_id, wrapped
from stator.model.brief.file_notice import ForeignChange, notice_text
from stator.model.brief.shared_files import FileTouch
from stator.model.exchange.items import Conversation
from stator.model.log.commit import Change, Draft, Upsert
from stator.model.records.types import DeliveryRecord, FileRecord, SessionRecord
from stator.model.values.ids import short
from stator.runtime.files.capture import full_path
from stator.runtime.files.disk_check import is_database
from stator.store.port import StorePort
from stator.touched_files import DRIVEN, Toucher, own_process

UNSEEN = (0, "")
FILES_MAX = 200
"""The files of a session, those touched last, that are looked at."""


class FileNews:
    """The files that the session of a driver knows. Without a folder to note them in, it does nothing."""

    def __init__(self, store: StorePort, session: str, folder: str, agent: str, root: str) -> None:
        self._store = store
        self._root = root
        self._session = session
        self._folder = folder
        self._me = Toucher(folder, f"{DRIVEN}:{session}", agent or DRIVEN, own_process())
        self._known: dict[str, tuple[int, str]] | None = None
        """Path → when something was noted about it last, as far as it was looked at, and what it held when this
        session touched it."""

    def landed(self, draft: Draft) -> None:
        """Note the files that a commit says were read or written."""
        if not self._folder:
            return
        for change in draft.changes:
            if isinstance(change, Upsert) and isinstance(change.record, FileRecord):
                self._note(change.record, draft.tool)

    def _note(self, record: FileRecord, tool: str) -> None:
        path = full_path(self._root, record)
        if record.op == "skipped" or not path.startswith("/") or "\0" in path or is_database(path):
            return
        if self._known is None:
            self._me.began()
        known = self._paths()
        last = known.pop(path, UNSEEN)
        known[path] = self._me.seen(path, tool=tool, wrote=record.op != "read", last=last)
        if len(known) > FILES_MAX:
            del known[next(iter(known))]

    def news(self) -> list[tuple[str, FileTouch]]:
        """The files that another live session changed and this one has not seen since, each until it is `told`."""
        if not self._folder:
            return []
        found = []
        known = self._paths()
        for path, looked in known.items():
            noted = self._me.noted(path)
            if noted == looked[0]:
                continue
            other = self._me.news(path)
            if other is None:
                known[path] = (noted, "")
            else:
                found.append((path, other))
        return found

    def told(self, news: Iterable[tuple[str, FileTouch]]) -> None:
        """The model is shown these from here on."""
        for path, other in news:
            self._me.told(path, other)
            self._paths()[path] = (self._me.noted(path), "")

    def left(self) -> None:
        """The driver has left: what its session did is no news to others."""
        if self._known:
            self._me.ended()

    def _paths(self) -> dict[str, tuple[int, str]]:
        if self._known is None:
            entries = self._store.entries(self._session, "files", limit=FILES_MAX)
            records = [entry.record for entry in entries if isinstance(entry.record, FileRecord)]
            paths = (full_path(self._root, one) for one in reversed(records))
            self._known = {
                path: UNSEEN for path in paths if "\0" not in path and not is_database(path)
            }
        return self._known


def notice_of(
    store: StorePort, news: Sequence[tuple[str, FileTouch]], now: int
) -> tuple[str, tuple[Change, ...]]:
    """What a model is shown of changes by others, and the record of it; nothing if there is nothing to show."""
    changes = foreign_changes(store, news, now)
    if not changes:
        return "", ()
    text = notice_text(changes)
    record = DeliveryRecord(note=note_id(text), kind="file")
    return wrapped("file", text), (Upsert("deliveries", record),)


def foreign_changes(
    store: StorePort | None, news: Sequence[tuple[str, FileTouch]], now: int
) -> list[ForeignChange]:
    """Who changed which file; names as the store has them, none without a store. What a session did that a person
    closed is no news."""
    changes = []
    for path, other in news:
        source, _, name = other.key.partition(":")
        session = name if source == DRIVEN else Conversation(source=source, id=name).session
        known = None if store is None else _record(store, session)
        if known is not None and known.status in ("closed", "archived"):
            continue
        changes.append(
            ForeignChange(
                path=path, agent=other.agent or "an agent", tool=other.tool, session=short(session),
                name="" if known is None else known.name,
                ago_us=max(0, now - other.wrote),
            )
        )  # fmt: skip
    return changes


def _record(store: StorePort, session: str) -> SessionRecord | None:
    try:
        return store.session(session).record
    except StatorError:  # what its hooks reported is not taken in yet
        return None
