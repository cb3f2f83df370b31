"""Bounds recorded text for a page: its beginning, how much there is, and where the rest is fetched."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stator.model.log.commit import Commit, Gone, Large, gone
from stator.model.values.json_text import clean, shown
from stator.surfaces.cli.render.record_line import size, value_of

TEXT_MAX = 4096
"""Characters of a text that are shown at once."""
CHUNK = 65_536
"""Characters that are fetched at a time beyond that."""
LINES_MAX = 60


class ShownText(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a text that is shown, and the address of the rest (empty at its end)."""

    text: str
    rest: str = ""
    size: str = ""
    """How much there is in all, in words."""


def text_address(session: str, seq: int, field: str) -> str:
    return f"/s/{session}/text/{seq}/{field}"


def of_value(
    session: str, commit: Commit, field: str, text: str, most: int = TEXT_MAX
) -> ShownText:
    """A text of a commit's content, folded where it is long."""
    item = commit.content.get(field)
    if isinstance(item, Large):
        words = f"{size(item.size)} of text"
        return ShownText(text="", rest=text_address(session, commit.seq, field), size=words)
    if isinstance(item, Gone):
        return ShownText(text=gone(item.by))
    cut = text[:most]
    lines = cut.split("\n", LINES_MAX)
    if len(lines) > LINES_MAX and most <= TEXT_MAX:
        cut = "\n".join(lines[:LINES_MAX])
    if len(cut) == len(text):
        return ShownText(text=text)
    rest = text_address(session, commit.seq, field)
    return ShownText(text=cut, rest=rest, size=f"{size(len(text))}")


def of_field(session: str, commit: Commit, field: str, most: int = TEXT_MAX) -> ShownText:
    """A content field of a commit as text: text as it is, anything else as JSON."""
    if isinstance(commit.content.get(field), (Large, Gone)):
        return of_value(session, commit, field, "", most)
    return of_value(session, commit, field, readable(value_of(commit, field)), most)


def readable(value: Any) -> str:
    """A recorded value as a person reads it: text, the texts of blocks, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("message"), str) and len(value) <= 2:
        return str(value["message"])
    if isinstance(value, list) and value and all(_is_block(one) for one in value):
        return "\n".join(str(one["text"]) for one in value)
    if isinstance(value, (dict, list)):
        return json.dumps(clean(value), ensure_ascii=False, indent=2)
    return "" if value is None else shown(value)


def _is_block(one: Any) -> bool:
    return isinstance(one, dict) and one.get("type") == "text" and isinstance(one.get("text"), str)
