"""Recognizes and lists Claude Code's transcripts (`<config>/projects/<folder>/<session>.jsonl`,
sub-agents in `<session>/subagents/`) and the output of `--output-format stream-json`.

The folder a session worked in comes from its lines. The folder's name in the path is not used,
because a dash in it may replace any character. `lines` turns lines into items.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.claude_code import forks
from stator.importers.claude_code.lines import (
    ClaudeCodeReader,
    from_printed,
    is_printed,
    prompt_text,
)
from stator.importers.claude_code.tools import child_id
from stator.importers.format import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import (
    decode_json,
    open_regular_file,
    parse_line,
    read_lines,
)
from stator.model.exchange.items import Conversation, Cursor, Item

SEARCHED_BYTES = 4 * 2**20
"""The bytes at the start of a file in which its first prompt is searched for."""
TITLE_BYTES = 128 * 1024
"""The bytes at the end of a file in which its title is searched for."""
AGENTS_MAX = 10_000
"""The most sub-agents of one session."""
META_MAX = 64 * 1024
CHAINED = frozenset({"user", "assistant", "system", "attachment", "progress"})
UNCHAINED = frozenset(
    "queue-operation mode last-prompt tools-used custom-title ai-title permission-mode tag"
    " atis-latch api-request api-request-shape".split()
)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_AGENT = re.compile(r"agent-(?P<id>[\w-]+)")
_PRINTED = frozenset({"system", "assistant", "user", "result", "stream_event"})


class _FileSummary(msgspec.Struct):
    """What the first lines of a file say about the session."""

    session: str = ""
    cwd: str = ""
    version: str = ""
    branch: str = ""
    agent: str = ""
    """The sub-agent's id, if the file belongs to one."""
    prompt: str = ""
    is_talk: bool = False
    """Whether the file contains a line of a conversation."""
    is_printed: bool = False


class ClaudeCode:
    """The format of Claude Code's transcripts."""

    name = "claude-code"

    def is_one(self, path: Path, begin: bytes) -> bool:
        """Judge by the first lines that can be decoded."""
        whole = begin.split(b"\n")
        for data in whole[: 50 if len(whole) > 1 else 1]:
            try:
                said = decode_json(data)
            except ValueError:
                continue
            if isinstance(said, dict):
                known = _is_claude_code_line(said)
                if known is not None:
                    return known
        marks = (b'"parentUuid"', b'"sessionId"', b'"isSidechain"')
        return all(mark in begin for mark in marks)  # the first line is longer than `begin`

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """The session in a file, and its sub-agents in the folder beside it."""
        about = _summary_of(path)
        named = _AGENT.fullmatch(path.stem)
        if not about.is_talk or not (about.session or _UUID.fullmatch(path.stem)):
            return
        if named is not None and (about.agent or _is_below(path)):
            if not named["id"].startswith("acompact-"):
                yield self._child(path, about, named["id"])
            return
        session = path.stem if _UUID.fullmatch(path.stem) else about.session
        fork_of, _ = ("", "") if about.is_printed else forks.parent_of(path, session)
        labels = {"version": about.version, "branch": about.branch, "forked from": fork_of}
        talk = Conversation(
            source=self.name,
            id=session,
            name=_title(path) or _first_line(about.prompt),
            agent=self.name,
            cwd=about.cwd,
            labels={name: value for name, value in labels.items() if value and value != "HEAD"},
            fork_of=fork_of,
            fork_ids=forks.shared_ids(path, fork_of) if fork_of else frozenset(),
        )
        yield self._found(path, talk)
        for agent in _subagent_files(path.with_name(session)):
            below_it = _summary_of(agent)
            match = _AGENT.fullmatch(agent.stem)
            if match is not None and below_it.is_talk:
                yield self._child(agent, below_it, match["id"], session, talk.name)

    def read(
        self, found: FoundConversation, cursor: Cursor | None, progress: Progress | None
    ) -> Iterator[Item]:
        """Read the items, starting at a cursor."""
        copied = forks.copied_prompt_ids(Path(found.path), found.conversation.fork_of)
        start = cursor or Cursor(offset=0)
        reader = ClaudeCodeReader(found.conversation, start.state, copied)
        for line in read_lines(
            found.path, offset=start.offset, number=start.line, progress=progress
        ):
            yield from reader.read(line)
        yield from reader.finish()

    def places(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The folder in which Claude Code stores its transcripts."""
        base = environ.get("CLAUDE_CONFIG_DIR", "")
        yield (Path(base) if base else home / ".claude") / "projects"

    def is_about(self, found: FoundConversation, root: str) -> bool:
        """Whether the session worked in a folder, or below it."""
        return is_inside(found.conversation.cwd, root)

    def _found(self, path: Path, talk: Conversation) -> FoundConversation:
        state = path.stat()
        changed = state.st_mtime_ns // 1_000
        return FoundConversation(
            path=str(path), conversation=talk, changed=changed, size=state.st_size
        )

    def _child(
        self, path: Path, about: _FileSummary, agent: str, session: str = "", above: str = ""
    ) -> FoundConversation:
        meta = _metadata(path)
        session = session or about.session
        parent = meta.get("parentAgentId")
        call = meta.get("toolUseId")
        title = meta.get("description")
        label = title if isinstance(title, str) and title else agent
        talk = Conversation(
            source=self.name,
            id=child_id(session, agent),
            name=f"{above or session[:8]}/{label}",
            agent=self.name,
            cwd=about.cwd,
            labels={"version": about.version} if about.version else {},
            parent=child_id(session, parent) if isinstance(parent, str) and parent else session,
            parent_call=call if isinstance(call, str) else "",
        )
        return self._found(path, talk)


FORMAT = ClaudeCode()


def _is_claude_code_line(said: dict[str, Any]) -> bool | None:
    """Whether a line is one of Claude Code's; None if that is uncertain."""
    kind = said.get("type")
    if kind in CHAINED and "uuid" in said and "parentUuid" in said:
        return True
    if kind in UNCHAINED and "sessionId" in said:
        return True
    if kind in _PRINTED and "session_id" in said and "uuid" in said:
        return "parent_tool_use_id" in said or kind in ("system", "result")
    if kind in ("summary", "file-history-snapshot"):
        return "leafUuid" in said or "messageId" in said or None
    return None


def _summary_of(path: Path) -> _FileSummary:
    """What a file says about its session, up to the first prompt."""
    about = _FileSummary()
    for line in read_lines(str(path)):
        said, _ = parse_line(line)
        if said is not None:
            _add_line(about, said)
        if (about.prompt and about.cwd) or line.end > SEARCHED_BYTES:
            break
    return about


def _add_line(about: _FileSummary, said: dict[str, Any]) -> None:
    if is_printed(said):
        about.is_printed = True
        said = from_printed(said)
        about.version = about.version or _text(said, "claude_code_version")
    about.session = about.session or _text(said, "sessionId")
    about.cwd = about.cwd or _text(said, "cwd")
    about.version = about.version or _text(said, "version")
    about.branch = about.branch or _text(said, "gitBranch")
    about.agent = about.agent or (_text(said, "agentId") if said.get("isSidechain") is True else "")
    if _text(said, "type") in ("user", "assistant"):
        about.is_talk = True
        about.prompt = about.prompt or prompt_text(said) or ""


def _title(path: Path) -> str:
    """The current title: the one the user gave, otherwise the generated one."""
    found: dict[str, str] = {}
    with open_regular_file(str(path)) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TITLE_BYTES))
        data = file.read(TITLE_BYTES)
    for line in data.split(b"\n"):
        if b'itle"' not in line:
            continue
        try:
            said = decode_json(line)
        except ValueError:
            continue
        for name in ("customTitle", "aiTitle"):
            if isinstance(said, dict) and _text(said, name).strip():
                found[name] = _text(said, name)
    return found.get("customTitle") or found.get("aiTitle") or ""


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return line if len(line) <= 60 else f"{line[:59]}…"


def _subagent_files(folder: Path) -> list[Path]:
    """The files of a session's sub-agents, in order; symbolic links are not followed."""
    found: list[Path] = []
    for base, folders, files in os.walk(folder / "subagents", followlinks=False):
        folders.sort()
        names = (name for name in sorted(files) if name.endswith(".jsonl"))
        wanted = (name for name in names if name.startswith("agent-"))
        found += [
            Path(base) / name
            for name in wanted
            if not name.startswith("agent-acompact-") and _is_regular(Path(base) / name)
        ]
        if len(found) >= AGENTS_MAX:
            break
    return found[:AGENTS_MAX]


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_below(path: Path) -> bool:
    return "subagents" in path.parent.parts


def _metadata(path: Path) -> dict[str, Any]:
    """The metadata beside a sub-agent's file; empty if it cannot be read."""
    beside = path.with_suffix(".meta.json")
    try:
        with open_regular_file(str(beside)) as file:
            said = decode_json(file.read(META_MAX))
    except (InvalidInput, ValueError, OSError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    return found if isinstance(found, str) else ""
