"""Imports one conversation: turns a format's items into commits and counts them in a report.

Where to continue reading, and what drafting must remember there, is one note that is written with the commits
(`FileBookmark`). If it is lost, the file is read again from its beginning, and what is recorded already is skipped. If
another process has read further, this one starts again from its note.

The end of a file is no evidence that nothing follows. Only for a conversation at rest is recorded what its reader
still holds back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stator.errors import Conflict, HeadMoved
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.jsonl import fingerprint
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.item_commits import UNASKED, DraftingState
from stator.model.exchange.items import (
    Conversation,
    Cursor,
    Item,
    Noise,
    Skipped,
    Via,
)
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.query import SessionRow
from stator.model.records.types import FileRecord
from stator.model.sessions.lifecycle import split_cause
from stator.model.views.open_calls import HISTORY_US, REST_US, fate
from stator.runtime.base.context import Context
from stator.runtime.ingest.dry_run import Foreteller, is_foretold
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import ParentBehind, Recorded, Recorder
from stator.store.port import StorePort

TAIL_MAX = 8 * 2**20
"""Bytes of a file beyond what was recorded that are looked at for a reader."""
ATTEMPTS = 50
"""How often reading starts again because another process was first."""
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
    waiting: int = 0
    """Sub-agents and forks that begin at a place that is not recorded yet."""
    held: int = 0
    """Conversations that may still continue: what they end with is recorded when they are at rest."""

    def count(self, path: str, item: Item) -> None:
        """Count an item that is never recorded."""
        if isinstance(item, Skipped):
            self.skipped += 1
            if len(self.skips) < SKIPS_LISTED:
                self.skips.append(SkippedLine(path, item.line, item.why))
        elif isinstance(item, Noise):
            self.noise[item.kind] = self.noise.get(item.kind, 0) + 1

    def recorded(self, commits: Sequence[Recorded]) -> None:
        """Count newly recorded commits."""
        self.commits += len(commits)
        for commit in commits:
            self.turns += commit.kind == "turn"
            self.calls += commit.kind == "call"
            self.orphans += commit.kind == "call" and split_cause(commit.cause)[1] == UNASKED
            self.unknown += commit.kind == "raw"

    def recorded_so_far(self) -> Report:
        """What was recorded; the lines are read again, and are counted then."""
        return Report(
            turns=self.turns,
            calls=self.calls,
            commits=self.commits,
            orphans=self.orphans,
            unknown=self.unknown,
        )

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


class FileBookmark(msgspec.Struct, omit_defaults=True):
    """How far a file was read: the place, what the reader must know there, and what drafting must."""

    offset: int
    mapper: str
    seen: str = ""
    """A fingerprint of the file up to there: a file that was replaced is read from its beginning."""
    line: int = 0
    state: dict[str, Any] = {}
    drafting: dict[str, DraftingState] = {}
    """By sub-agent; "" is the conversation itself."""
    path: str = ""
    rested: bool = False
    """Whether all that was held back was recorded, because the conversation was at rest."""
    stamp: str = ""
    """The file as it was when nothing of it was left to record (`FoundConversation.stamp`)."""


def import_conversation(
    store: StorePort,
    context: Context,
    format: Format,
    found: FoundConversation,
    report: Report,
    *,
    progress: Progress | None = None,
    via: Via = "import",
    at_rest: bool | None = None,
    stop: Callable[[], bool] = lambda: False,
    predicted: set[int] | None = None,
    make: Callable[..., Recorder] = Recorder,
    row: SessionRow | None = None,
    from_start: bool = False,
) -> bool:
    """Import what is new in a conversation, and in the sub-agents whose records are in the same
    file; return whether all of it was read.

    `at_rest` says whether the conversation may continue at any moment; None: judge by its times. `stop` ends the
    reading early; what was read is recorded. With `predicted`, nothing is recorded, only counted (a dry run). The set
    starts empty and is passed from one conversation to the next: it holds what the import would have recorded so far,
    so that items which occur in several files count once. `make` makes the recorder. `row`: the session it is recorded
    in, where that is known. `from_start` reads the file from its beginning, even if it seems not to have changed.
    """
    conversation = msgspec.structs.replace(found.conversation, mapper=mapper_of(format, found))
    found = msgspec.structs.replace(found, conversation=conversation)
    for _ in range(ATTEMPTS):
        importing = _ConversationImport(store, context, format, found, via, predicted, make, row)
        if from_start:
            importing.forget_note()
        elif importing.is_unchanged:
            report.unchanged += 1
            return True
        # The conversation is here from a better source, under other ids: reading this file would record it twice.
        if found.is_fallback and importing.has_better(predicted):
            report.unchanged += 1
            return True
        try:
            is_all = importing.run(progress, at_rest, stop)
        except HeadMoved:
            report.add(importing.report.recorded_so_far())
            continue
        except ParentBehind:
            report.waiting += 1
            is_all = False
        except BaseException:
            report.add(importing.report)  # what was recorded before stays recorded
            raise
        report.add(importing.report)
        return is_all
    raise Conflict(
        f"session {conversation.session}: other processes read its transcript each time this one did",
        hint="try again when less is recorded into it",
        session=conversation.session,
    )


def mapper_of(format: Format, found: FoundConversation) -> str:
    """Which mapping reads a file: the format, its version, and for a fallback which file of the conversation it is."""
    part = f"#{found.part}" if found.is_fallback else ""
    return f"{format.name}/{format.mapper}{part}"


def read_note(store: StorePort, session: str, name: str) -> tuple[int, FileBookmark | None]:
    """The number of a session's note of that name, and the note; None if it says nothing to this release."""
    kept = store.bookmark(session, name)
    if kept is None:
        return 0, None
    try:
        return kept.number, msgspec.convert(kept.value, FileBookmark)
    except msgspec.ValidationError:
        return kept.number, None


def unrecorded_drafts(
    store: StorePort, context: Context, format: Format, found: FoundConversation
) -> list[Draft]:
    """The drafts of what a file holds beyond what was recorded, also of what may still change; nothing is written."""
    row = find(store, found.conversation)
    note = None if row is None else read_note(store, row.id, found.cursor_name)[1]
    at = 0 if note is None else note.offset
    if found.size - at > TAIL_MAX:
        return []
    cursor = None if note is None else Cursor(offset=at, line=note.line, state=note.state)
    state = None if note is None else note.drafting.get("")
    teller = Foreteller(store, context, found.conversation, set(), state=state)
    for item in format.read(found, cursor, None, at_rest=True):
        if not isinstance(item, (Cursor, Skipped, Noise)) and not item.within:
            teller.take(item)
    teller.flush()
    return teller.told()


class _ConversationImport:
    """One pass over the file of a conversation."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        format: Format,
        found: FoundConversation,
        via: Via,
        predicted: set[int] | None,
        make: Callable[..., Recorder],
        row: SessionRow | None,
    ) -> None:
        self._make = make
        self._store = store
        self._context = context
        self._format = format
        self._found = found
        self._via: Via = via
        self._predicted = predicted
        self._recorders: dict[str, Recorder] = {}
        self._bytes = 0
        self._latest = 0
        self._new = 0
        self._touched: set[str] = set()
        self.report = Report()
        row = row or find(store, found.conversation)
        self.number, note = (
            (0, None) if row is None else read_note(store, row.id, found.cursor_name)
        )
        self._note = note if note is not None and self._is_valid(note) else None
        self._kept: dict[str, Any] = {} if self._note is None else msgspec.to_builtins(self._note)
        """The note that is in the store."""

    @property
    def is_unchanged(self) -> bool:
        """Whether all of the file was recorded, and it is as it was then."""
        note, stamp = self._note, self._found.stamp
        return bool(stamp) and note is not None and note.rested and note.stamp == stamp

    def forget_note(self) -> None:
        """Read the file from its beginning; what is recorded is known by its id."""
        self._note, self._kept = None, {}

    def has_better(self, predicted: set[int] | None) -> bool:
        """Whether the conversation is recorded, or would be, from another file than this fallback."""
        talk = self._found.conversation
        row = find(self._store, talk)
        if row is not None:
            return row.record.mapper != talk.mapper
        return is_foretold(self._store, talk, predicted or set())

    def _is_valid(self, note: FileBookmark) -> bool:
        """Whether reading can continue at a note: the same mapping, and the same file as then."""
        return (
            note.mapper == self._found.conversation.mapper
            and note.offset <= self._found.size
            and fingerprint(self._found.path, note.offset) == note.seen
        )

    def run(
        self, progress: Progress | None, at_rest: bool | None, stop: Callable[[], bool]
    ) -> bool:
        """Read and record; return whether all of the file was read."""
        is_all = self._read(progress, stop, at_rest=False)
        rests = self._rests() if at_rest is None else at_rest
        if is_all and rests and not (self._note is not None and self._note.rested):
            is_all = self._read(None, stop, at_rest=True)
        elif is_all and not rests:
            self.report.held += 1
        self._flush(whole=is_all)
        self._conclude_report(at_rest=rests)
        return is_all

    def _rests(self) -> bool:
        """Whether the last thing that happened is long ago; of a file without times to believe, its last change."""
        states = [recorder.state.at for recorder in self._recorders.values()]
        states += [state.get("at", 0) for state in self._kept.get("drafting", {}).values()]
        last, now = max([self._latest, *states], default=0), self._context.clock()
        if not 0 < last <= now:  # no times, or those of a clock that is ahead
            last = self._found.changed
        return now - last >= REST_US

    def _read(self, progress: Progress | None, stop: Callable[[], bool], *, at_rest: bool) -> bool:
        note = self._note
        cursor = (
            None if note is None else Cursor(offset=note.offset, line=note.line, state=note.state)
        )
        is_new = False
        for item in self._format.read(self._found, cursor, progress, at_rest=at_rest):
            if isinstance(item, Cursor):
                self._mark(item, rested=at_rest and is_new)
            else:
                is_new = True
                self._add(item)
            if stop():
                return False
        if at_rest and self._note is not None:
            self._note = msgspec.structs.replace(self._note, rested=True)
        return True

    def _mark(self, cursor: Cursor, *, rested: bool) -> None:
        """Note a place at which reading may continue."""
        note = self._note
        same = note is not None and (note.offset, note.state) == (cursor.offset, cursor.state)
        self._note = FileBookmark(
            offset=cursor.offset,
            mapper=self._found.conversation.mapper,
            line=cursor.line,
            state=cursor.state,
            path=self._found.path,
            rested=rested or (note is not None and same and note.rested),
        )
        if self._waiting >= BATCH_ITEMS or self._bytes >= BATCH_BYTES:
            self._flush(whole=True)

    def _add(self, item: Item) -> None:
        """Record or count one item."""
        self.report.count(self._found.path, item)
        if isinstance(item, (Skipped, Noise)):
            return
        if self._waiting >= 4 * BATCH_ITEMS or self._bytes >= 4 * BATCH_BYTES:
            self._flush(whole=False)
        self._latest = max(self._latest, item.at)
        recorder = self._recorder(item.within)
        self._count(recorder, recorder.take(item))
        self._bytes += _size(item)

    def _conclude_report(self, *, at_rest: bool) -> None:
        report = self.report
        if self._new or any(recorder.is_new for recorder in self._recorders.values()):
            report.sessions += 1
            report.in_doubt += sum(
                self._doubts(recorder, at_rest) for recorder in self._recorders.values()
            )
            report.names += [recorder.session for recorder in self._recorders.values()]
        else:
            report.unchanged += 1
        report.files += len(self._touched)
        report.mended += sum(recorder.mended for recorder in self._recorders.values())

    def _doubts(self, recorder: Recorder, at_rest: bool) -> int:
        """Writes without a result that get none any more, as readers count them: not those of long ago."""
        since = self._context.clock() - HISTORY_US
        return sum(
            fate(call.effect) == "in doubt" and (call.guessed or at_rest) and call.at > since
            for call in recorder.state.calls.values()
        )

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
                self._flush(whole=False)
            conversation = (
                self._found.conversation
                if not within
                else subagent_conversation(self._found.conversation, within)
            )
            left = self._kept.get("drafting", {}).get(within)
            state = None if left is None else msgspec.convert(left, DraftingState)
            known = (
                self._make(self._store, self._context, conversation, via=self._via, state=state)
                if self._predicted is None
                else Foreteller(
                    self._store, self._context, conversation, self._predicted, state=state
                )
            )
            self._recorders[within] = known
        return known

    def _flush(self, *, whole: bool) -> None:
        """Record what was taken; `whole`: all items up to the last noted place were taken, and none after it."""
        children = [recorder for within, recorder in self._recorders.items() if within]
        main = self._recorders.get("")
        if main is None and whole and find(self._store, self._found.conversation):
            main = self._recorder("")
        if main is not None and children:
            self._count(main, main.flush())  # a sub-agent's session hangs at a call of this one
        is_complete = all([self._flush_child(recorder) for recorder in children])
        if main is not None and self._predicted is None:
            # without the note, what a sub-agent waits with is read again
            bookmark = self._bookmark() if whole and is_complete else None
            self._count(main, main.flush(bookmark=bookmark))
            if bookmark is not None:
                self.number, self._kept = bookmark.number, bookmark.value
        elif main is not None:
            self._count(main, main.flush())
        self._bytes = 0

    def _flush_child(self, recorder: Recorder) -> bool:
        """Whether a sub-agent's session could be begun."""
        try:
            self._count(recorder, recorder.flush())
        except ParentBehind:
            self.report.waiting += 1
            return False
        return True

    def _bookmark(self) -> Bookmark | None:
        """The note to keep; None if it is there already."""
        if self._note is None:
            return None
        states = {within: msgspec.to_builtins(one.state) for within, one in self._recorders.items()}
        value = msgspec.to_builtins(
            msgspec.structs.replace(
                self._note, seen=fingerprint(self._found.path, self._note.offset)
            )
        )
        value["drafting"] = self._kept.get("drafting", {}) | states
        if self._note.rested and self._found.stamp:
            value["stamp"] = self._found.stamp
        if value == self._kept:
            return None
        return Bookmark(self._found.cursor_name, self.number + 1, value)

    def _count(self, recorder: Recorder, recorded: Sequence[Recorded]) -> None:
        new = recorder.told() if isinstance(recorder, Foreteller) else recorded
        self.report.recorded(new)
        for one in new:
            self._touched |= _touched_files(one)
        self._new += len(new)


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
