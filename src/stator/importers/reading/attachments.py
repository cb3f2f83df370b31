"""Replaces images and other embedded files in a transcript by a short note.

Images make up most of a transcript's size and cannot be searched or compared as text. The note has
the media type, the size and the digest, which shows whether two images are the same.
"""

from __future__ import annotations

import re
from binascii import Error
from binascii import a2b_base64 as decode_base64
from typing import Any

from stator.model.exchange.items import digest_of

KEPT_MAX = 256
"""The most base64 characters that are kept, enough for an icon or a token."""
DEPTH_MAX = 60
"""The number of levels down to which a value is searched."""
_DATA_URL = re.compile(r"data:([\w.+/-]{0,100})[^,]{0,200};base64,")


def strip_attachments(value: Any, depth: int = 0) -> Any:
    """A value in which each large base64 file is replaced by a note."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, str):
        return _strip_data_url(value)
    if isinstance(value, list):
        return [strip_attachments(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    packed = _base64_of(value)
    if packed is not None:
        return {"type": "text", "text": attachment_note(*packed)}
    shown = {key: strip_attachments(item, depth + 1) for key, item in value.items()}
    return _as_text_block(value, shown)


def attachment_note(media: str, data: str) -> str:
    """The note for a file: `[image/png, 1,204 bytes, sha256 0f3a…, not kept]`."""
    raw = decoded_bytes(data)
    return f"[{media or 'data'}, {len(raw):,} bytes, sha256 {digest_of(raw)}, not kept]"


def decoded_bytes(data: str) -> bytes:
    """The bytes that base64 text holds, or the bytes of the text itself if it is not base64."""
    try:
        return decode_base64(data)
    except (Error, ValueError):
        return data.encode("utf-8", "surrogatepass")


def _base64_of(block: dict[str, Any]) -> tuple[str, str] | None:
    """The media type and base64 of a block as Anthropic and pi write it."""
    source = block.get("source")
    inner = source if isinstance(source, dict) and source.get("type") == "base64" else block
    data = inner.get("data")
    media = inner.get("media_type") or inner.get("mimeType")
    if isinstance(data, str) and isinstance(media, str) and len(data) > KEPT_MAX:
        return media, data
    return None


def _as_text_block(block: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
    """Turn a block that only held a file into a text block, which every provider accepts."""
    for field in ("image", "image_url", "url", "audio", "video", "document"):
        was = block.get(field)
        was = was.get("url") if isinstance(was, dict) else was
        if isinstance(was, str) and len(was) > KEPT_MAX and _DATA_URL.match(was):
            return {"type": "text", "text": _strip_data_url(was)}
    return shown


def _strip_data_url(words: str) -> str:
    if len(words) <= KEPT_MAX:
        return words
    found = _DATA_URL.match(words)
    return attachment_note(found[1], words[found.end() :]) if found else words
