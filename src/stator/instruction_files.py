"""Reads the files of instructions and notes that agents load by themselves, so that nothing in them is given again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from stator.owner.regular_file import read_regular

IN_PROJECT = (
    "CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "MEMORY.md",
)  # fmt: skip
OF_USER = (
    ".claude/CLAUDE.md",
    ".codex/AGENTS.md",
    ".gemini/GEMINI.md",
    ".config/opencode/AGENTS.md",
)
BYTES_MAX = 100_000
"""Bytes of one file; what is longer is not looked at."""


def instructions(root: str, environ: Mapping[str, str]) -> list[str]:
    """The texts that agents load in a project: its own files and those of the user."""
    return [text for path in _paths(Path(root), environ) if (text := _text(path))]


def _paths(root: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    if str(root) not in ("", "."):
        yield from (root / name for name in IN_PROJECT)
    if home := environ.get("HOME", ""):
        yield from (Path(home, name) for name in OF_USER)
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(root))
        claude = Path(environ.get("CLAUDE_CONFIG_DIR") or Path(home, ".claude"))
        yield claude / "projects" / folder / "memory" / "MEMORY.md"


def _text(path: Path) -> str:
    try:
        return read_regular(path, BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
