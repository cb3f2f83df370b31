"""Recognizes and lists opencode's conversations: in its live database, in `opencode export` files
and in the output of `opencode run --format json`.

The same conversation becomes one session, whichever source it is imported from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from stator.importers.opencode import database
from stator.importers.opencode.messages import OpenCodeMessage, items, prompt_text
from stator.importers.reading import sqlite_source
from stator.importers.reading.counted_items import Steps, counted_items
from stator.importers.reading.fields import (
    headline,
    micros_of_millis,
    record,
    records,
    text,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.json_document import read_document
from stator.importers.reading.jsonl import (
    decode_json,
    parse_line,
    read_beginning,
    read_lines,
)
from stator.model.exchange.items import (
    Conversation,
    Cursor,
    Item,
    Skipped,
    Unknown,
)

NAME = "opencode"
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{')
_UNTITLED = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT")
_FORKED = re.compile(r"^(.*) \(fork #\d+\)$", re.DOTALL)
_SAID = frozenset(("text", "tool_use", "reasoning", "step_start", "step_finish"))


class OpenCode:
    """The format of opencode's conversations."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        if begin.startswith(sqlite_source.MAGIC):
            return database.is_database(path)
        if _EXPORT.match(begin):
            return b'"ses_' in begin and b'"messages"' in begin
        return _session_of_run(begin) != ""

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        begin = read_beginning(str(path), 4096)
        if begin.startswith(sqlite_source.MAGIC):
            yield from _in_database(path)
            return
        stat = path.stat()
        if _EXPORT.match(begin):
            whole = record(read_document(str(path)).value)
            info = record(whole.get("info"))
            first = next(_messages_of_export(whole.get("messages")), None)
            conversation = _conversation(
                text(info.get("id")), text(info.get("title")), text(info.get("directory")),
                text(info.get("version")), text(info.get("parentID")), first,
            )  # fmt: skip
            changed = micros_of_millis(record(info.get("time")).get("updated"))
        else:
            conversation, changed = Conversation(source=NAME, id=_session_of_run(begin)), 0
        changed = changed or stat.st_mtime_ns // 1000
        yield FoundConversation(
            path=str(path), conversation=conversation, changed=changed, size=stat.st_size
        )

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        def steps() -> Steps:
            read = items(
                _messages(found, progress),
                is_child=bool(found.conversation.parent),
                version=found.conversation.labels.get("version", ""),
            )
            return Steps([read], 1)

        return counted_items(steps, cursor, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        data = environ.get("XDG_DATA_HOME") or str(home / ".local" / "share")
        return [Path(data) / "opencode" / "opencode.db"]

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = OpenCode()


def _conversation(
    identifier: str,
    title: str,
    folder: str,
    version: str,
    parent: str,
    first: OpenCodeMessage | Item | None,
    **more: Any,
) -> Conversation:
    """Describe a conversation; a placeholder title is replaced by the first prompt."""
    if _UNTITLED.match(title):
        title = headline(prompt_text(first)) if isinstance(first, OpenCodeMessage) else ""
    return Conversation(
        source=NAME,
        id=identifier,
        name=title,
        cwd=folder,
        labels={"version": version} if version else {},
        parent=parent,
        **more,
    )


def _messages(
    found: FoundConversation, progress: Progress | None
) -> Iterator[OpenCodeMessage | Item]:
    begin = read_beginning(found.path, 4096)
    if begin.startswith(sqlite_source.MAGIC):
        with sqlite_source.open_read_only(found.path) as db:
            yield from database.messages(db, found.part, progress)
    elif _EXPORT.match(begin):
        whole = read_document(found.path, progress)
        yield from _messages_of_export(record(whole.value).get("messages"))
        yield from whole.skipped
    else:
        yield from _messages_of_run(found, progress)


def _messages_of_export(given: Any) -> Iterator[OpenCodeMessage | Item]:
    for number, message in enumerate(given if isinstance(given, list) else []):
        if isinstance(message, dict) and isinstance(message.get("info"), dict):
            yield OpenCodeMessage(message["info"], records(message.get("parts")))
        else:
            yield Unknown(id=f"message/{number}", raw=message)


# -- the database -----------------------------------------------------------------------------------


def _in_database(path: Path) -> Iterator[FoundConversation]:
    with sqlite_source.open_read_only(str(path)) as db:
        rows = list(database.sessions(db))
        for row in rows:
            more: dict[str, Any] = {}
            if row.parent:
                more["parent_call"] = database.spawning_call(db, row)
            elif _FORKED.match(row.title):
                more = _fork(db, row, rows)
            untitled = _UNTITLED.match(row.title)
            first = next(database.messages(db, row.id), None) if untitled else None
            conversation = _conversation(
                row.id, row.title, row.directory, row.version, row.parent, first, **more
            )  # fmt: skip
            changed = micros_of_millis(row.updated)
            yield FoundConversation(
                path=str(path), conversation=conversation, part=row.id, changed=changed,
                size=path.stat().st_size,
            )  # fmt: skip


def _fork(
    db: Any, row: database.OpenCodeSession, rows: list[database.OpenCodeSession]
) -> dict[str, Any]:
    """What a fork was made from. opencode only marks a fork in its title and copies the messages;
    the origin is the older session with the same title that shares the most items."""
    base = _base(row.title)
    copied = _ids(db, row.id, before=row.created)
    older = [
        other
        for other in rows
        if other.id != row.id and other.created < row.created and _base(other.title) == base
    ]
    shared = {other.id: len(_ids(db, other.id) & copied) for other in older}
    nearest = max(shared, key=lambda name: shared[name], default="")
    return {"fork_of": nearest, "fork_ids": copied} if nearest and shared[nearest] else {}


def _base(title: str) -> str:
    while found := _FORKED.match(title):
        title = found[1]
    return title


def _ids(db: Any, session: str, before: int = 0) -> frozenset[str]:
    """The ids of the items in a conversation, up to a time."""

    def is_early(message: OpenCodeMessage) -> bool:
        created = record(message.info.get("time")).get("created")
        return not before or not isinstance(created, int) or created < before

    messages = (m for m in database.messages(db, session) if isinstance(m, OpenCodeMessage))
    early = takewhile(is_early, messages)
    return frozenset(item.id for item in items(early) if item.id)


# -- output of a run --------------------------------------------------------------------------------


def _session_of_run(begin: bytes) -> str:
    """The conversation whose parts a run printed; "" if the file is something else."""
    try:
        first = record(decode_json(begin.split(b"\n", 1)[0]))
    except ValueError:
        return ""
    name = text(first.get("sessionID"))
    return name if name.startswith("ses_") and text(first.get("type")) else ""


def _messages_of_run(
    found: FoundConversation, progress: Progress | None
) -> Iterator[OpenCodeMessage | Item]:
    """The model's messages; a run does not print its prompt."""
    parts: list[dict[str, Any]] = []
    at = 0
    for line in read_lines(found.path, progress=progress):
        given, why = parse_line(line)
        if given is None:
            if why:
                yield Skipped(line=line.number, why=why)
            continue
        kind, part = text(given.get("type")), record(given.get("part"))
        if text(given.get("sessionID")) != found.conversation.id:
            yield Skipped(line=line.number, why="of another conversation")
        elif kind not in _SAID or not part:
            yield Unknown(
                id=f"line/{line.number}", at=micros_of_millis(given.get("timestamp")), raw=given
            )
        else:
            if parts and part.get("messageID") != parts[0].get("messageID"):
                yield _printed_message(parts, at)
                parts = []
            parts.append(part)
            at = given.get("timestamp") or 0
    if parts:
        yield _printed_message(parts, at)


def _printed_message(parts: list[dict[str, Any]], at: Any) -> OpenCodeMessage:
    """A message from its printed parts. opencode prints each part when it ends; the ids of the
    parts show the order in which they began."""
    ordered = sorted(parts, key=lambda part: text(part.get("id")))
    info: dict[str, Any] = {"id": text(parts[0].get("messageID")), "role": "assistant"}
    reasons = [text(part.get("reason")) for part in ordered if part.get("type") == "step-finish"]
    if reasons:
        info |= {"finish": reasons[-1], "time": {"completed": at}}
    return OpenCodeMessage(info, ordered)
