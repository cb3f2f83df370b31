"""Small readings of foreign values, whose shapes nobody promises: times, texts, and what is too bulky to keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from stator.model.jsontext import utf8
from stator.model.reply import texts

BULKY = 512
"""Characters from which packed bytes in a text are not kept."""
NAME_MAX = 80
_PACKED = re.compile(r"data:([a-zA-Z0-9.+/-]{0,80})[a-zA-Z0-9=;.+-]{0,80};base64,")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(value: Any) -> int:
    """A time in µs, from ISO text; 0 where it is none."""
    if not isinstance(value, str) or len(value) > 64:
        return 0
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return 0
    try:
        gone = (when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH
    except OverflowError:
        return 0
    return max(0, (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds)


def text(value: Any) -> str:
    """A text, or none."""
    return value if isinstance(value, str) else ""


def record(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def words(content: Any) -> str:
    """What content says in words: text, or blocks of any dialect."""
    if isinstance(content, list):
        return "".join(_words(content))
    return text(content)


def _words(content: list[Any]) -> Iterator[str]:
    for block in content:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict):
            said = block.get("text") if "type" not in block else None
            yield from [said] if isinstance(said, str) else texts([block])


def lean(value: Any, depth: int = 0) -> Any:
    """The value without packed bytes: of those, only what they are, how many and their digest."""
    if depth > 60:
        return value
    if isinstance(value, str):
        found = _PACKED.match(value) if len(value) > BULKY else None
        return told(value[found.end() :], found[1]) if found else value
    if isinstance(value, list):
        return [lean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        media = value.get("mimeType") or value.get("media_type")
        if isinstance(media, str) and len(text(value.get("data"))) > BULKY:
            value = {**value, "data": told(value["data"], media)}
        return {key: lean(item, depth + 1) for key, item in value.items()}
    return value


def told(packed: str, media: str = "") -> str:
    """What is kept of packed bytes."""
    digest = sha256(packed.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"[{media or 'bytes'}: {len(packed) * 3 // 4} bytes, not kept, {digest}]"


def title(prompt: str) -> str:
    """A name made from what was asked first."""
    line = " ".join(utf8(prompt[:2_000]).split())
    return line if len(line) <= NAME_MAX else line[: NAME_MAX - 1] + "…"
