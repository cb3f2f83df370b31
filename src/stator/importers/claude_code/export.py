"""A session as a transcript that Claude Code resumes: a new file, in which every call has a result.

What is written is what a model would be sent next (`model.window.transcript`): of a call that nobody knows the
outcome of, the result says just that. Ids are made from the session and its head, so that the same
state is always the same file. Pure.
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
"""How a text begins that we put in the user's place."""
FOLDER_MAX = 200
"""Characters of a folder's name; of a longer one only the program itself knows the end."""
_SPACE = UUID("5e6b1c1e-3a52-5c7e-9d7e-2f6a0c0d5b11")
_DASHED = re.compile(r"[^a-zA-Z0-9]")


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a transcript is written from."""

    session: str
    """The session as we name it, and the place in its log it is written as of."""
    seq: int
    cwd: str
    """The folder the agent will work in."""
    at: int
    """When it is said to have happened, in µs."""
    model: str = ""
    version: str = ""
    branch: str = ""

    @property
    def id(self) -> str:
        """The new session's id."""
        return str(uuid5(_SPACE, f"{self.session}@{self.seq}"))


def lines(about: Written, messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The transcript's lines, chained; `messages` as a provider is sent them."""
    above: str | None = None
    begun = datetime.fromtimestamp(about.at / 1_000_000, UTC)
    parts = (part for message in messages for part in _parts(message))
    for number, (message, is_note) in enumerate(parts):
        name = str(uuid5(_SPACE, f"{about.id}/{number}"))
        moment = begun + timedelta(milliseconds=number)
        asked = message["role"] == "assistant"
        yield {
            "parentUuid": above,
            "isSidechain": False,
            "userType": "external",
            "cwd": about.cwd,
            "sessionId": about.id,
            "version": about.version or "2.0.0",
            "gitBranch": about.branch,
            "type": message["role"],
            "message": _answer(about, number, message) if asked else message,
            **({"isMeta": True} if is_note else {}),
            "uuid": name,
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        above = name


def _parts(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """A message as the program writes it: an answer whole, of the user each result and each text by
    itself; and whether it is one that the user did not write."""
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


def _answer(about: Written, number: int, message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    asks = any(block.get("type") == "tool_use" for block in content if isinstance(block, dict))
    return {
        "id": f"msg_{UUID(about.id).hex[:16]}{number}",
        "type": "message",
        "role": "assistant",
        "model": about.model or "unknown",
        "content": content,
        "stop_reason": "tool_use" if asks else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }


def folder_of(cwd: str) -> str:
    """The folder's name under which Claude Code looks for the sessions of a directory."""
    name = _DASHED.sub("-", cwd)
    if len(name) > FOLDER_MAX:
        raise InvalidInput(
            "the path of this folder is too long to say where Claude Code keeps its sessions",
            hint="name the file to write: -o FILE",
            path="$.cwd",
        )
    return name
