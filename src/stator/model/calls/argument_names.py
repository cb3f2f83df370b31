"""Names under which tools are given a command, a path, or what they look for. Pure."""

from __future__ import annotations

COMMANDS = ("command", "cmd", "script")
PATHS = (
    "file_path", "path", "filePath", "filepath", "filename", "file", "absolute_path", "target_file",
    "notebook_path", "dir_path", "directory",
)  # fmt: skip
SOUGHT = ("pattern", "query", "regex", "search")
