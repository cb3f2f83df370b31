"""Finds the notes that agents keep for themselves about a project: files of memories.

Claude Code keeps those of a folder in `projects/FOLDER/memory/` below its settings; Codex keeps those of all folders in
`memories/`, so only files that name the project's folder are taken. They are only read, and bounded in number and size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from stator.errors import InvalidInput
from stator.importers.reading.jsonl import open_regular_file
from stator.runtime.ingest.memories import MemoryFile

FILES_MAX = 200
"""Files of one agent that are read."""
BYTES_MAX = 256 * 1024
"""A larger file is no memory."""
DEPTH_MAX = 3


def memories_of(home: Path, environ: Mapping[str, str], root: str) -> dict[str, list[MemoryFile]]:
    """The memories about the project in a folder, by agent. An agent whose folder cannot be read is left out."""
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    found: dict[str, list[MemoryFile]] = {}
    if not root:
        return found
    folder = claude / "projects" / re.sub(r"[^A-Za-z0-9]", "-", root)
    if folder.is_dir():
        found["claude-code"] = list(_read("claude-code", folder / "memory"))
    if codex.is_dir():
        named = re.compile(rf"(?<![\w./-]){re.escape(root)}(?![\w.-])")
        files = _read("codex", codex / "memories")
        found["codex"] = [file for file in files if named.search(file.text)]
    return found


def _read(agent: str, folder: Path) -> Iterator[MemoryFile]:
    for path in sorted(_paths(folder, 0))[:FILES_MAX]:
        try:
            with open_regular_file(str(path)) as file:
                state = os.fstat(file.fileno())
                data = file.read(BYTES_MAX + 1)
        except (InvalidInput, OSError):
            continue  # it is gone, or is not for us to read
        if len(data) <= BYTES_MAX:
            yield MemoryFile(
                agent=agent,
                path=path.relative_to(folder).as_posix(),
                text=data.decode("utf-8", "replace").replace("\0", ""),
                changed=state.st_mtime_ns // 1_000,
            )


def _paths(folder: Path, depth: int) -> Iterator[Path]:
    """The Markdown files in a folder and below it. Links are not followed."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and depth < DEPTH_MAX:
            yield from _paths(Path(entry.path), depth + 1)
        elif entry.is_file(follow_symlinks=False) and entry.name.endswith(".md"):
            yield Path(entry.path)
