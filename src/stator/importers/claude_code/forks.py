"""Which Claude Code session another was forked from, and what they share.

A fork is a file of its own that begins with copies of its parent's lines. Some programs write
`forkedFrom` on them. The command line tool (`--fork-session`) writes nothing of the kind: the copies
have their `uuid`, the fork's `sessionId`, and all of them one `promptId`, that of the first new
prompt. So two prompts with different texts and one `promptId` give a fork away; its parent is the file
beside it that has its first line.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stator.errors import InvalidInput
from stator.importers.claude_code.lines import prompt_text
from stator.importers.reading.jsonl import lines, open_plain, parsed

LOOKED_AT = 16 * 2**20
"""Bytes at the start of a file in which a second prompt is looked for."""
BESIDE_MAX = 2_000
"""Files beside a fork that are looked into."""
SHARED_MAX = 400
"""Ids of shared items that are named: the last of them say where a fork begins."""


def parent_of(path: Path, session: str) -> tuple[str, str]:
    """(the session a file was forked from, the first line they share); ("", ""): it is no fork, or
    nobody can say of what."""
    above, line, is_fork = _marks(path, session)
    return (_beside(path, line), line) if is_fork and not above else (above, line)


def _marks(path: Path, session: str) -> tuple[str, str, bool]:
    """(the session a file says it was forked from, the first line they share, whether it is a fork)."""
    first = ""
    texts: dict[str, str] = {}
    for said in _objects(path, most=LOOKED_AT):
        uuid = said.get("uuid")
        if not isinstance(uuid, str):
            continue
        forked = said.get("forkedFrom")
        if isinstance(forked, dict):
            above, line = forked.get("sessionId"), forked.get("messageUuid")
            if isinstance(above, str) and above != session:
                return above, line if isinstance(line, str) else "", True
        first = first or uuid
        prompt = said.get("promptId")
        text = prompt_text(said)
        if text is None:
            continue
        if not isinstance(prompt, str):  # a version from before there were prompt ids
            break
        if texts.setdefault(prompt, text) != text:
            return "", first, True
        if len(texts) > 1:
            break
    return "", "", False


def copied(path: Path, parent: str) -> dict[str, str]:
    """The prompt ids that copied lines have in the parent, by the lines' names."""
    above = path.with_name(f"{parent}.jsonl")
    if not parent or not above.is_file():
        return {}
    return {
        said["uuid"]: said["promptId"]
        for said in _objects(above)
        if isinstance(said.get("uuid"), str)
        and isinstance(said.get("promptId"), str)
        and prompt_text(said) is not None
    }


def shared(path: Path, parent: str) -> frozenset[str]:
    """Ids of the last items that a fork and its parent share: answers and calls keep theirs."""
    above = path.with_name(f"{parent}.jsonl")
    if not above.is_file():
        marked = (said for said in _objects(path) if isinstance(said.get("forkedFrom"), dict))
        return frozenset(_last(marked))
    names = {hash(said.get("uuid")) for said in _objects(above)}
    return frozenset(_last(said for said in _objects(path) if hash(_origin(said)) in names))


def _origin(said: dict[str, Any]) -> Any:
    forked = said.get("forkedFrom")
    name = forked.get("messageUuid") if isinstance(forked, dict) else said.get("uuid")
    return name if isinstance(name, str) else None


def _last(copies: Iterator[dict[str, Any]]) -> deque[str]:
    found: deque[str] = deque(maxlen=SHARED_MAX)
    for said in copies:
        message = said.get("message")
        if not isinstance(message, dict) or not isinstance(said.get("uuid"), str):
            continue
        identifier, content = message.get("id"), message.get("content")
        if isinstance(identifier, str) and identifier:
            found.append(identifier)
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result"):
                name = block.get("id") or block.get("tool_use_id")
                found.extend([name] if isinstance(name, str) else [])
    return found


def _beside(path: Path, first: str) -> str:
    """The session beside a fork that has its first line. Where there are several, all but one are forks
    too, and one that was worked in since is not the oldest: it is one that is no fork itself."""
    needle = first.encode("utf-8", "surrogatepass")
    holders = []
    for place, other in enumerate(sorted(path.parent.glob("*.jsonl"))):
        if place >= BESIDE_MAX:
            break
        if other.name != path.name and not other.is_symlink() and _holds(other, needle):
            is_fork = _marks(other, other.stem)[2]
            holders.append((is_fork, other.stat().st_mtime_ns, other.stem))
    return min(holders)[2] if holders else ""


def _holds(path: Path, needle: bytes) -> bool:
    try:
        with (
            open_plain(str(path)) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view,
        ):
            return view.find(needle) >= 0
    except (InvalidInput, OSError, ValueError):  # an empty file cannot be mapped
        return False


def _objects(path: Path, most: int = 0) -> Iterator[dict[str, Any]]:
    for line in lines(str(path)):
        said, _ = parsed(line)
        if said is not None:
            yield said
        if most and line.end > most:
            return
