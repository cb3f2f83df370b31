"""Reads opencode's database page by page while opencode may be writing to it.

No read lock is held longer than one page of messages takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.opencode.messages import OpenCodeMessage
from stator.importers.reading.fields import record, text, whole_number
from stator.importers.reading.found_conversation import Progress
from stator.importers.reading.jsonl import LINE_MAX, decode_json
from stator.importers.reading.sqlite_source import open_read_only
from stator.model.exchange.items import Skipped

if TYPE_CHECKING:
    import apsw

PAGE = 200
"""The number of messages that are read at a time."""
PARTS_MAX = 20_000
"""The most parts of one message that are read."""
NEEDED = {"session", "message", "part"}
SESSIONS = (
    "select id, parent_id, title, directory, version, time_created, time_updated from session"
)


class OpenCodeSession(msgspec.Struct, frozen=True):
    """A conversation as the database lists it; times in ms."""

    id: str
    parent: str
    title: str
    directory: str
    version: str
    created: int
    updated: int


def is_database(path: Path) -> bool:
    """Whether a SQLite file is opencode's."""
    try:
        with open_read_only(str(path)) as db:
            rows = db.execute("select name from sqlite_master where type = 'table'")
            return {name for (name,) in rows} >= NEEDED
    except InvalidInput:
        return False


def sessions(db: apsw.Connection) -> Iterator[OpenCodeSession]:
    """The conversations, parents before their sub-agents."""
    rows = [_row(values) for values in db.execute(SESSIONS)]
    known = {row.id: row for row in rows}

    def depth(row: OpenCodeSession) -> int:
        seen: set[str] = set()
        while row.parent in known and row.id not in seen:
            seen.add(row.id)
            row = known[row.parent]
        return len(seen)

    yield from sorted(rows, key=lambda row: (depth(row), row.created, row.id))


def _row(values: tuple[Any, ...]) -> OpenCodeSession:
    identifier, parent, title, folder, version = map(text, values[:5])
    created, updated = map(whole_number, values[5:])
    return OpenCodeSession(identifier, parent, title, folder, version, created, updated)


def spawning_call(db: apsw.Connection, row: OpenCodeSession) -> str:
    """The call that started a sub-agent's conversation; "" if it is unknown."""
    found = db.execute(
        "select json_extract(data, '$.callID') from part where session_id = ? and json_valid(data)"
        " and json_extract(data, '$.tool') = 'task'"
        " and coalesce(json_extract(data, '$.state.metadata.sessionId'),"
        " json_extract(data, '$.state.metadata.sessionID')) = ? limit 1",
        (row.parent, row.id),
    ).fetchone()
    return found[0] if found and isinstance(found[0], str) else ""


def messages(
    db: apsw.Connection, session: str, progress: Progress | None = None
) -> Iterator[OpenCodeMessage | Skipped]:
    """A conversation's messages in order, page by page; rows that cannot be read become `Skipped`."""
    after: tuple[Any, Any] = (-1, "")
    number = 0
    while True:
        page = db.execute(
            "select id, time_created, case when length(data) <= ?1 then data end from message"
            " where session_id = ?2 and (time_created, id) > (?3, ?4)"
            " order by time_created, id limit ?5",
            (LINE_MAX, session, *after, PAGE),
        ).fetchall()
        if not page:
            return
        for identifier, created, data in page:
            number += 1
            info = _parsed(data)
            after = (created, identifier)
            if info is None:
                yield Skipped(line=number, why="not JSON" if data else "too large")
                continue
            parts: list[dict[str, Any]] = []
            for part in _parts(db, str(identifier)):
                if isinstance(part, Skipped):
                    yield part
                else:
                    parts.append(part)
            if progress is not None:
                progress(len(str(data)))
            yield OpenCodeMessage({"id": identifier, "sessionID": session, **info}, parts)


def _parts(db: apsw.Connection, message: str) -> Iterator[dict[str, Any] | Skipped]:
    rows = db.execute(
        "select id, case when length(data) <= ? then data end from part where message_id = ?"
        " order by id limit ?",
        (LINE_MAX, message, PARTS_MAX),
    ).fetchall()
    for number, (identifier, data) in enumerate(rows, 1):
        part = _parsed(data)
        if part is None:
            yield Skipped(
                line=number, why=f"part {identifier}: {'not JSON' if data else 'too large'}"
            )
        else:
            yield {"id": identifier, "messageID": message, **part}


def _parsed(data: Any) -> dict[str, Any] | None:
    if not isinstance(data, str):
        return None
    try:
        value = decode_json(data.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return record(value) if isinstance(value, dict) else None
