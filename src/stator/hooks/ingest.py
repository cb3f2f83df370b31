"""Records the lines of a spool in a store: each line once, in order, one conversation after
another.

Hooks say that something happened; the transcript is the authority on what happened. Before the
lines of a conversation are recorded, its transcript is imported. Then the lines add what only hooks
know. How far each file of the spool was read is recorded in the same transaction as the lines
themselves. If this program dies at any point, the next one loses nothing and records nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from stator.errors import InvalidInput, StoreError
from stator.hooks import spool
from stator.importers import registry
from stator.importers.conversation import (
    Report,
    import_conversation,
    subagent_conversation,
)
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.items import (
    Compacted,
    Conversation,
    Ended,
    Item,
    Prompted,
)
from stator.model.log.query import SessionQuery
from stator.model.log.redact import has_placeholder
from stator.model.log.shown_text import without_secrets
from stator.runtime.base.context import Context
from stator.runtime.base.pages import matching
from stator.runtime.ingest.recorder import Recorder, find, noted_cursor
from stator.store.port import StorePort

MAPPERS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
    "opencode": "opencode",
}
"""Agent → the module in this package that reads its hooks."""
HOOKS = "hooks"
"""The name of the recorded note that says how far the spool was read."""
BATCH_LINES = 2_000
BATCH_BYTES = 16 * 2**20
STARTS = ("SessionStart", "sessionStart")
ENDS = ("SessionEnd", "sessionEnd")
BEGIN = 65_536

ContextFor = Callable[[str], Context]
"""Returns the context (project and root) for the folder in which an agent worked."""


class Mapper(Protocol):
    """Turns the input of an agent's hooks into items."""

    def conversation(self, payload: dict[str, Any]) -> Conversation | None:
        """The conversation that a line belongs to; None if it belongs to none."""
        ...

    def items(
        self, payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]
    ) -> Iterator[Item]:
        """The items in a line. `unique` identifies the line; `state` is kept between lines."""
        ...


class IngestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much to ingest at once; the rest is left for the next time."""

    lines: int = 0
    """The most lines; 0 for all of them."""
    transcript: int = 0
    """The most new bytes of a transcript; 0 for any number."""
    wait_s: float = 1.0
    """How long to wait for another process that is ingesting the same spool."""


NO_LIMITS = IngestLimits()
PREVIEW_LIMITS = IngestLimits(lines=20_000, transcript=8 * 2**20)
"""The limits for a store that may not be written; it reads the spool again each time."""


class IngestResult(msgspec.Struct, kw_only=True):
    """What was recorded from a spool."""

    lines: int = 0
    commits: int = 0
    names: list[str] = []
    """Ids of the sessions in which something was recorded."""
    bad: int = 0
    """Damaged pieces that were moved to the folder `bad`."""
    refused: dict[str, str] = {}
    """Conversations that could not be recorded, and why; their lines are in the folder `bad`."""
    transcripts: Report = msgspec.field(default_factory=Report)
    is_all: bool = True
    """Whether nothing was left for the next time."""
    starts: int = 0
    """Conversations that were started or resumed."""


def load_mapper(agent: str) -> Mapper:
    """Load the mapper for an agent's hooks."""
    if agent not in MAPPERS:
        raise InvalidInput(f"no agent {agent!r:.40}", hint=", ".join(MAPPERS), path="$.agent")
    return cast("Mapper", import_module(f"stator.hooks.{MAPPERS[agent]}"))


def ingest(
    store: StorePort,
    context_for: ContextFor,
    folder: str,
    *,
    limits: IngestLimits = NO_LIMITS,
    result: IngestResult | None = None,
) -> IngestResult:
    """Record what hooks wrote to a folder, and add it to `result`. Do nothing if another process is doing so."""
    result = IngestResult() if result is None else result
    if not spool.spooled_files(folder):
        return result
    here = context_for("")
    with spool.exclusive(folder, sleep=here.sleep, wait_s=limits.wait_s) as is_mine:
        if not is_mine:
            result.is_all = False
            return result
        while _ingest_round(store, context_for, folder, limits, result):
            pass
        # Only when a conversation starts, because it reads a note of every active session.
        if result.starts:
            end_dead_conversations(store, context_for)
    return result


def end_dead_conversations(store: StorePort, context_for: ContextFor) -> list[str]:
    """Record the end of conversations whose program died without reporting it; return their
    sessions.

    What such a program was doing is in doubt, and nothing else will record that: the session may be
    resumed by another program, or never.
    """
    # imported here because few callers need it
    from stator.runtime.runs.processes import start_ticks

    ended = []
    for row in matching(store, SessionQuery(mode="recorded", status="active")):
        note = noted_cursor(store, row.id, HOOKS)
        if not isinstance(note, dict) or not row.record.aliases:
            continue
        pid, born, space = note.get("process") or (0, 0, 0)
        # A pid names a process only within its namespace, and is reused: the start time tells two apart.
        if not pid or space != _namespace() or start_ticks(pid) == born:
            continue
        source, foreign = row.record.aliases[0]
        conversation = Conversation(source=source, id=foreign)
        recorder = Recorder(
            store, context_for(str(note.get("cwd") or "")), conversation, via="hook"
        )
        recorder.take(Ended(id=f"died/{pid}.{born}", at=note.get("at", 0), died=True))
        recorder.flush()
        ended.append(row.id)
    return ended


def agent_processes(store: StorePort) -> dict[int, str]:
    """The processes of the agents whose conversations are open, as their hooks reported them: pid → agent."""
    from stator.runtime.runs.processes import start_ticks

    found = {}
    for row in matching(store, SessionQuery(mode="recorded", status="active")):
        note = noted_cursor(store, row.id, HOOKS)
        pid, born, space = (note.get("process") if isinstance(note, dict) else None) or (0, 0, 0)
        if pid and space == _namespace() and start_ticks(pid) == born:
            found[pid] = row.record.aliases[0][0] if row.record.aliases else row.record.agent
    return found


def preview(store: StorePort, context_for: ContextFor, folder: str) -> IngestResult:
    """Record what hooks wrote to a folder in a temporary store, and leave the spool unchanged."""
    result = IngestResult()
    batches = BatchRecorder(
        store, context_for, PREVIEW_LIMITS, result, files=spool.spooled_files(folder)
    )
    for line in islice(spool.peek(folder), PREVIEW_LIMITS.lines):
        batches.add(line)
    batches.flush()
    return result


def _ingest_round(
    store: StorePort,
    context_for: ContextFor,
    folder: str,
    limits: IngestLimits,
    result: IngestResult,
) -> bool:
    """Record the files that are there now; return whether there may be more."""
    here = context_for("")
    rejected = spool.RejectedPieces(folder)
    unique = lambda: here.secret(6).hex()  # noqa: E731
    with spool.ClaimedFiles(
        folder, now=here.clock() * 1000, unique=unique, sleep=here.sleep, wait_s=limits.wait_s
    ) as claimed:
        if not claimed.files:
            result.is_all = result.is_all and not claimed.skipped
            return False
        try:
            is_complete = _record_files(store, context_for, claimed, rejected, limits, result)
        finally:
            rejected.close()
        result.bad += rejected.count
        if not is_complete:
            result.is_all = False
            return False
        # The files are the only other copy: they go when the store has everything on disk, in any durability.
        store.sync()
        claimed.remove()
        return True


def _record_files(
    store: StorePort,
    context_for: ContextFor,
    claimed: spool.ClaimedFiles,
    rejected: spool.RejectedPieces,
    limits: IngestLimits,
    result: IngestResult,
) -> bool:
    """Record the lines of the files; return False if a limit was reached first."""
    batches = BatchRecorder(
        store, context_for, limits, result, files=claimed.files, rejected=rejected
    )
    for item in claimed.lines():
        if isinstance(item, spool.BadPiece):
            rejected.put(item.file, item.raw)
        elif limits.lines and batches.seen >= limits.lines:
            batches.flush()
            return False
        else:
            batches.add(item)
    batches.flush()
    return not batches.is_waiting


class BatchRecorder:
    """Groups lines by conversation and records them in batches."""

    def __init__(
        self,
        store: StorePort,
        context_for: ContextFor,
        limits: IngestLimits,
        result: IngestResult,
        *,
        files: list[str],
        rejected: spool.RejectedPieces | None = None,
    ) -> None:
        """`rejected` receives the lines that no session accepts."""
        self._store = store
        self._context_for = context_for
        self._limits = limits
        self._result = result
        self._files = frozenset(files)
        self._lines_by_conversation: dict[tuple[str, str], list[spool.SpoolLine]] = {}
        self._conversations: dict[tuple[str, str], Conversation] = {}
        self._rejected = rejected
        self._bytes = 0
        self._waiting = 0
        self.seen = 0
        """Lines that were added, including those that were recorded before."""
        self.is_waiting = False
        """Whether a conversation was left for the next time."""

    def add(self, line: spool.SpoolLine) -> None:
        """Add a line; it is recorded with its batch."""
        self.seen += 1
        self._waiting += 1
        self._bytes += len(line.raw)
        try:
            conversation = load_mapper(line.agent).conversation(line.payload)
        except Exception as error:  # a mapper may raise anything on hostile input
            self._refuse(line, f"{line.agent or 'no agent'}: {_error_text(error)}")
            return
        if conversation is None:
            self._refuse(line, f"{line.agent}: the line names no conversation")
            return
        key = line.agent, conversation.id
        if not conversation.cwd:
            conversation = msgspec.structs.replace(conversation, cwd=line.cwd)
        self._conversations.setdefault(key, conversation)
        self._lines_by_conversation.setdefault(key, []).append(line)
        if self._waiting >= BATCH_LINES or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Record the batch."""
        for key, lines in self._lines_by_conversation.items():
            conversation = self._conversations[key]
            try:
                self._record_conversation(key[0], conversation, lines)
            except StoreError:
                raise
            except Exception as error:  # a failure in one conversation must not affect the others
                for line in lines:
                    self._refuse(
                        line, f"{conversation.source} {conversation.id}: {_error_text(error)}"
                    )
        self._lines_by_conversation, self._conversations, self._waiting, self._bytes = {}, {}, 0, 0

    def _refuse(self, line: spool.SpoolLine, why: str) -> None:
        """Keep a line that cannot be recorded in the folder `bad`, and report why."""
        if self._rejected is not None:
            self._rejected.put(line.file, line.raw)
        self._result.refused.setdefault(why.split(":")[0], why)

    def _record_conversation(
        self, agent: str, conversation: Conversation, lines: list[spool.SpoolLine]
    ) -> None:
        context = self._context_for(conversation.cwd)
        path = next(filter(None, map(_transcript_path, reversed(lines))), "")
        transcript = _Transcript(self._store, context, agent, conversation, path)
        if find(self._store, conversation) is None:
            if self._limits.transcript and not transcript.conversations and _is_fork(lines):
                # the transcript says what this is a fork of, and it does not exist yet
                self.is_waiting = True
                return
            conversation = transcript.describe(conversation)
        hooked = _HookedConversation(
            self._store, context, load_mapper(agent), conversation, self._files, self._refuse
        )
        lines = hooked.unread(lines)
        self._result.lines += len(lines)
        self._result.starts += any(_hook_name(line) in STARTS for line in lines)
        if not lines:
            return
        # Starts come first because they create the session. The transcript comes before everything
        # else: it contains what happened before a compaction, which must be recorded before the
        # compaction itself.
        first = next((n for n, line in enumerate(lines) if not _is_start(line)), len(lines))
        hooked.transcript = path or hooked.transcript
        hooked.record(lines[:first])
        hooked.has_transcript = transcript.read(self._limits, self._result.transcripts)
        hooked.record(lines[first:])
        if _hook_name(lines[-1]) in ENDS:
            # Not before: until the program has ended, a call without a result may still get one.
            transcript.read(self._limits, self._result.transcripts, conclude=True)
        self._result.commits += hooked.commits
        if hooked.session not in self._result.names:
            self._result.names.append(hooked.session)


class _HookedConversation:
    """One conversation, as its hooks report it."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        mapper: Mapper,
        conversation: Conversation,
        files: frozenset[str],
        refuse: Callable[[spool.SpoolLine, str], None],
    ) -> None:
        self._store = store
        self._context = context
        self._mapper = mapper
        self._conversation = conversation
        self._files = files
        self._refuse = refuse
        self._recorders: dict[str, Recorder] = {}
        self.session = conversation.session
        self.commits = 0
        self.has_transcript = False
        known = self._noted()
        self.transcript: str = known.get("transcript") or ""
        self._state: dict[str, Any] = known.get("state") or {}
        self._process = {"process": known.get("process") or [0, 0, 0], "at": known.get("at", 0)}
        # Files that are gone cannot be read again; their offsets would only make the note grow.
        self._read_up_to: dict[str, int] = {
            name: end for name, end in (known.get("read") or {}).items() if name in files
        }

    def _noted(self) -> dict[str, Any]:
        main = self._recorder("")
        self.session = main.session
        found = main.cursor(HOOKS)
        return found if isinstance(found, dict) else {}

    def unread(self, lines: list[spool.SpoolLine]) -> list[spool.SpoolLine]:
        """The lines that an earlier process, which died before it removed the file, did not record."""
        return [line for line in lines if line.end > self._read_up_to.get(line.file, 0)]

    def record(self, lines: list[spool.SpoolLine]) -> None:
        """Record the lines, together with how far each file was read."""
        if not lines:
            return
        self._state["no transcript"] = not self.has_transcript
        for line in lines:
            # the old state stays in the recorded note until this line is recorded
            state = deepcopy(self._state)
            try:
                items = list(self._mapper.items(line.payload, line.at, line.id, state))
            except Exception as error:  # a mapper may raise anything on hostile input
                # keep the line before it counts as read, or a crash in between would lose it
                self._refuse(line, f"{line.agent} {self._conversation.id}: {_error_text(error)}")
                items, state = [], self._state
            if any(isinstance(item, Compacted) for item in items):
                # a compaction is recorded immediately; everything before it must be recorded first
                self._flush()
            for item in items:
                if not self._is_in_transcript(item):
                    self.commits += len(self._recorder(item.within).take(item))
            self._state = state
            self._process = {"process": list(line.process), "at": line.at}
            self._read_up_to[line.file] = line.end
        self._flush()

    def _is_in_transcript(self, item: Item) -> bool:
        """Whether the transcript contains an item under another id: ids of prompts are made from
        their text, and secrets in this one were redacted."""
        return (
            self.has_transcript
            and isinstance(item, Prompted)
            and isinstance(item.content, str)
            and has_placeholder(item.content)
        )

    def _flush(self) -> None:
        """Record everything. Sub-agents come first; the note that all was read comes last."""
        note = {
            "state": self._state,
            "read": self._read_up_to,
            "transcript": self.transcript,
            "cwd": self._conversation.cwd,
            **self._process,
        }
        for within, recorder in self._recorders.items():
            if within:
                self.commits += len(recorder.flush())
        commits = self._recorder("").flush(cursor=(HOOKS, note))
        self.commits += sum(commit.kind != "scratch" for commit in commits)

    def _recorder(self, within: str) -> Recorder:
        known = self._recorders.get(within)
        if known is None:
            if within:
                # a sub-agent's session refers to its parent's, so the parent must exist first
                self._flush()
            conversation = (
                subagent_conversation(self._conversation, within) if within else self._conversation
            )
            known = Recorder(self._store, self._context, conversation, via="hook")
            self._recorders[within] = known
        return known


class _Transcript:
    """A conversation's transcript, with the sub-agents in it."""

    def __init__(
        self, store: StorePort, context: Context, agent: str, conversation: Conversation, path: str
    ) -> None:
        self._store = store
        self._context = context
        self._path = path
        self._own = conversation.id
        self._format = _format_of(agent) if path else None
        self._problem = ""
        self.conversations: list[FoundConversation] = []
        """The conversations in the file; empty if it is not a transcript of this conversation."""
        try:
            self.conversations = self._find_conversations()
        except Exception as error:  # a format may raise anything on a hostile file
            self._problem = _error_text(error)

    def _find_conversations(self) -> list[FoundConversation]:
        path, format = Path(self._path), self._format
        if format is None or not os.path.isfile(path):
            return []
        if not format.recognizes(path, read_beginning(self._path, BEGIN)):
            return []
        return [
            found
            for found in format.conversations(path)
            if self._own in (found.conversation.id, found.conversation.parent)
        ]

    def describe(self, known: Conversation) -> Conversation:
        """The conversation with what only the transcript knows: its name and what it was forked
        from."""
        for found in self.conversations:
            if found.conversation.id == known.id:
                return msgspec.structs.replace(found.conversation, cwd=known.cwd)
        return known

    def read(self, limits: IngestLimits, report: Report, *, conclude: bool = False) -> bool:
        """Import what is new in the transcript; return whether it could be read."""
        try:
            for found in self.conversations:
                if self._format is not None and not self._is_too_much(found, limits):
                    import_conversation(
                        self._store, self._context, self._format, found, report, via="hook",
                        conclude=conclude,
                    )  # fmt: skip
        except StoreError:
            raise
        # an unreadable transcript must not keep the hooks' lines from being recorded
        except Exception as error:
            self._problem = _error_text(error)
        if self._problem:
            report.refused.setdefault(self._path, self._problem)
        return bool(self.conversations) and not self._problem

    def _is_too_much(self, found: FoundConversation, limits: IngestLimits) -> bool:
        if not limits.transcript:
            return False
        note = noted_cursor(self._store, found.conversation.session, found.cursor_name)
        known = note.get("offset", 0) if isinstance(note, dict) else 0
        return found.size - known > limits.transcript


def reconcile(store: StorePort, context_for: ContextFor, session: str, report: Report) -> bool:
    """Import a session's transcript again, up to its current end; return False if none is known."""
    row = store.session(session)
    note = noted_cursor(store, session, HOOKS)
    path = note.get("transcript") if isinstance(note, dict) else ""
    if not path or not row.record.aliases:
        return False
    source, foreign = row.record.aliases[0]
    conversation = Conversation(source=source, id=foreign, cwd=str(note.get("cwd") or ""))
    transcript = _Transcript(store, context_for(conversation.cwd), source, conversation, path)
    return transcript.read(NO_LIMITS, report)


def _namespace() -> int:
    """The pid namespace in which process ids are valid here; -1 if it is unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return -1


def _format_of(agent: str) -> Format | None:
    try:
        return registry.load(agent)
    except (InvalidInput, ImportError):
        return None


def _transcript_path(line: spool.SpoolLine) -> str:
    path = line.payload.get("transcript_path")
    return path if isinstance(path, str) and os.path.isabs(path) and "\0" not in path else ""


def _hook_name(line: spool.SpoolLine) -> str:
    name = line.payload.get("hook_event_name")
    return name if isinstance(name, str) else ""


def _is_start(line: spool.SpoolLine) -> bool:
    """Whether a line only reports that a conversation starts or is resumed."""
    return _hook_name(line) in STARTS and line.payload.get("source") != "compact"


def _is_fork(lines: list[spool.SpoolLine]) -> bool:
    """Whether nothing is known of a conversation except that it started as a fork."""
    starts = all(_hook_name(line) in STARTS for line in lines)
    return starts and any(line.payload.get("source") == "fork" for line in lines)


def _error_text(error: Exception) -> str:
    return without_secrets(f"{type(error).__name__}: {error}")[:400]
