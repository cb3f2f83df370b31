"""The command of an agent's own program that continues a session which Stator only records."""

from __future__ import annotations

import shlex

from stator.model.records.types import SessionRecord
from stator.model.sessions.sub_agents import is_sub_agent

COMMANDS: dict[str, tuple[str, ...]] = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "gemini": ("gemini", "--resume"),
    "opencode": ("opencode", "--session"),
    "pi": ("pi", "--session"),
    "cursor": ("cursor-agent", "--resume"),
    "copilot": ("copilot", "--resume"),
}
"""Agent → the program and the words before the id of its own session."""


def agent_command(record: SessionRecord) -> list[str] | None:
    """The words that continue a recorded session in its own agent; None if that is not known."""
    if record.mode != "recorded" or record.parent is not None:
        return None
    for source, foreign in record.aliases:
        words = COMMANDS.get(source)
        # An id with a slash is that of a part of a session; one that begins with a hyphen would be an option.
        if words is not None and foreign and "/" not in foreign and not foreign.startswith("-"):
            return [*words, foreign]
    return None


def by_hand(record: SessionRecord) -> str:
    """How a person continues a recorded session in its agent, where no command does it."""
    if is_sub_agent(record):
        return "a sub-agent's session is not continued by itself; continue the one that started it"
    if record.agent == "cline":
        return "choose it in its list of tasks (History)"
    return "choose it in its own list of sessions; no command that opens it is known here"


def shown(words: list[str]) -> str:
    """The words as they are typed into a shell."""
    return shlex.join(words)
