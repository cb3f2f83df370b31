"""Extracts plain text from message content, and prepares text for ids that survive redaction."""

from __future__ import annotations

from typing import Any

from stator.importers.reading.fields import text
from stator.model.log.redact import Redactor, placeholder_pattern
from stator.model.window.reply import texts


def plain_text(content: Any) -> str:
    """The text of a content, which is a string or blocks of any provider's kind."""
    if not isinstance(content, list):
        return text(content)
    return "".join(part for block in content for part in _block_texts(block))


def _block_texts(block: Any) -> list[str]:
    if isinstance(block, dict) and "type" not in block:
        block = {"type": "text", **block}
    return (
        [block]
        if isinstance(block, str)
        else list(texts([block] if isinstance(block, dict) else []))
    )


def redaction_stable(text_with_secrets: str) -> str:
    """A text for making ids: every secret is replaced by the same word.

    A hook redacts secrets before it writes to disk; a transcript contains them. Both must arrive at
    the same id.
    """
    return placeholder_pattern.sub("‹secret›", Redactor(b"name").scrub(text_with_secrets))
