"""Finds out which Claude Code session another was forked from, and which items they share.

A fork is a file that begins with copies of its parent's lines. Some programs mark the copies with
`forkedFrom`. The command line tool (`--fork-session`) does not: the copies keep their `uuid`, get
the fork's `sessionId`, and all get the same `promptId`, that of the first new prompt. So two
prompts with different texts and the same `promptId` reveal a fork; its parent is the file beside it
that contains its first line.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stator.errors import InvalidInput
from stator.importers.claude_code.line_fields import prompt_text
from stator.importers.reading.jsonl import open_regular_file, parse_line, read_lines

SEARCHED_BYTES = 16 * 2**20
"""The bytes at the start of a file in which a second prompt is searched for."""
SIBLINGS_MAX = 2_000
"""The most files beside a fork that are searched."""
SHARED_MAX = 400
"""The most ids of shared items that are returned; the last of them show where the fork begins."""


def parent_of(path: Path, session: str) -> tuple[str, str]:
    """The session a file was forked from, and the first line they share; ("", "") if it is not a
    fork or its parent is unknown."""
    origin, line, is_fork = _fork_marks(path, session)
    return (_parent_beside(path, line), line) if is_fork and not origin else (origin, line)


def _fork_marks(path: Path, session: str) -> tuple[str, str, bool]:
    """The session that a file names as its origin, the first line they share, and whether the file
    is a fork."""
    first = ""
    texts: dict[str, str] = {}
    for record in _objects(path, most=SEARCHED_BYTES, skip=_is_result):
        uuid = record.get("uuid")
        if not isinstance(uuid, str) or record.get("isSidechain") is True:
            continue
        forked = record.get("forkedFrom")
        if isinstance(forked, dict):
            origin, line = forked.get("sessionId"), forked.get("messageUuid")
            if isinstance(origin, str) and origin != session:
                return origin, line if isinstance(line, str) else "", True
        first = first or uuid
        prompt = record.get("promptId")
        text = prompt_text(record)
        if text is None:
            continue
        if not isinstance(prompt, str):  # written by a version without prompt ids
            break
        if texts.setdefault(prompt, text) != text:
            return "", first, True
        if len(texts) > 1:
            break
    return "", "", False


def copied_prompt_ids(path: Path, parent: str) -> dict[str, str]:
    """The prompt ids that copied lines have in the parent, by the uuid of the line.

    A turn's id is made from its prompt id. The copies have another prompt id than the originals, so
    without this the fork's turns would not be recognized as the parent's.
    """
    origin = path.with_name(f"{parent}.jsonl")
    if not parent or not origin.is_file():
        return {}
    return {
        record["uuid"]: record["promptId"]
        for record in _objects(origin)
        if isinstance(record.get("uuid"), str)
        and isinstance(record.get("promptId"), str)
        and prompt_text(record) is not None
    }


def shared_ids(path: Path, parent: str) -> frozenset[str]:
    """Ids of the last items that a fork and its parent share; answers and calls keep their ids in a
    copy."""
    origin = path.with_name(f"{parent}.jsonl")
    if not origin.is_file():
        marked = (record for record in _objects(path) if isinstance(record.get("forkedFrom"), dict))
        return frozenset(_last_ids(marked))
    names = {hash(record.get("uuid")) for record in _objects(origin)}
    return frozenset(
        _last_ids(record for record in _objects(path) if hash(_origin(record)) in names)
    )


def _origin(record: dict[str, Any]) -> Any:
    """The uuid of the line that a line is a copy of, or its own."""
    forked = record.get("forkedFrom")
    name = forked.get("messageUuid") if isinstance(forked, dict) else record.get("uuid")
    return name if isinstance(name, str) else None


def _last_ids(copies: Iterator[dict[str, Any]]) -> deque[str]:
    """The ids of the answers and calls in the last copied lines."""
    found: deque[str] = deque(maxlen=SHARED_MAX)
    for record in copies:
        message = record.get("message")
        if not isinstance(message, dict) or not isinstance(record.get("uuid"), str):
            continue
        identifier, content = message.get("id"), message.get("content")
        if isinstance(identifier, str) and identifier:
            found.append(identifier)
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result"):
                name = block.get("id") or block.get("tool_use_id")
                found.extend([name] if isinstance(name, str) else [])
    return found


def _parent_beside(path: Path, first: str) -> str:
    """The session beside a fork that contains its first line.

    If several do, all but one are forks of it too. The original is the one that is not a fork
    itself; its age does not matter, because it may have been continued after the fork.
    """
    needle = first.encode("utf-8", "surrogatepass")
    holders = []
    for place, other in enumerate(sorted(path.parent.glob("*.jsonl"))):
        if place >= SIBLINGS_MAX:
            break
        if other.name != path.name and not other.is_symlink() and _contains(other, needle):
            is_fork = _fork_marks(other, other.stem)[2]
            holders.append((is_fork, other.stat().st_mtime_ns, other.stem))
    return min(holders)[2] if holders else ""


def _contains(path: Path, needle: bytes) -> bool:
    """Whether a file contains some bytes."""
    try:
        with (
            open_regular_file(str(path)) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view,
        ):
            return view.find(needle) >= 0
    except (InvalidInput, OSError, ValueError):  # an empty file cannot be mapped
        return False


def _is_result(data: bytes) -> bool:
    """Whether a line may be left out of a search for prompts and marks of a fork: results are long, and many."""
    return b'"tool_use_id"' in data and b'"forkedFrom"' not in data


def _objects(
    path: Path, most: int = 0, skip: Callable[[bytes], bool] = lambda data: False
) -> Iterator[dict[str, Any]]:
    """The objects in a file, up to about `most` bytes (0: all of it)."""
    for line in read_lines(str(path)):
        record = None if skip(line.data) else parse_line(line)[0]
        if record is not None:
            yield record
        if most and line.end > most:
            return
