"""Writes short Claude Code transcripts for tests, and imports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stator.importers.claude_code.transcript import FORMAT
from stator.importers.conversation import Report, import_conversation
from stator.model.exchange.items import Conversation, Cursor
from stator.runtime.facade.view import SessionView

SESSION = "11111111-2222-4333-8444-555555555555"
CONVERSATION = Conversation(source="claude-code", id=SESSION)


class TranscriptWriter:
    """Writes a transcript line by line; every line is linked to the one before it."""

    def __init__(self, path: Path, session: str = SESSION, cwd: str = "/home/dev/demo") -> None:
        self.path = path
        self.session = session
        self.cwd = cwd
        self.count = 0
        self.last: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def line(self, kind: str, **fields: Any) -> str:
        """Write a line of any type; return its uuid."""
        self.count += 1
        said = {
            "parentUuid": self.last,
            "isSidechain": False,
            "type": kind,
            "uuid": f"u{self.count}",
            "timestamp": f"2026-03-01T10:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z",
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": "2.1.0",
            "gitBranch": "main",
            **fields,
        }
        self.raw(json.dumps(said))
        if kind != "progress":
            self.last = str(said["uuid"])
        return str(said["uuid"])

    def raw(self, text: str | bytes) -> None:
        """Write a raw line."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        with self.path.open("ab") as file:
            file.write(data + b"\n")

    def prompt(self, content: object, **fields: Any) -> str:
        return self.line("user", message={"role": "user", "content": content}, **fields)

    def says(self, message: str, *blocks: object, stop: str | None = None, **fields: Any) -> str:
        """Write a line of the model's message; a block is text or (id, tool, input)."""
        content = [as_block(block) for block in blocks]
        body: dict[str, Any] = {
            "id": message,
            "role": "assistant",
            "model": "m-1",
            "content": content,
        }
        usage = fields.pop("usage", {"input_tokens": 10, "output_tokens": 5})
        body |= {"stop_reason": stop, "usage": usage}
        return self.line("assistant", message=body, **fields)

    def result(self, call: str, content: object, *, error: bool = False, **fields: Any) -> str:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": content}
        block |= {"is_error": True} if error else {}
        return self.line("user", message={"role": "user", "content": [block]}, **fields)


def as_block(block: object) -> object:
    """Expand the short form of a block."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, tuple):
        return {"type": "tool_use", "id": block[0], "name": block[1], "input": block[2]}
    return block


def items(path: Path, cursor: Cursor | None = None) -> list[Any]:
    """The items of a file's first conversation."""
    found = next(iter(FORMAT.conversations(path)))
    return list(FORMAT.read(found, cursor, None))


def items_of_type(kind: type, told: list[Any]) -> list[Any]:
    return [item for item in told if isinstance(item, kind)]


def import_files(store: Any, *paths: Path, at_rest: bool = True) -> Report:
    """Import files in the given order; `at_rest`: nothing more is expected in them."""
    report = Report()
    for path in paths:
        for found in FORMAT.conversations(path):
            import_conversation(store.port, store.context, FORMAT, found, report, at_rest=at_rest)
    return report


def view(store: Any, session: str = SESSION) -> Any:
    talk = Conversation(source="claude-code", id=session)
    return SessionView(store.port, talk.session)


def kinds(seen: Any) -> list[str]:
    return [commit.kind for commit in seen.log() if commit.kind != "scratch"]


def prompts(seen: Any) -> list[Any]:
    return [commit.value("input") for commit in seen.log() if commit.kind == "turn"]
