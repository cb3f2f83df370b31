"""Lists the transcript formats and loads each one when it is needed.

Detection tries the formats in the order of `MODULES`.
"""

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
"""The name of a format → its module below `stator.importers`, which holds it as `FORMAT`."""


def load(name: str) -> Format:
    """Load a format by its name."""
    if name not in MODULES:
        raise InvalidInput(f"unknown format {name!r:.40}", hint=", ".join(MODULES), path="$.format")
    return cast("Format", import_module(f"stator.importers.{MODULES[name]}").FORMAT)


def load_all() -> list[Format]:
    """Load every format, in the order in which detection tries them."""
    return [load(name) for name in MODULES]
