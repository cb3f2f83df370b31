"""Lists the transcript formats and loads each one when it is needed.

Detection tries our formats in the order of `MODULES`. Other packages add formats through the entry
point `stator.formats`; these are tried only for a name or a file that none of ours recognizes.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from stator import extensions
from stator.errors import InvalidInput
from stator.importers.format import Format

MODULES = {
    "claude-code": "claude_code.transcript",
    "codex": "codex.rollout",
    "gemini": "gemini.chat",
    "opencode": "opencode.session",
    "copilot": "copilot.session",
    "pi": "pi.session",
    "cline": "cline",
    "openhands": "openhands",
    "inspect": "inspect_ai.samples",
    "swe-agent": "swe_agent",
    "mini-swe-agent": "mini_swe_agent",
}
"""The name of a format → its module below `stator.importers`, which holds it as `FORMAT`."""

UNVERIFIED = frozenset(("copilot",))
"""Formats that were written from public descriptions, without a file that the agent itself wrote."""


def has(name: str) -> bool:
    """Whether there is a format of that name, ours or another package's."""
    return name in MODULES or name in extensions.names(extensions.FORMATS)


def load(name: str) -> Format:
    """Load a format by its name."""
    if name in MODULES:
        return cast("Format", import_module(f"stator.importers.{MODULES[name]}").FORMAT)
    if has(name):
        return cast("Format", extensions.load(extensions.FORMATS, name))
    raise InvalidInput(f"unknown format {name!r:.40}", hint=", ".join(MODULES), path="$.format")


def load_all() -> list[Format]:
    """Load all of our formats, in the order in which detection tries them."""
    return [load(name) for name in MODULES]


def load_added() -> list[Format]:
    """Load the formats that other packages add, except those named like one of ours."""
    names = extensions.names(extensions.FORMATS)
    return [load(name) for name in names if name not in MODULES]
