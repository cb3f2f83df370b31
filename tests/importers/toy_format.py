"""A transcript format for tests: every line is an item, the first line describes the conversation.

An answer is held back until the next line, as a reader does that cannot know whether the answer has another part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import parse_line, read_lines
from stator.importers.reading.line_boundary import whole_line
from stator.model.exchange.items import (
    Answered,
    Called,
    Compacted,
    Conversation,
    Cursor,
    Item,
    Noted,
    Planned,
    Prompted,
    Returned,
    Step,
    TurnEnded,
)

MADE: dict[str, type[Item]] = {
    kind.__name__: kind
    for kind in (Prompted, Answered, Called, Returned, Noted, Compacted, Planned, TurnEnded)
}


class ToyFormat:
    """See `importers.format.Format`."""

    name = "cursor"
    mapper = 1

    def recognizes(self, path: Path, begin: bytes) -> bool:
        return begin.startswith(b'{"talk"')

    def conversations(self, path: Path) -> list[FoundConversation]:
        about = json.loads(path.read_text().splitlines()[0])
        talk = Conversation(
            source="cursor", id=about["talk"], name="what the transcript calls it",
            fork_of=about.get("fork", ""), fork_ids=frozenset(about.get("shared", ())),
        )  # fmt: skip
        stat = path.stat()
        return [
            FoundConversation(
                path=str(path), conversation=talk, size=stat.st_size,
                changed=stat.st_mtime_ns // 1000,
            )
        ]  # fmt: skip

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Any,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        here = cursor or Cursor(offset=0)
        held: dict[str, Any] | None = here.state.get("held")
        offset, number = here.offset, here.line
        for line in read_lines(found.path, offset=offset, number=number):
            if line.is_cut:
                break
            offset, number = line.end, line.number
            value, _ = parse_line(line)
            if value is None or "item" not in value:
                continue
            if held is not None:
                yield from whole_line(_items(held), number)
                held = None
            if value["item"] == "Answered":
                held = value
            else:
                yield from whole_line(_items(value), number)
        yield Cursor(offset=offset, line=number, state={"held": held})
        if at_rest and held is not None:
            yield from whole_line(_items(held), number)
            yield Cursor(offset=offset, line=number, state={"held": None})

    def default_paths(self, home: Path, environ: Any) -> list[Path]:
        return []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return True


def _items(value: dict[str, Any]) -> Iterator[Item]:
    fields = {name: found for name, found in value.items() if name != "item"}
    if "steps" in fields:
        fields["steps"] = tuple(msgspec.convert(fields["steps"], list[Step]))
    yield MADE[value["item"]](**fields)


class ToyTranscript:
    """A file of that format, which grows."""

    def __init__(self, path: Path, talk: str = "c1", **about: Any) -> None:
        self.path = path
        path.write_text(json.dumps({"talk": talk, **about}) + "\n")

    def add(self, item: str, **fields: Any) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps({"item": item, **fields}) + "\n")

    def turn(self, number: int = 1, *, whole: bool = True) -> None:
        self.add("Prompted", id=f"turn/g{number}", content="do it")
        self.add("Answered", id=f"a{number}", reply="I will")
        self.add("Called", id=f"t{number}", tool="Shell")
        if whole:
            self.add("Returned", id=f"t{number}", output="ok")

    def lines(self, *inputs: dict[str, Any]) -> list[dict[str, Any]]:
        """Hook lines that name this file."""
        return [{**line, "transcript_path": str(self.path)} for line in inputs]
