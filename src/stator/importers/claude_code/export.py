"""Writes a session as a new transcript that Claude Code can resume, in which every call has a
result.

The content is what a model would be sent next (`model.window.transcript`). The result of a call
whose outcome is unknown says so. Ids are derived from the session and its head, so that the same
state always yields the same file. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import msgspec

from stator.errors import InvalidInput

NOTE = "[note, not from the user"
"""The beginning of texts that we wrote and not the user."""
FOLDER_MAX = 200
"""The most characters of a folder's name; Claude Code shortens longer names in a way only it knows.
"""
_SPACE = UUID("5e6b1c1e-3a52-5c7e-9d7e-2f6a0c0d5b11")
_DASHED = re.compile(r"[^a-zA-Z0-9]")


class ExportSource(msgspec.Struct, frozen=True, kw_only=True):
    """The session that is exported, and the facts that each line of the transcript repeats."""

    session: str
    """The id of the exported session; `seq` is the position in its log up to which it is exported.
    """
    seq: int
    cwd: str
    """The folder in which the agent will work."""
    at: int
    """The time of the first line, in µs."""
    model: str = ""
    version: str = ""
    branch: str = ""

    @property
    def id(self) -> str:
        """The id of the new Claude Code session."""
        return str(uuid5(_SPACE, f"{self.session}@{self.seq}"))


def lines(source: ExportSource, messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of the transcript, each linked to the one before; `messages` are in the provider's
    form."""
    previous: str | None = None
    start = datetime.fromtimestamp(source.at / 1_000_000, UTC)
    parts = (part for message in messages for part in _parts(message))
    for number, (message, is_note) in enumerate(parts):
        name = str(uuid5(_SPACE, f"{source.id}/{number}"))
        moment = start + timedelta(milliseconds=number)
        asked = message["role"] == "assistant"
        yield {
            "parentUuid": previous,
            "isSidechain": False,
            "userType": "external",
            "cwd": source.cwd,
            "sessionId": source.id,
            "version": source.version or "2.0.0",
            "gitBranch": source.branch,
            "type": message["role"],
            "message": _answer(source, number, message) if asked else message,
            **({"isMeta": True} if is_note else {}),
            "uuid": name,
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        previous = name


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Split a message as Claude Code writes it: an answer stays whole, and each result and each
    text of the user gets a line of its own. The flag marks texts that the user did not write."""
    content = message["content"]
    if message["role"] == "assistant" or not isinstance(content, list):
        yield message, False
        return
    for block in content:
        if block.get("type") == "text":
            text = block["text"]
            yield {"role": "user", "content": text}, text.startswith(NOTE)
        else:
            yield {"role": "user", "content": [block]}, False


def _answer(source: ExportSource, number: int, message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    asks = any(block.get("type") == "tool_use" for block in content if isinstance(block, dict))
    return {
        "id": f"msg_{UUID(source.id).hex[:16]}{number}",
        "type": "message",
        "role": "assistant",
        "model": source.model or "unknown",
        "content": content,
        "stop_reason": "tool_use" if asks else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def folder_of(cwd: str) -> str:
    """The name of the folder in which Claude Code stores the sessions of a directory."""
    name = _DASHED.sub("-", cwd)
    if len(name) > FOLDER_MAX:
        raise InvalidInput(
            "the path of this folder is too long to work out where Claude Code stores its sessions",
            hint="name the file to write: -o FILE",
            path="$.cwd",
        )
    return name
