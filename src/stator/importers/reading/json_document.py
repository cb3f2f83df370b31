"""Transcripts that are one JSON document: read as a whole, up to a limit, and as far as they go.

A document whose end is missing is read up to the last record that is all there: what an interrupted
copy or a full disk left is a conversation all the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.format import Found, Progress
from stator.importers.reading.jsonl import content, decode
from stator.model.exchange.items import Conversation, Skipped

DOCUMENT_MAX = 256 * 2**20
"""Bytes of a document that is read as a whole."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""A text, also one that the end of the file cuts, or a mark that opens, closes or separates."""
_CLOSING = {b"{": b"}", b"[": b"]"}


class Document(msgspec.Struct, frozen=True):
    """What a file holds, and what is to be said of what it does not."""

    value: Any
    skipped: tuple[Skipped, ...] = ()


def only(path: Path, talk: Conversation) -> Found:
    """The one conversation in a file."""
    stat = path.stat()
    changed = stat.st_mtime_ns // 1000
    return Found(path=str(path), conversation=talk, changed=changed, size=stat.st_size)


def document(path: str, progress: Progress | None = None) -> Document:
    """The document in a file; `InvalidInput` where none begins in it."""
    return document_in(content(path, DOCUMENT_MAX, progress), path)


def document_in(data: bytes, path: str) -> Document:
    """The document some bytes hold."""
    if not data.strip():
        raise InvalidInput(f"{path} is empty")
    try:
        return Document(decode(data))
    except ValueError as error:
        reason = str(error)
    try:
        value = decode(_up_to_the_last_record(data))
    except ValueError:
        raise InvalidInput(f"{path} is not JSON: {reason[:200]}") from None
    line = data.count(b"\n") + 1
    return Document(value, (Skipped(line=line, why="cut off"),))


def _up_to_the_last_record(data: bytes) -> bytes:
    """The document closed behind the last record that is whole.

    Records stand in a list that is the document, or in one of its fields; what stands deeper belongs
    to a record, and a part of one is not taken for the whole.
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
