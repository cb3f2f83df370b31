"""Images and other files inside a transcript: what they were is kept, their bytes are not.

A picture is most of a transcript's size and says nothing to whoever searches or compares it. Its
media type, size and digest tell whether it is the same as another.
"""

from __future__ import annotations

import re
from binascii import Error
from binascii import a2b_base64 as unpacked
from typing import Any

from stator.model.exchange.items import digest_of

SMALL = 256
"""Characters of packed bytes that may stay: an icon, a token."""
DEEP = 60
"""Levels down to which a value is looked at."""
_DATA_URL = re.compile(r"data:([\w.+/-]{0,100})[^,]{0,200};base64,")


def without_bytes(value: Any, depth: int = 0) -> Any:
    """A value with a note in place of each large file that is packed into it as base64."""
    if depth > DEEP:
        return value
    if isinstance(value, str):
        return _without_urls(value)
    if isinstance(value, list):
        return [without_bytes(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    packed = _packed(value)
    if packed is not None:
        return {"type": "text", "text": note(*packed)}
    shown = {key: without_bytes(item, depth + 1) for key, item in value.items()}
    return _as_text(value, shown)


def note(media: str, data: str) -> str:
    """What is kept of a file: `[image/png, 1,204 bytes, sha256 0f3a…, not kept]`."""
    raw = bytes_of(data)
    return f"[{media or 'data'}, {len(raw):,} bytes, sha256 {digest_of(raw)}, not kept]"


def bytes_of(data: str) -> bytes:
    """What base64 holds, or the text itself where it holds nothing."""
    try:
        return unpacked(data)
    except (Error, ValueError):
        return data.encode("utf-8", "surrogatepass")


def _packed(block: dict[str, Any]) -> tuple[str, str] | None:
    """The media type and base64 of a block of Anthropic's or pi's kind."""
    source = block.get("source")
    inner = source if isinstance(source, dict) and source.get("type") == "base64" else block
    data = inner.get("data")
    media = inner.get("media_type") or inner.get("mimeType")
    if isinstance(data, str) and isinstance(media, str) and len(data) > SMALL:
        return media, data
    return None


def _as_text(block: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """A block that held nothing but a file says so in words a provider takes."""
    for field in ("image", "image_url", "url", "audio", "video", "document"):
        was = block.get(field)
        was = was.get("url") if isinstance(was, dict) else was
        if isinstance(was, str) and len(was) > SMALL and _DATA_URL.match(was):
            return {"type": "text", "text": _without_urls(was)}
    return shown


def _without_urls(words: str) -> str:
    if len(words) <= SMALL:
        return words
    found = _DATA_URL.match(words)
    return note(found[1], words[found.end() :]) if found else words
