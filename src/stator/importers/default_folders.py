"""Names the folders in which agents keep their sessions, without loading what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Environ = Mapping[str, str]


def claude_code(home: Path, environ: Environ) -> list[Path]:
    return [_base(environ, "CLAUDE_CONFIG_DIR", home / ".claude") / "projects"]


def codex(home: Path, environ: Environ) -> list[Path]:
    root = _base(environ, "CODEX_HOME", home / ".codex")
    return [root / "sessions", root / "archived_sessions"]


def gemini(home: Path, environ: Environ) -> list[Path]:
    """One for each project."""
    return sorted((_base(environ, "GEMINI_CLI_HOME", home) / ".gemini" / "tmp").glob("*/chats"))


def pi(home: Path, environ: Environ) -> list[Path]:
    return [_base(environ, "PI_CODING_AGENT_DIR", home / ".pi" / "agent") / "sessions"]


def _base(environ: Environ, variable: str, default: Path) -> Path:
    given = environ.get(variable)
    return Path(given) if given else default


FOLDERS: Mapping[str, Callable[[Path, Environ], Sequence[Path]]] = {
    "claude-code": claude_code,
    "codex": codex,
    "pi": pi,
    "gemini": gemini,
}
"""Of the agents that keep each session in a file of its own."""
