"""Taking a conversation in: from a format's items to commits, with a report of what came of it.

What is taken is appended in parts that end where a turn does, each all or nothing, so that whatever
interrupts an import leaves whole turns, and most conversations are one part. The place reading has
come to is recorded with the last of them: the next import goes on there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stator.importers.format import Format, Found, Progress
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
from stator.runtime.base.context import Context
from stator.runtime.ingest.dry_run import Foreteller, is_foretold
from stator.runtime.ingest.recorder import Recorder, find, noted_cursor
from stator.store.port import StorePort

PART_ITEMS = 3_000
PART_BYTES = 4 * 2**20
"""A part ends with the turn in which it has come to so much, and at four times that anywhere."""
SKIPPED_SHOWN = 100
"""Lines that could not be read and are named; of the others only the number is known."""


class Skip(msgspec.Struct, frozen=True):
    """A line that could not be read."""

    path: str
    line: int
    why: str


class Report(msgspec.Struct, kw_only=True):
    """What an import did, or would do."""

    sessions: int = 0
    """Conversations that something new came from."""
    unchanged: int = 0
    turns: int = 0
    calls: int = 0
    files: int = 0
    """Files that were touched, each counted once in a conversation."""
    commits: int = 0
    in_doubt: int = 0
    orphans: int = 0
    """Results without a call."""
    unknown: int = 0
    """Records nobody can read yet; they are kept."""
    noise: dict[str, int] = {}
    """Records that say nothing, by kind; they are not kept."""
    skipped: int = 0
    skips: list[Skip] = []
    mended: int = 0
    """Values that no commit can hold."""
    refused: dict[str, str] = {}
    """Conversations that could not be taken, and why."""
    names: list[str] = []
    """Ids of the sessions that something came into."""

    def count(self, path: str, item: Item) -> None:
        """Count what is never recorded."""
        if isinstance(item, Skipped):
            self.skipped += 1
            if len(self.skips) < SKIPPED_SHOWN:
                self.skips.append(Skip(path, item.line, item.why))
        elif isinstance(item, Noise):
            self.noise[item.kind] = self.noise.get(item.kind, 0) + 1

    def recorded(self, commits: Sequence[Commit | Draft]) -> None:
        """Count what is new in the log."""
        self.commits += len(commits)
        for commit in commits:
            self.turns += commit.kind == "turn"
            self.calls += commit.kind == "call"
            self.orphans += commit.kind == "call" and commit.cause == UNASKED
            self.unknown += commit.kind == "raw"
            self.in_doubt += commit.kind == "outcome" and commit.status == "in doubt"

    def add(self, other: Report) -> None:
        """Count what another report counted."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, number in other.noise.items():
            self.noise[kind] = self.noise.get(kind, 0) + number
        self.skips += other.skips[: max(0, SKIPPED_SHOWN - len(self.skips))]
        self.refused |= other.refused
        self.names += other.names


COUNTED = tuple(name for name in Report.__struct_fields__ if Report.__annotations__[name] == "int")
"""The numbers of a report."""


def take(
    store: StorePort,
    context: Context,
    form: Format,
    found: Found,
    report: Report,
    *,
    progress: Progress | None = None,
    via: Via = "import",
    conclude: bool = True,
    foretold: set[int] | None = None,
) -> None:
    """Take in what is new of a conversation, and of the sub-agents it tells of itself.

    With `foretold` (empty at first, then handed on from one conversation to the next) nothing is
    recorded: it is counted, and what other files tell of it too counts once.
    """
    taking = _Taking(store, context, found, report, via, foretold)
    cursor = taking.cursor()
    if (
        found.is_second_hand
        and cursor is None
        and is_foretold(store, found.conversation, foretold or set())
    ):
        report.unchanged += 1
        return
    for item in form.read(found, cursor, progress):
        taking.take(item)
    taking.finish(conclude=conclude)


class _Taking:
    """One conversation being taken in."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        found: Found,
        report: Report,
        via: Via,
        foretold: set[int] | None,
    ) -> None:
        self._store = store
        self._context = context
        self._found = found
        self._report = report
        self._via: Via = via
        self._foretold = foretold
        self._recorders: dict[str, Recorder] = {}
        self._cursor: Cursor | None = None
        self._bytes = 0
        self._new = 0
        self._touched: set[str] = set()

    def cursor(self) -> Cursor | None:
        """Where reading goes on, if the file is still the one that was read."""
        row = find(self._store, self._found.conversation)
        return (
            None if row is None else _known(_noted(self._store, row.id, self._found), self._found)
        )

    def take(self, item: Item) -> None:
        self._report.count(self._found.path, item)
        if isinstance(item, (Skipped, Noise)):
            return
        if isinstance(item, Cursor):
            self._cursor = item
            return
        full = self._waiting >= PART_ITEMS or self._bytes >= PART_BYTES
        whole = isinstance(item, Prompted) and not item.within
        if (full and whole) or self._waiting >= 4 * PART_ITEMS or self._bytes >= 4 * PART_BYTES:
            self._flush()
        recorder = self._recorder(item.within)
        self._count(recorder, recorder.take(item))
        self._bytes += _size(item)

    def finish(self, *, conclude: bool) -> None:
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
        known = self._recorders.get(within)
        if known is None:
            if within:
                self._recorder("")  # a sub-agent's parent comes first
                self._flush()
            talk = (
                self._found.conversation if not within else below(self._found.conversation, within)
            )
            known = (
                Recorder(self._store, self._context, talk, via=self._via)
                if self._foretold is None
                else Foreteller(self._store, self._context, talk, self._foretold)
            )
            self._recorders[within] = known
        return known

    def _flush(self, *, conclude: str = "", cursor: bool = False) -> None:
        for within, recorder in list(self._recorders.items()):
            noted = self._note() if cursor and not within and self._cursor is not None else None
            if noted is not None and recorder.cursor(self._found.place) == noted:
                noted = None
            place = None if noted is None else (self._found.place, noted)
            self._count(recorder, recorder.flush(conclude=conclude, cursor=place))
        self._bytes = 0

    def _note(self) -> dict[str, Any]:
        assert self._cursor is not None  # asked before
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
            self._touched |= _files(one)
        self._new += sum(one.kind != "scratch" for one in new)


def _files(one: Commit | Draft) -> set[str]:
    """The files something touches, by names that hold within a conversation."""
    if isinstance(one, Commit):
        return {op.id for op in one.delta if op.collection == "files"}
    records = [change.record for change in one.changes if isinstance(change, Upsert)]
    return {f"{file.root} {file.path}" for file in records if isinstance(file, FileRecord)}


def below(above: Conversation, within: str) -> Conversation:
    """A sub-agent's conversation that its parent's own record tells of."""
    return Conversation(
        source=above.source,
        id=within,
        name=f"{above.name or above.id[:8]}/{within.rpartition('/')[2]}",
        agent=above.agent,
        cwd=above.cwd,
        project=above.project,
        parent=above.id,
    )


def _noted(store: StorePort, session: str, found: Found) -> Any:
    return noted_cursor(store, session, found.place)


def _known(note: Any, found: Found) -> Cursor | None:
    """The cursor a note holds, unless the file is another one by now."""
    if not isinstance(note, dict) or not isinstance(note.get("offset"), int):
        return None
    offset = note["offset"]
    if offset > found.size or fingerprint(found.path, offset) != note.get("seen"):
        return None
    return Cursor(offset=offset, line=note.get("line", 0), state=note.get("state") or {})


def _size(item: Item) -> int:
    """About how many bytes an item brings."""
    for name in ("content", "reply", "input", "output", "raw"):
        value = getattr(item, name, None)
        if isinstance(value, str):
            return len(value)
        if value is not None:
            try:
                return len(repr(value))
            except RecursionError:  # too deep to keep: what is kept says so, and is small
                break
    return 8
