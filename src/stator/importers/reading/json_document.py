"""Reads transcripts that are one JSON document, up to a size limit.

A document that is cut off, by an interrupted copy or a full disk, is read up to its last complete
record.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.jsonl import CUT_OFF, decode_json, read_whole
from stator.model.exchange.items import Conversation, Skipped

DOCUMENT_MAX = 256 * 2**20
"""The most bytes of a document."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""A string, possibly cut by the end of the file, or a character that opens, closes or separates."""
TIMES_UNKNOWN = {"times": "unknown"}
"""The label of a session whose source has no times."""
_CLOSING = {b"{": b"}", b"[": b"]"}


class JsonDocument(msgspec.Struct, frozen=True):
    """The value in a file, and a note if its end is missing."""

    value: Any
    skipped: tuple[Skipped, ...] = ()


def single_conversation(path: Path, conversation: Conversation, *, first: int) -> FoundConversation:
    """The conversation of a file that holds only one. `first` is the earliest time in it; 0 if it has none."""
    stat = path.stat()
    changed = stat.st_mtime_ns // 1000
    return FoundConversation(
        path=str(path), conversation=dated(conversation, first, changed), changed=changed, size=stat.st_size
    )  # fmt: skip


def dated(conversation: Conversation, first: int, changed: int) -> Conversation:
    """A conversation that says how old it is. Without any time in the file, all that is known is that
    it took place before the file last changed."""
    labels = conversation.labels if first else {**conversation.labels, **TIMES_UNKNOWN}
    return msgspec.structs.replace(conversation, labels=labels, dated=first or changed)


def read_document(path: str, progress: Progress | None = None) -> JsonDocument:
    """Read the document in a file; raise `InvalidInput` if the file does not begin with one."""
    return decode_document(read_whole(path, DOCUMENT_MAX, progress), path)


def decode_document(data: bytes, path: str) -> JsonDocument:
    """Decode a document."""
    if not data.strip():
        raise InvalidInput(f"{path} is empty")
    try:
        return JsonDocument(decode_json(data))
    except ValueError as error:
        reason = str(error)
    try:
        value = decode_json(_up_to_the_last_record(data))
    except ValueError:
        raise InvalidInput(f"{path} is not JSON: {reason[:200]}") from None
    line = data.count(b"\n") + 1
    return JsonDocument(value, (Skipped(line=line, why=CUT_OFF),))


def _up_to_the_last_record(data: bytes) -> bytes:
    """The document, closed after its last complete record.

    The records are the elements of the outermost list, or of a list in a field of the outermost
    object. Anything deeper belongs to a record, and a record is never cut in the middle.
    """
    open_: list[bytes] = []
    deepest = 1 if data.lstrip()[:1] == b"[" else 2
    end, closing = 0, b""
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in _CLOSING:
            open_.append(_CLOSING[mark])
        elif mark in (b"}", b"]") and (not open_ or open_.pop() != mark):
            break
        if mark[:1] != b'"' and mark not in _CLOSING and len(open_) <= deepest:
            end = token.start() if mark == b"," else token.end()
            closing = b"".join(reversed(open_))
    return data[:end] + closing
