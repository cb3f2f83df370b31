"""Imports one conversation: turns a format's items into commits and counts them in a report.

Items are appended in batches that end where a turn ends, and each batch is appended completely or
not at all. An interrupted import therefore leaves whole turns. Most conversations fit into one
batch. The cursor is recorded with the last batch, and the next import starts reading there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.jsonl import fingerprint
from stator.model.exchange.item_commits import UNASKED, UNSEEN
from stator.model.exchange.items import (
    Conversation,
    Cursor,
    Item,
    Noise,
    Prompted,
    Skipped,
    Via,
)
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.records.types import FileRecord
from stator.model.sessions.lifecycle import split_cause
from stator.runtime.base.context import Context
from stator.runtime.ingest.dry_run import Foreteller, is_foretold
from stator.runtime.ingest.recorder import Recorder, find, noted_cursor
from stator.store.port import StorePort

BATCH_ITEMS = 3_000
BATCH_BYTES = 4 * 2**20
"""A batch ends after the turn in which it reaches this size, and at four times this size in any
case."""
SKIPS_LISTED = 100
"""The most unreadable lines that are listed one by one; the others are only counted."""


class SkippedLine(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    path: str
    line: int
    why: str


class Report(msgspec.Struct, kw_only=True):
    """What an import recorded, or would record."""

    sessions: int = 0
    """Conversations from which something new was recorded."""
    unchanged: int = 0
    turns: int = 0
    calls: int = 0
    files: int = 0
    """Files that were touched, each counted once per conversation."""
    commits: int = 0
    in_doubt: int = 0
    orphans: int = 0
    """Results without a call."""
    unknown: int = 0
    """Records of an unknown kind; they are stored unchanged."""
    noise: dict[str, int] = {}
    """Records without content, by kind; they are not stored."""
    skipped: int = 0
    skips: list[SkippedLine] = []
    mended: int = 0
    """Values that were too large or too deep to store and were shortened."""
    refused: dict[str, str] = {}
    """Conversations that could not be imported, and why."""
    names: list[str] = []
    """Ids of the sessions in which something was recorded."""

    def count(self, path: str, item: Item) -> None:
        """Count an item that is never recorded."""
        if isinstance(item, Skipped):
            self.skipped += 1
            if len(self.skips) < SKIPS_LISTED:
                self.skips.append(SkippedLine(path, item.line, item.why))
        elif isinstance(item, Noise):
            self.noise[item.kind] = self.noise.get(item.kind, 0) + 1

    def recorded(self, commits: Sequence[Commit | Draft]) -> None:
        """Count newly recorded commits."""
        self.commits += len(commits)
        for commit in commits:
            self.turns += commit.kind == "turn"
            self.calls += commit.kind == "call"
            self.orphans += commit.kind == "call" and split_cause(commit.cause)[1] == UNASKED
            self.unknown += commit.kind == "raw"
            self.in_doubt += commit.kind == "outcome" and commit.status == "in doubt"

    def add(self, other: Report) -> None:
        """Add the counts of another report."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, number in other.noise.items():
            self.noise[kind] = self.noise.get(kind, 0) + number
        self.skips += other.skips[: max(0, SKIPS_LISTED - len(self.skips))]
        self.refused |= other.refused
        self.names += other.names


COUNTS = tuple(name for name in Report.__struct_fields__ if Report.__annotations__[name] == "int")
"""The fields of a report that are counts."""


def import_conversation(
    store: StorePort,
    context: Context,
    format: Format,
    found: FoundConversation,
    report: Report,
    *,
    progress: Progress | None = None,
    via: Via = "import",
    conclude: bool = True,
    predicted: set[int] | None = None,
) -> None:
    """Import what is new in a conversation, and in the sub-agents whose records are in the same
    file.

    With `predicted`, nothing is recorded, only counted (a dry run). The set starts empty and is
    passed from one conversation to the next: it holds what the import would have recorded so far,
    so that items which occur in several files count once.
    """
    importing = _ConversationImport(store, context, found, report, via, predicted)
    cursor = importing.cursor()
    # The conversation is here from a better source, under other ids: reading this file would record it twice.
    if (
        found.is_fallback
        and cursor is None
        and is_foretold(store, found.conversation, predicted or set())
    ):
        report.unchanged += 1
        return
    for item in format.read(found, cursor, progress):
        importing.add(item)
    importing.finish(conclude=conclude)


class _ConversationImport:
    """The import of one conversation."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        found: FoundConversation,
        report: Report,
        via: Via,
        predicted: set[int] | None,
    ) -> None:
        self._store = store
        self._context = context
        self._found = found
        self._report = report
        self._via: Via = via
        self._predicted = predicted
        self._recorders: dict[str, Recorder] = {}
        self._cursor: Cursor | None = None
        self._bytes = 0
        self._new = 0
        self._touched: set[str] = set()

    def cursor(self) -> Cursor | None:
        """Where to start reading; None if the file was replaced since it was read."""
        row = find(self._store, self._found.conversation)
        return (
            None
            if row is None
            else _valid_cursor(
                noted_cursor(self._store, row.id, self._found.cursor_name), self._found
            )
        )

    def add(self, item: Item) -> None:
        """Record or count one item."""
        self._report.count(self._found.path, item)
        if isinstance(item, (Skipped, Noise)):
            return
        if isinstance(item, Cursor):
            self._cursor = item
            return
        full = self._waiting >= BATCH_ITEMS or self._bytes >= BATCH_BYTES
        begins_turn = isinstance(item, Prompted) and not item.within
        if (
            (full and begins_turn)
            or self._waiting >= 4 * BATCH_ITEMS
            or self._bytes >= 4 * BATCH_BYTES
        ):
            self._flush()
        recorder = self._recorder(item.within)
        self._count(recorder, recorder.take(item))
        self._bytes += _size(item)

    def finish(self, *, conclude: bool) -> None:
        """Record the last batch together with the cursor; `conclude` settles calls without a
        result."""
        cause = UNSEEN if conclude else ""
        self._flush(conclude=cause, cursor=True)
        if self._new or any(recorder.is_new for recorder in self._recorders.values()):
            self._report.sessions += 1
            self._report.names += [recorder.session for recorder in self._recorders.values()]
        else:
            self._report.unchanged += 1
        self._report.files += len(self._touched)
        self._report.mended += sum(recorder.mended for recorder in self._recorders.values())

    @property
    def _waiting(self) -> int:
        return sum(recorder.waiting for recorder in self._recorders.values())

    def _recorder(self, within: str) -> Recorder:
        """The recorder of this conversation, or of the sub-agent `within`."""
        known = self._recorders.get(within)
        if known is None:
            if within:
                # a sub-agent's session refers to its parent's, so the parent must exist first
                self._recorder("")
                self._flush()
            conversation = (
                self._found.conversation
                if not within
                else subagent_conversation(self._found.conversation, within)
            )
            known = (
                Recorder(self._store, self._context, conversation, via=self._via)
                if self._predicted is None
                else Foreteller(self._store, self._context, conversation, self._predicted)
            )
            self._recorders[within] = known
        return known

    def _flush(self, *, conclude: str = "", cursor: bool = False) -> None:
        for within, recorder in list(self._recorders.items()):
            noted = self._note() if cursor and not within and self._cursor is not None else None
            # An unchanged cursor is not recorded again, or every import would add a commit to every session.
            if noted is not None and recorder.cursor(self._found.cursor_name) == noted:
                noted = None
            named_note = None if noted is None else (self._found.cursor_name, noted)
            self._count(recorder, recorder.flush(conclude=conclude, cursor=named_note))
        self._bytes = 0

    def _note(self) -> dict[str, Any]:
        """The note to record: the cursor, and a fingerprint to notice later whether the file was
        rewritten."""
        assert self._cursor is not None  # the caller checked
        return {
            "offset": self._cursor.offset,
            "line": self._cursor.line,
            "state": self._cursor.state,
            "seen": fingerprint(self._found.path, self._cursor.offset),
        }

    def _count(self, recorder: Recorder, commits: list[Commit]) -> None:
        new = recorder.told() if isinstance(recorder, Foreteller) else commits
        self._report.recorded(new)
        for one in new:
            self._touched |= _touched_files(one)
        # A scratch is our own cursor: a conversation that gained nothing else counts as unchanged.
        self._new += sum(one.kind != "scratch" for one in new)


def _touched_files(one: Commit | Draft) -> set[str]:
    """The files that a commit touches, under names that are unique within a conversation; a rename touches two."""
    if isinstance(one, Commit):
        return {op.id for op in one.delta if op.collection == "files"}
    records = [change.record for change in one.changes if isinstance(change, Upsert)]
    files = [record for record in records if isinstance(record, FileRecord)]
    return {f"{file.root} {path}" for file in files for path in (file.path, file.from_path) if path}


def subagent_conversation(parent: Conversation, within: str) -> Conversation:
    """The conversation of a sub-agent whose records are in its parent's file."""
    return Conversation(
        source=parent.source,
        id=within,
        name=f"{parent.name or parent.id[:8]}/{within.rpartition('/')[2]}",
        agent=parent.agent,
        cwd=parent.cwd,
        project=parent.project,
        parent=parent.id,
    )


def _valid_cursor(note: Any, found: FoundConversation) -> Cursor | None:
    """The cursor in a recorded note; None if the file has been replaced since."""
    if not isinstance(note, dict) or not isinstance(note.get("offset"), int):
        return None
    offset = note["offset"]
    if offset > found.size or fingerprint(found.path, offset) != note.get("seen"):
        return None
    return Cursor(offset=offset, line=note.get("line", 0), state=note.get("state") or {})


def _size(item: Item) -> int:
    """Roughly how many bytes an item holds."""
    for name in ("content", "reply", "input", "output", "raw"):
        value = getattr(item, name, None)
        if isinstance(value, str):
            return len(value)
        if value is not None:
            try:
                return len(repr(value))
            except RecursionError:
                break  # nested too deeply to measure; it is shortened when it is recorded
    return 8
