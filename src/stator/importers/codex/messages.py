"""Tells apart what a message to the model contains: what a person typed, what Codex added to it, and what
Stator added. Pure.

Codex sends much in the user's name: the environment, the instructions of AGENTS.md, the tabs that are open
in an editor. Only the rest is a prompt.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import record, records, text
from stator.importers.reading.plain_text import plain_text

PASSTHROUGH = "internal_chat_message_metadata_passthrough"
INJECTED = (
    "<environment_context>",
    "<environments_instructions>",
    "<user_instructions>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<collaboration_mode>",
    "<multi_agent_mode>",
    "<permissions instructions>",
    "<codex_internal_context",
    "<goal_context>",
    "<hook_prompt",
    "# AGENTS.md instructions for ",
)
"""Beginnings of texts that Codex itself sends in the user's name."""
INSTRUCTIONS = ("# AGENTS.md instructions for ", "<user_instructions>")
"""Beginnings of texts that contain the instructions of AGENTS.md."""
EDITOR = "# Context from my IDE setup"
REQUEST = "## My request for Codex:"
"""Between these two, Codex lists what is open in the editor; after them comes what the person typed."""
_IMAGE_TAGS = re.compile(r"</?(?:image|audio)\b[^<>\n]{0,200}>")


class MessageParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a message, by who wrote them."""

    typed: Any = None
    """What a person typed; None if nothing."""
    added: Any = None
    """What Codex added; None if nothing."""
    instructions: str = ""
    """The text of AGENTS.md, if the message has it."""


def parts_of(item: dict[str, Any]) -> MessageParts:
    """The parts of a message of any role; only a user's message has something typed."""
    content = item.get("content")
    blocks = content if isinstance(content, list) else [content]
    is_user = item.get("role") == "user"
    written_by = _provenances(item, len(blocks))
    typed: list[Any] = []
    added: list[Any] = []
    instructions = ""
    for block, by in zip(blocks, written_by, strict=True):
        words = plain_text([block])
        if not is_user or (by != "user" if by else words.lstrip().startswith(INJECTED)):
            added.append(block)
            if words.lstrip().startswith(INSTRUCTIONS):
                instructions = instructions or words
        elif words.lstrip().startswith(EDITOR) and REQUEST in words:
            before, _, after = words.rpartition(REQUEST)
            added.append({"type": "input_text", "text": before.strip()})
            typed.append(
                {**block, "text": after.strip()} if isinstance(block, dict) else after.strip()
            )
        else:
            typed.append(block)
    if added and not any(_says_something(block) for block in typed):
        typed = []
    is_list = isinstance(content, list)
    return MessageParts(
        typed=_plain(typed, is_list) if typed or (is_user and not added) else None,
        added=_plain(added, is_list) if added else None if is_user else "",
        instructions=instructions,
    )


def is_prompt(item: dict[str, Any]) -> bool:
    """Whether an item is a prompt by a person and not a message that Codex sends in their name."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return parts_of(item).typed is not None


def typed_words(item: dict[str, Any]) -> str:
    """The words of a prompt, without what stands for an image."""
    return _IMAGE_TAGS.sub("", plain_text(parts_of(item).typed)).strip()


def started_by_agent(notice: dict[str, Any]) -> bool | None:
    """Whether another agent started a turn; None if Codex does not say."""
    attribution = notice.get("turn_attribution")
    if not isinstance(attribution, dict):
        return None
    return bool(attribution.get("initiating_agent_path") or attribution.get("parent_turn_id"))


def bare_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item in the provider's form."""
    return {key: value for key, value in item.items() if key != PASSTHROUGH}


def words_between(message: Any) -> Any:
    """What a message from another agent says."""
    return plain_text(record(message).get("content")) or message


def _provenances(item: dict[str, Any], number: int) -> list[str]:
    """Who wrote each block, as Codex notes it; "" where it does not."""
    notes = records(record(item.get(PASSTHROUGH)).get("content_item_metadata"))
    named = [text(record(note.get("provenance")).get("type")) for note in notes]
    if len(named) == number:
        return named
    return ["user" if "user" in named else next(filter(None, named), "")] * number


def _says_something(block: Any) -> bool:
    words = plain_text([block])
    return bool(words.strip()) or (isinstance(block, dict) and "text" not in block)


def _plain(blocks: list[Any], is_list: bool) -> Any:
    """Blocks as a string if they consist only of texts."""
    content = strip_attachments(blocks)
    if not is_list:
        return content[0] if content and content[0] is not None else ""
    plain = all(isinstance(block, dict) and block.get("type") == "input_text" for block in content)
    return "\n\n".join(plain_text([block]) for block in content) if plain and content else content
