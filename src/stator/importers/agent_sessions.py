"""Lists the sessions that an agent keeps on this machine, by the names, sizes and times of its files.

No file is read to be listed. What else must be known of one, its folder and whether it holds a conversation at all, is
in the first bytes of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from stator.errors import InvalidInput
from stator.importers.default_folders import FOLDERS
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.items import Conversation

NAMED = {"claude-code": 1, "codex": 3, "pi": 1, "gemini": 0}
"""Agents that keep each session in a file of its own → the folders between their default path and such a file."""
HEAD_BYTES = 256 * 1024
"""The first bytes of a file, in which its session and folder are looked for."""
FILES_MAX = 20_000
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SESSION = re.compile(rb'"sessionId"\s*:\s*("(?:[^"\\]|\\.)*")')
_FOLDER = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_ASKED = re.compile(rb'"(?:type|role)"\s*:\s*"user"')
_PROJECT_ROOT = ".project_root"
"""The file in which Gemini CLI names the folder of a project."""
_ENDINGS = (".jsonl", ".json", ".jsonl.zst")


class AgentSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that an agent keeps."""

    agent: str
    id: str
    """The agent's id of the session; empty if the name of its file does not tell."""
    path: str
    changed: int
    """µs since 1970."""
    size: int

    @property
    def conversation(self) -> Conversation:
        return Conversation(source=self.agent, id=self.id)


def sessions_of(
    agent: str, home: Path, environ: Mapping[str, str], *, since: int
) -> list[AgentSession]:
    """The sessions of an agent that changed at that time (µs) or later, the newest first."""
    if agent not in NAMED:
        return []
    found: list[AgentSession] = []
    for place in FOLDERS[agent](home, environ):
        for number, entry in enumerate(_files(str(place), NAMED[agent])):
            if number == FILES_MAX:
                break
            stat = entry.stat(follow_symlinks=False)
            changed = stat.st_mtime_ns // 1000
            if changed < since or not entry.name.endswith(_ENDINGS) or not stat.st_size:
                continue
            named = _UUID.search(entry.name)
            if named is None and agent != "gemini":
                continue
            found.append(
                AgentSession(
                    agent=agent,
                    id=named[0] if named is not None and agent != "gemini" else "",
                    path=entry.path,
                    changed=changed,
                    size=stat.st_size,
                )
            )
    return sorted(found, key=lambda one: -one.changed)


def looked_into(session: AgentSession) -> tuple[AgentSession, str]:
    """A session with its id, and the folder it took place in. The folder is empty if the first bytes of the file do
    not name it, or show no message of a user: an agent that was started and left writes a file, too.
    """
    try:
        head = read_beginning(session.path, HEAD_BYTES)
    except (OSError, InvalidInput):
        return session, ""
    if not session.id:
        session = msgspec.structs.replace(session, id=_text(_SESSION.search(head)))
    if _ASKED.search(head) is None:
        return session, ""
    return session, _text(_FOLDER.search(head)) or _gemini_folder(session.path)


def _files(folder: str, depth: int) -> Iterator[os.DirEntry[str]]:
    """The files that are exactly so many folders down; newer names first. Links are not followed."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError:
        return
    for entry in found:
        if not depth and entry.is_file(follow_symlinks=False):
            yield entry
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path, depth - 1)


def _text(found: re.Match[bytes] | None) -> str:
    try:
        value = json.loads(found[1]) if found is not None else ""
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _gemini_folder(path: str) -> str:
    try:
        return read_beginning(str(Path(path).parents[1] / _PROJECT_ROOT), 4096).decode().strip()
    except (OSError, InvalidInput, ValueError):
        return ""
