"""A small transcript format for tests, and a command line in which it is the only format.

{"talk": "n1", "cwd": "/home/dev/shop", "name": "fix it", "parent": "", "fork": ""}
{"ask": "…", "id": "p1"}  {"say": "…"}  {"call": "c1", "file": "a.py"}  {"done": "c1"}
{"noise": "tick"}
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from stator.importers import conversation, registry
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import parse_line, read_lines
from stator.model.exchange.items import (
    Answered,
    Called,
    Conversation,
    Cursor,
    Item,
    Noise,
    Prompted,
    Returned,
    Skipped,
    Touch,
    Unknown,
)

AT = 1_700_000_000_000_000
"""The time of the first line; each line is a second later."""


class Notebook:
    name = "notebook"
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        return begin.lstrip().startswith(b'{"talk"')

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        about = json.loads(next(iter(read_lines(str(path)))).data)
        known = os.stat(path)
        conversation_of_file = Conversation(
            source="notebook",
            id=about["talk"],
            name=about.get("name", ""),
            cwd=about.get("cwd", ""),
            parent=about.get("parent", ""),
        )
        yield FoundConversation(
            path=str(path),
            conversation=conversation_of_file,
            changed=known.st_mtime_ns // 1000,
            size=known.st_size,
        )

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        here = cursor or Cursor(offset=0)
        for line in read_lines(found.path, offset=here.offset, number=here.line, progress=progress):
            if line.is_cut:
                break
            said, problem = parse_line(line)
            if said is not None and "ask" in said:
                yield here
            here = Cursor(offset=line.end, line=line.number)
            if said is not None:
                yield self._item(said, f"line/{line.number}", AT + line.number * 1_000_000)
            elif problem:
                yield Skipped(line=line.number, why=problem)
        yield here

    def _item(self, said: dict[str, str], name: str, at: int) -> Item:
        match said:
            case {"talk": _}:
                return Noise(kind="talk")
            case {"noise": kind}:
                return Noise(kind=kind)
            case {"ask": text}:
                return Prompted(id=said.get("id", name), at=at, content=text)
            case {"say": text}:
                return Answered(id=name, at=at, reply=text)
            case {"call": call}:
                return Called(id=call, at=at, tool="edit", input={"path": said.get("file", "")})
            case {"done": call}:
                files = (Touch(path=said["file"], op="modified"),) if "file" in said else ()
                return Returned(id=call, at=at, output="done", files=files)
        return Unknown(id=name, at=at, raw=said)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        yield home / ".notebook"

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = Notebook()


def install() -> None:
    """Make this the only format."""
    module = ModuleType("stator.importers.notebook")
    module.__dict__["FORMAT"] = FORMAT
    sys.modules["stator.importers.notebook"] = module
    registry.MODULES.clear()
    registry.MODULES["notebook"] = "notebook"


def write_conversation(path: Path, *said: Any, id: str = "n1", **about: object) -> Path:
    """Write a conversation to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"talk": id, **about}, *said]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def turn_lines(number: int, *, size: int = 20, done: bool = True) -> list[dict[str, object]]:
    """The lines of a turn with one call."""
    rows: list[dict[str, object]] = [
        {"ask": f"do {number} " + "x" * size},
        {"say": "I will."},
        {"call": f"c{number}", "file": f"f{number}.py"},
    ]
    return [*rows, {"done": f"c{number}", "file": f"f{number}.py"}] if done else rows


if __name__ == "__main__":
    from stator.surfaces.cli.main import main

    install()
    # so that a conversation of a few hundred turns has several batches
    conversation.BATCH_ITEMS = 500
    sys.exit(main(sys.argv[1:]))
