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
from stator.importers import default_folders
from stator.importers.claude_code import forks
from stator.importers.claude_code.line_fields import (
    content_of,
    from_printed,
    is_printed,
    prompt_text,
    title_of,
)
from stator.importers.claude_code.lines import ClaudeCodeReader
from stator.importers.claude_code.reader_state import MAPPER
from stator.importers.claude_code.tools import child_id
from stator.importers.reading.file_stamp import stamp_of
from stator.importers.reading.found_conversation import (
    FoundConversation,
    Progress,
    is_inside,
)
from stator.importers.reading.jsonl import (
    decode_json,
    open_regular_file,
    parse_line,
    read_lines,
)
from stator.importers.reading.line_boundary import looked_at
from stator.model.exchange.items import Conversation, Cursor, Item
from stator.model.log.shown_text import cut_short

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
    """The first prompt; the title is what the first prompt that says something says."""
    title: str = ""
    has_messages: bool = False
    """Whether the file contains a line of a conversation."""
    is_printed: bool = False


class ClaudeCode:
    """The format of Claude Code's transcripts."""

    name = "claude-code"
    mapper = MAPPER

    def recognizes(self, path: Path, begin: bytes) -> bool:
        """Judge by the first lines that can be decoded."""
        whole = begin.split(b"\n")
        for data in whole[: 50 if len(whole) > 1 else 1]:
            try:
                record = decode_json(data)
            except ValueError:
                continue
            if isinstance(record, dict):
                known = looked_at(_is_claude_code_line, record, default=None)
                if known is not None:
                    return known
        marks = (b'"parentUuid"', b'"sessionId"', b'"isSidechain"')
        return all(mark in begin for mark in marks)  # the first line is longer than `begin`

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """The session in a file, and its sub-agents in the folder beside it."""
        summary = _summary_of(path)
        named = _AGENT.fullmatch(path.stem)
        if not summary.has_messages or not (summary.session or _UUID.fullmatch(path.stem)):
            return
        if named is not None and (summary.agent or _is_below(path)):
            if not named["id"].startswith("acompact-"):
                yield self._child(path, summary, named["id"])
            return
        session = path.stem if _UUID.fullmatch(path.stem) else summary.session
        fork_of, _ = ("", "") if summary.is_printed else forks.parent_of(path, session)
        labels = {"version": summary.version, "branch": summary.branch, "forked from": fork_of}
        conversation = Conversation(
            source=self.name,
            id=session,
            name=_title(path)
            or summary.title
            or title_of(summary.prompt)
            or cut_short(summary.prompt, 60),
            agent=self.name,
            cwd=summary.cwd,
            labels={name: value for name, value in labels.items() if value and value != "HEAD"},
            fork_of=fork_of,
            fork_ids=forks.shared_ids(path, fork_of) if fork_of else frozenset(),
        )
        yield self._found(path, conversation)
        calls: dict[str, str] | None = None
        for agent in _subagent_files(path.with_name(session)):
            child_summary = _summary_of(agent)
            match = _AGENT.fullmatch(agent.stem)
            if match is None or not child_summary.has_messages:
                continue
            child = self._child(agent, child_summary, match["id"], session, conversation.name)
            if not child.conversation.parent_call:
                calls = _starting_calls(path) if calls is None else calls
                child = _started_by(child, calls.get(match["id"], ""))
            yield child

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        """Read the items, starting at a cursor."""
        yield from ClaudeCodeReader(found, cursor).read(progress, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The folder in which Claude Code stores its transcripts."""
        return default_folders.claude_code(home, environ)

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        """Whether the session worked in a folder, or below it."""
        return is_inside(found.conversation.cwd, root)

    def _found(self, path: Path, conversation: Conversation) -> FoundConversation:
        state = path.stat()
        changed = state.st_mtime_ns // 1_000
        return FoundConversation(
            path=str(path),
            conversation=conversation,
            changed=changed,
            size=state.st_size,
            stamp=stamp_of(state),
        )

    def _child(
        self,
        path: Path,
        summary: _FileSummary,
        agent: str,
        session: str = "",
        parent_name: str = "",
    ) -> FoundConversation:
        meta = _metadata(path)
        session = session or summary.session
        parent = meta.get("parentAgentId")
        call = meta.get("toolUseId")
        title = meta.get("description")
        label = title if isinstance(title, str) and title else agent
        conversation = Conversation(
            source=self.name,
            id=child_id(session, agent),
            name=f"{parent_name or session[:8]}/{label}",
            agent=self.name,
            cwd=summary.cwd,
            labels={"version": summary.version} if summary.version else {},
            parent=child_id(session, parent) if isinstance(parent, str) and parent else session,
            parent_call=call if isinstance(call, str) else "",
        )
        return self._found(path, conversation)


FORMAT = ClaudeCode()


def _is_claude_code_line(record: dict[str, Any]) -> bool | None:
    """Whether a line is one of Claude Code's; None if that is uncertain."""
    kind = record.get("type")
    if kind in CHAINED and "uuid" in record and "parentUuid" in record:
        return True
    if kind in UNCHAINED and "sessionId" in record:
        return True
    if kind in _PRINTED and "session_id" in record and "uuid" in record:
        return "parent_tool_use_id" in record or kind in ("system", "result")
    if kind in ("summary", "file-history-snapshot"):
        return "leafUuid" in record or "messageId" in record or None
    return None


def _summary_of(path: Path) -> _FileSummary:
    """What a file says about its session, up to the first prompt."""
    summary = _FileSummary()
    for line in read_lines(str(path)):
        record, _ = parse_line(line)
        if record is not None:
            looked_at(_add_line, summary, record, default=None)
        if (summary.title and summary.cwd) or line.end > SEARCHED_BYTES:
            break
    return summary


def _add_line(summary: _FileSummary, record: dict[str, Any]) -> None:
    if is_printed(record):
        summary.is_printed = True
        record = from_printed(record)
        summary.version = summary.version or _text(record, "claude_code_version")
    summary.session = summary.session or _text(record, "sessionId")
    summary.cwd = summary.cwd or _text(record, "cwd")
    summary.version = summary.version or _text(record, "version")
    summary.branch = summary.branch or _text(record, "gitBranch")
    summary.agent = summary.agent or (
        _text(record, "agentId") if record.get("isSidechain") is True else ""
    )
    if _text(record, "type") in ("user", "assistant"):
        summary.has_messages = True
        prompt = prompt_text(record) or ""
        summary.prompt = summary.prompt or prompt
        summary.title = summary.title or title_of(prompt)


def _title(path: Path) -> str:
    """The current title: the one the user gave, otherwise the generated one."""
    found: dict[str, str] = {}
    with open_regular_file(str(path)) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TITLE_BYTES))
        data = file.read(TITLE_BYTES)
    # few files have one, and to split the end of each takes longer than the rest
    if b'itle"' not in data:
        return ""
    for line in data.split(b"\n"):
        if b'itle"' not in line:
            continue
        try:
            record = decode_json(line)
        except ValueError:
            continue
        for name in ("customTitle", "aiTitle"):
            if isinstance(record, dict) and _text(record, name).strip():
                found[name] = _text(record, name)
    return found.get("customTitle") or found.get("aiTitle") or ""


def _starting_calls(path: Path) -> dict[str, str]:
    """The calls that started sub-agents, by the sub-agents' ids, for versions that write no metadata: the result of
    the call, or a line about its progress, names the sub-agent."""
    found: dict[str, str] = {}
    for line in read_lines(str(path)):
        if b'"agentId"' not in line.data or len(found) >= AGENTS_MAX:
            continue
        record, _ = parse_line(line)
        if record is not None:
            agent, call = looked_at(_named_agent, record, default=("", ""))
            if agent and call:
                found.setdefault(agent, call)
    return found


def _named_agent(record: dict[str, Any]) -> tuple[str, str]:
    """The sub-agent that a line names, and its call."""
    result, data = record.get("toolUseResult"), record.get("data")
    if isinstance(result, dict):
        content = content_of(record)
        blocks = [one for one in content or () if isinstance(one, dict)]
        return _text(result, "agentId"), next((_text(one, "tool_use_id") for one in blocks), "")
    agent = _text(data, "agentId") if isinstance(data, dict) else ""
    return agent, _text(record, "parentToolUseID")


def _started_by(found: FoundConversation, call: str) -> FoundConversation:
    conversation = msgspec.structs.replace(found.conversation, parent_call=call)
    return msgspec.structs.replace(found, conversation=conversation)


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
            record = decode_json(file.read(META_MAX))
    except (InvalidInput, ValueError, OSError):
        return {}
    return record if isinstance(record, dict) else {}


def _text(record: Mapping[str, Any], name: str) -> str:
    found = record.get(name)
    return found if isinstance(found, str) else ""
