"""What is said, as text: out of content of any shape, and free of what redaction may have taken out."""

from __future__ import annotations

from typing import Any

from stator.importers.reading.fields import text
from stator.model.log.redact import Redactor, placeholder_pattern
from stator.model.window.reply import texts


def words(content: Any) -> str:
    """What content says in words: a text, or blocks of any dialect."""
    if not isinstance(content, list):
        return text(content)
    return "".join(part for block in content for part in _words(block))


def _words(block: Any) -> list[str]:
    if isinstance(block, dict) and "type" not in block:
        block = {"type": "text", **block}
    return (
        [block]
        if isinstance(block, str)
        else list(texts([block] if isinstance(block, dict) else []))
    )


def nameable(said: str) -> str:
    """A text from which an id can be made: the same whether secrets were taken out of it or not."""
    return placeholder_pattern.sub("‹secret›", Redactor(b"name").scrub(said))
