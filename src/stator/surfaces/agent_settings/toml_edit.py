"""Adds a table to a TOML text at its end, and removes it; every other byte stays. Pure.

Our table follows exactly one line break of ours, and ends with one. So removing it gives the text back, whether
it ended with a line break or not.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def parse_toml(text: str) -> dict[str, Any]:
    """The document; ValueError says what is wrong and where."""
    return tomllib.loads(text.removeprefix("\ufeff"))


def append_table(text: str | None, name: str, values: dict[str, Any]) -> str:
    """The text with a table at its end; None for a file that does not exist."""
    newline = "\r\n" if text is not None and "\r\n" in text else "\n"
    # A JSON string, or a list of them, is TOML too.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    table = newline.join([f"[{name}]", *lines, ""])
    return table if text is None else text + newline + table


def cut_table(text: str, name: str) -> str | None:
    """The text without a table and its subtables; None if there was nothing else. Comments and blank lines
    after its last value stay."""
    found = _header(name).search(text)
    if found is None:
        return text
    following = _TABLE.search(text, found.end())
    end = following.start() if following else len(text)
    lines = text[found.start() : end].splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    before, after = text[: found.start()], text[found.start() + len("".join(lines)) :]
    if not before and not after.strip():
        return None
    gap = "\r\n" if before.endswith("\r\n") else "\n" if before.endswith("\n") else ""
    before = before.removesuffix(gap)
    if after and before and not before.endswith("\n"):
        before += gap
    return cut_table(before + after, name)


def _header(name: str) -> re.Pattern[str]:
    first, _, last = name.rpartition(".")
    return re.compile(
        rf"^\[{re.escape(first)}\.(?:{last}|\"{last}\")(?:\..*)?\][ \t]*(?:#.*)?\r?$", re.MULTILINE
    )
