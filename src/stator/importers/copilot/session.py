"""Recognizes, lists and reads the sessions of GitHub Copilot CLI: a file of events for each session.

This follows public descriptions: the event types in GitHub's Copilot SDK, and reports of users. No file that the
program wrote itself has been read with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stator.importers.copilot.events import CopilotEventReader, author_of
from stator.importers.reading.appended_lines import AppendedLines
from stator.importers.reading.fields import headline, record, text
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import decode_json, parse_line, read_lines
from stator.importers.reading.line_boundary import looked_at, whole_line
from stator.model.exchange.items import Conversation, Cursor, Item, Skipped

NAME = "copilot"
FILE = "events.jsonl"


class Copilot:
    """The format of Copilot CLI's sessions."""

    name = NAME
    mapper = 1

    def recognizes(self, path: Path, begin: bytes) -> bool:
        try:
            first = record(decode_json(begin.split(b"\n", 1)[0]))
        except ValueError:
            return False
        data = record(first.get("data"))
        return first.get("type") == "session.start" and bool(text(data.get("sessionId")))

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        stat = path.stat()
        nothing: tuple[dict[str, Any], str] = ({}, "")
        start, asked = looked_at(_start_and_prompt, str(path), default=nothing)
        context = record(start.get("context"))
        version = text(start.get("copilotVersion"))
        folder = path.parent.name if path.name == FILE else path.stem
        conversation = Conversation(
            source=NAME,
            id=text(start.get("sessionId")) or folder,
            name=headline(asked),
            cwd=text(context.get("cwd")),
            labels={"version": version} if version else {},
        )
        yield FoundConversation(
            path=str(path), conversation=conversation, changed=stat.st_mtime_ns // 1000, size=stat.st_size
        )  # fmt: skip

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        lines = AppendedLines(found.path, cursor)
        state = record(cursor.state) if cursor is not None else {}
        reader = CopilotEventReader(found.conversation.id, state)
        for line in lines.read(progress, at_rest=at_rest):
            event, why = parse_line(line)
            if event is not None:
                yield from whole_line(reader.event(event, line.number), line.number)
            elif why:
                yield Skipped(line=line.number, why=why)
        yield lines.cursor(reader.state())

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        own = environ.get("COPILOT_HOME")
        return [(Path(own) if own else home / ".copilot") / "session-state"]

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = Copilot()


def _start_and_prompt(path: str) -> tuple[dict[str, Any], str]:
    """What the first event says, and what the user typed first."""
    start: dict[str, Any] = {}
    for line in read_lines(path):
        event = record(parse_line(line)[0])
        data = record(event.get("data"))
        if event.get("type") == "session.start" and not start:
            start = data
        elif event.get("type") == "user.message" and author_of(event, data) == "user":
            return start, text(data.get("content"))
    return start, ""
