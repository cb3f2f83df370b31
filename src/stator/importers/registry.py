"""The formats there are, each loaded when it is needed. Detection asks them in this order."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from stator.errors import InvalidInput
from stator.importers.format import Format

MODULES = {
    "claude-code": "claude_code.transcript",
    "codex": "codex.rollout",
    "gemini": "gemini.chat",
    "opencode": "opencode.session",
    "pi": "pi.session",
    "cline": "cline",
    "openhands": "openhands",
    "inspect": "inspect_ai.samples",
    "swe-agent": "swe_agent",
    "mini-swe-agent": "mini_swe_agent",
}
"""What a format is called → its module here, which has it as `FORMAT`."""


def load(name: str) -> Format:
    """A format by its name."""
    if name not in MODULES:
        raise InvalidInput(f"unknown format {name!r:.40}", hint=", ".join(MODULES), path="$.format")
    return cast("Format", import_module(f"stator.importers.{MODULES[name]}").FORMAT)


def every() -> list[Format]:
    """Every format, in the order in which they are asked."""
    return [load(name) for name in MODULES]
