"""Reads the tool definitions a server lists: their digests, their effects, and suspicious texts in them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from stator.errors import InvalidInput
from stator.model.log.commit import Source
from stator.model.log.shown_text import cut_short
from stator.model.records.types import Effect
from stator.model.values import canon
from stator.model.values.escape import visible
from stator.surfaces.proxy.classify import member

TOOLS_MAX = 2_000
DIGEST_DIGITS = 32
"""Hex digits of a definition's SHA-256; the same number as in the runtime's `tools` records."""
DEPTH_MAX = 40

_INSTRUCTIONS = re.compile(
    r"<\s*/?\s*(?:important|system|instructions?|secret|hidden)\s*>|<!--"
    r"|\b(?:ignore|disregard|forget)\b.{0,30}\b(?:previous|prior|above|earlier|other)\b.{0,30}"
    r"\b(?:instruction|prompt|rule|message|tool)"
    r"|\b(?:do not|don't|never|without)\b.{0,20}\b(?:tell|telling|mention|mentioning|inform|informing"
    r"|notify|notifying|reveal|revealing)\b.{0,30}\buser",
    re.IGNORECASE | re.DOTALL,
)
"""Phrases that address the model and exclude the user. A match is a reason to look, not a proof."""
_JOINED = re.compile("[\u200c\u200d]{2,}")
"""One joiner is part of ordinary words and emoji; several in a row can encode hidden text."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool, as its server describes it in tools/list."""

    name: str
    digest: str
    effect: Effect
    whole: Any
    source: Source = "tool"
    """Where its results come from."""
    suspicion: str = ""
    """What is suspicious about its texts; "" if nothing is."""


def definitions(result: Any) -> dict[str, ListedTool]:
    """Return the tools in a result of tools/list, by name."""
    listed = member(result, "tools")
    found: dict[str, ListedTool] = {}
    for tool in listed[:TOOLS_MAX] if isinstance(listed, list) else ():
        name = member(tool, "name")
        if not isinstance(name, str):
            continue
        try:
            data = canon.dumps(tool)
        except InvalidInput:
            # a definition without a canonical form still gets a digest, of its spelling
            data = repr(tool).encode("utf-8", "backslashreplace")
            tool = {"name": name, "not kept": "its definition has no canonical form"}
        digest = sha256(data).hexdigest()[:DIGEST_DIGITS]
        found[name] = ListedTool(
            name, digest, effect_of(tool), tool, source_of(tool), suspicion(tool)
        )
    return found


def effect_of(tool: Any) -> Effect:
    """Return a tool's effect from its annotations; a tool without any may write."""
    if member(tool, "annotations", "readOnlyHint") is True:
        return "read"
    return "idempotent" if member(tool, "annotations", "idempotentHint") is True else "write"


def source_of(tool: Any) -> Source:
    """Return where a tool's results come from: one that says that it deals with an open world may bring anything."""
    return "web" if member(tool, "annotations", "openWorldHint") is True else "tool"


def suspicion(tool: Any) -> str:
    """Describe the first hidden character or instruction to the model in a definition; "" if it has neither."""
    for where, text in _texts(tool, "$", 0):
        hidden = [char for char in text if _hides(char)] + _JOINED.findall(text)
        if hidden:
            return f"characters that do not show in {where}: {visible(''.join(hidden[:8]))}"
        if found := _INSTRUCTIONS.search(text):
            return f"instructions to the model in {where}: {visible(found[0])}"
    return ""


def _hides(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char not in "\n\r\t"
    return char not in "\u200c\u200d" and unicodedata.category(char)[0] == "C"


def _texts(value: Any, where: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict) and depth < DEPTH_MAX:
        for name, inner in value.items():
            yield from _texts(name, f"{where} (a name)", depth)
            yield from _texts(inner, f"{where}.{visible(cut_short(name, 40))}", depth + 1)
    elif isinstance(value, list) and depth < DEPTH_MAX:
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{where}[{index}]", depth + 1)
