"""Reads single lines of a Claude Code transcript: their fields, what they ask, and the ids made of them.

Hooks use the same functions, so that a turn gets the same id from both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stator.importers.claude_code import tools
from stator.model.exchange.items import Author, text_id
from stator.model.log.redact import Redactor, placeholder_pattern
from stator.model.log.shown_text import cut_short

_TAG = re.compile(r"<(command-name|command-args|command-message|bash-input)>(.*?)</\1>", re.DOTALL)
OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
CAVEATS = ("<local-command-caveat>", "Caveat: The messages below were generated")
INTERRUPTED = "[Request interrupted by user"
REPORTS = ("<task-notification>", "<teammate-message", "<cross-session-message", "<agent-message")
"""How the reports of other agents and of background tasks begin. The program sends them like prompts."""
REMINDER = "<system-reminder>"
_CONTEXT = re.compile(
    r"\s*<(ide_\w+|system-reminder|new-diagnostics)\b[^>]*>.*?</\1>\s*", re.DOTALL
)
"""What an editor or the program adds in front of what the user typed."""
_PICTURE = re.compile(r"\[Image #\d+\]|<image\b[^>]*>(?:</image>)?")
_REPORTED = re.compile(r"<(task-id|tool-use-id|status)>([^<]{1,200})</\1>")
TITLE_MAX = 60
NAME_MAX = 200
"""The most characters of an id that is remembered as it is."""


def turn_id(prompt: str, text: str) -> str:
    """The id of a turn, made from the prompt's id and its text.

    The prompt id alone is not enough: in a forked file, every copied line has the same one. Every
    secret in the text counts as the same word, because a hook may have recorded the prompt with its
    secrets redacted.
    """
    plain = placeholder_pattern.sub("‹secret›", Redactor(b"turn").scrub(text.strip()))
    return f"prompt/{prompt}/{text_id(plain)}"


def compaction_id(count: int) -> str:
    """The id of a conversation's nth compaction."""
    return f"compact/{count}"


def timestamp_of(record: Mapping[str, Any]) -> int:
    """The time of a line in µs; 0 if it has none."""
    given = record.get("timestamp")
    if not isinstance(given, str):
        return 0
    try:
        return max(0, round(datetime.fromisoformat(given).timestamp() * 1_000_000))
    except (ValueError, OverflowError, OSError):
        return 0


def command_text(text: str) -> str:
    """A command as the user typed it: `/name arguments` or `!command`."""
    parts = {name: body.strip() for name, body in _TAG.findall(text)}
    if "bash-input" in parts:
        return f"!{parts['bash-input']}"
    name = parts.get("command-name") or parts.get("command-message", "")
    name = name if name.startswith("/") else f"/{name}"
    return f"{name} {parts.get('command-args', '')}".strip()


def prompt_text(record: Mapping[str, Any]) -> str | None:
    """What the user typed, or for a sub-agent what its parent asked; None if the line is not a prompt."""
    if record.get("type") != "user" or record.get("isMeta") or record.get("isCompactSummary"):
        return None
    content = content_of(record)
    blocks = content if isinstance(content, list) else []
    if content is None or any(block_type(block) == "tool_result" for block in blocks):
        return None
    text = tools.text_of(content)
    start = text.lstrip()
    if start.startswith("<command-message>"):
        return command_text(start)
    aside = ("<command-name>", "<bash-input>", INTERRUPTED, *OUTPUTS, *CAVEATS)
    if start.startswith(aside) or not (text.strip() or blocks) or is_report(record, start):
        return None
    typed, context = split_context(text)
    shows_more = any(block_type(block) not in ("text", "") for block in blocks)
    return (typed if typed or shows_more else None) if context else text


def split_context(text: str) -> tuple[str, str]:
    """What was typed, and what an editor or the program added in front of it."""
    end = 0
    while (found := _CONTEXT.match(text, end)) is not None:
        end = found.end()
    return (text[end:].strip(), text[:end].strip()) if end else (text, "")


def is_report(record: Mapping[str, Any], start: str) -> bool:
    """Whether a line in the form of a prompt was sent by another agent or by a background task."""
    origin = record.get("origin")
    kind = text_field(origin, "kind") if isinstance(origin, dict) else ""
    return (
        start.startswith(REPORTS)
        or text_field(record, "promptSource") == "system"
        or kind not in ("", "human")
    )


def author_of(record: Mapping[str, Any], text: str, *, in_agent: bool) -> Author:
    """Whose words a line of type `user` has. `in_agent`: it is in the conversation of a sub-agent, where the other
    side is its parent."""
    start = text.lstrip()
    if is_report(record, start):
        return "agent"
    if record.get("isMeta") or start.startswith((REMINDER, *OUTPUTS, *CAVEATS)):
        return "system"
    return "agent" if in_agent else "user"


def reported_task(text: str) -> dict[str, str]:
    """The fields of a notification: task-id, tool-use-id and status, where it has them."""
    return dict(_REPORTED.findall(text)) if text.lstrip().startswith(REPORTS) else {}


def title_of(prompt: str) -> str:
    """What a person would call a conversation that begins with a prompt; "" if the prompt says nothing of that, such
    as a command without arguments."""
    if prompt.lstrip().startswith(REPORTS):
        return ""
    typed = _PICTURE.sub(" ", split_context(prompt)[0])
    lines = (" ".join(line.split()) for line in typed.split("\n"))
    line = next((line for line in lines if line), "")
    if re.fullmatch(r"/[\w:.-]+", line):
        return ""
    return line if len(line) <= TITLE_MAX else f"{cut_short(line, TITLE_MAX - 1)}…"


def from_printed(record: dict[str, Any]) -> dict[str, Any]:
    """Convert a line that Claude Code printed (`--output-format stream-json`) to the form of a
    transcript."""
    named = {"session_id": "sessionId", "tool_use_result": "toolUseResult"}
    line = {named.get(name, name): value for name, value in record.items()}
    above = record.get("parent_tool_use_id")
    if isinstance(above, str) and above:
        line |= {"isSidechain": True, "agentId": above}
    return line


def is_printed(record: Mapping[str, Any]) -> bool:
    """Whether a line was printed and does not come from a transcript."""
    return "session_id" in record and "sessionId" not in record


def original_uuid(record: Mapping[str, Any]) -> str:
    """The uuid of the line that a line is a copy of, or its own."""
    forked = record.get("forkedFrom")
    return (text_field(forked, "messageUuid") if isinstance(forked, dict) else "") or text_field(
        record, "uuid"
    )


def content_of(record: Mapping[str, Any]) -> str | list[Any] | None:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, (str, list)) else None


def kind_with_detail(record: Mapping[str, Any], kind: str) -> str:
    data = record.get("data")
    more = text_field(data, "type")[:40] if kind == "progress" and isinstance(data, dict) else ""
    return f"{kind}/{more}" if more else kind


def block_type(block: Any) -> str:
    return text_field(block, "type") if isinstance(block, dict) else ""


def text_field(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


def name_field(value: Mapping[str, Any], name: str) -> str:
    """A field that names something and is remembered; of a longer one than any program writes, a digest."""
    found = text_field(value, name)
    return found if len(found) <= NAME_MAX else text_id(found)


def number_field(value: Mapping[str, Any], *names: str) -> int:
    found = next((value[name] for name in names if name in value), 0)
    return found if isinstance(found, int) and 0 < found < 2**53 else 0
