"""Asks an agent that stops for a handover, where its user turned that on.

A conversation is asked once, then again after a compaction and after every 20 turns. Between these, its stops are
counted in a small file beside the spool. An agent that continues because it was asked is never asked again.
"""

from __future__ import annotations

import os

from stator.hooks.event_names import COMPACTS
from stator.surfaces.spool_counter import SpoolCounter

# type checkers recognize the name; importing it from `typing` would take too long
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ASKED = {"claude-code": "Stop", "codex": "Stop", "gemini": "AfterAgent"}
"""The hook in which an agent can be asked to continue. Cursor and opencode take no such answer."""
SUMMARISING = "claude-code"
"""The agent that takes what this hook prints before a compaction as instructions for the summary."""
HOOKS = frozenset(ASKED.values()) | COMPACTS
EVERY = 20
"""Stops after which a conversation is asked again."""


def is_wanted(arguments: list[str]) -> bool:
    """Whether the user turned it on: for one agent in its settings, or for all in the environment, which decides."""
    said = os.environ.get("STATOR_HANDOVER", "")
    return said == "on" if said in ("on", "off") else "--handover" in arguments


def request(name: str, agent: str, hook_input: dict[str, Any], spool: str) -> bytes:
    """The bytes for standard output; empty if nothing is asked now."""
    conversation = hook_input.get("session_id")
    if not isinstance(conversation, str) or not conversation or hook_input.get("agent_id"):
        return b""
    stops = SpoolCounter(spool, f"handover:{agent}:{conversation}")
    if name in COMPACTS:
        stops.reset()
        if agent == SUMMARISING and name == "PreCompact":
            _ask_in_summary()
        return b""
    if ASKED.get(agent) != name or hook_input.get("stop_hook_active") is True:
        return b""
    return _asked(agent, name) if stops.next() % EVERY == 0 else b""


def _ask_in_summary() -> None:
    """Print the request as what it is taken for: instructions for the summary. Not every transcript shows them, so
    that nothing is written down as given."""
    from stator.model.brief.envelope import wrapped
    from stator.model.brief.handover import IN_SUMMARY

    os.write(1, wrapped("handover", IN_SUMMARY).encode() + b"\n")


def _asked(agent: str, name: str) -> bytes:
    from stator.model.brief.envelope import wrapped
    from stator.model.brief.handover import REQUEST
    from stator.model.values.json_text import canonical

    text = wrapped("handover", REQUEST)
    said: dict[str, Any] = {"decision": "deny" if agent == "gemini" else "block", "reason": text}
    if agent == "claude-code":  # it shows a block as an error
        said = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    return canonical(said).encode() + b"\n"
