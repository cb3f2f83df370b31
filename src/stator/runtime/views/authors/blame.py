"""Answers which turn each line of a file comes from, over every session that touched it.

The writes of a file are found by its key, in one session or in all of a project, and taken in the order in which they
happened. A file that was renamed is followed to the name it had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from stator.errors import InvalidInput
from stator.model.exchange.hunks import Place
from stator.model.exchange.kept_contents import place_key
from stator.model.log.commit import Commit
from stator.model.log.delta import Put, Version
from stator.model.log.shown_text import cut_short
from stator.model.records.text import prompt_text
from stator.model.records.types import FileRecord, file_key
from stator.model.views.blame import BEFORE, BETWEEN, SINCE, UNKNOWN, FileEvent, blame
from stator.model.views.file_story import RESTORED, Edit, FileStory, Held
from stator.model.views.patch import is_binary
from stator.runtime.base.pages import commit_at
from stator.runtime.files.capture import look_at
from stator.runtime.views.contents import ContentReader
from stator.store.port import StorePort

TOUCHES_MAX = 1_000
"""The newest touches of a file that are looked at."""
RENAMES_MAX = 20
PROMPT_MAX = 200
"""Characters of a prompt."""

LineSource = Literal["recorded", "before", "between", "since", "unknown"]
"""Where a line comes from: a recorded write; before any of them; a change between two of them, or after the last one,
that is not recorded; unknown, because what some write changed is not."""
SOURCES: dict[int, LineSource] = {
    BEFORE: "before",
    BETWEEN: "between",
    SINCE: "since",
    UNKNOWN: "unknown",
}


class BlameLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file, with the write that it comes from."""

    line: int
    text: str
    source: LineSource
    session: str = ""
    turn: int = 0
    seq: int = 0
    at: int = 0
    prompt: str = ""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a file, each with where it comes from."""

    path: str
    root: str
    lines: list[BlameLine]
    writes: int
    """Recorded writes that were looked at."""
    sessions: int
    on_disk: bool
    """Whether these are the lines on disk; otherwise they are those that the last record left."""
    is_cut: bool = False
    """Whether there are earlier touches that were not looked at."""
    asked: str = ""
    """The path that was asked about, where only one that ends so is recorded: the same file in another checkout."""
    others: list[str] = []
    """More recorded paths that end so."""


class _Taken(msgspec.Struct, frozen=True):
    """A version of a file's record, where it is and when it happened."""

    at: int
    session: str
    version: Version
    commit: Commit


class _Found(msgspec.Struct):
    taken: list[_Taken]
    is_cut: bool = False


def on_disk(base: str, path: str, root: str) -> str | None:
    """What a file holds now; None if it is not there. What has no lines is refused."""
    look = look_at(base, FileRecord(path=path, root=root, op="read"))
    if not look.there:
        return None
    if look.data is None or is_binary(look.data):
        why = "it is no text" if look.data is not None else look.why or "it cannot be read"
        raise InvalidInput(f"{path!r:.80} has no lines to show: {why}", path="$.path")
    return look.data.decode()


def blame_file(
    store: StorePort,
    path: str,
    root: str,
    *,
    session: str | None,
    project: str | None,
    now: str | None,
) -> Blame:
    """Where the lines of a file come from; `now` is its content on disk, None if it is not there or no text."""
    found = _collected(store, file_key(root, path), session, project)
    events = _Events(store)
    made = blame(events.of(found.taken), now)
    lines: list[BlameLine] = []
    by_write = {by for by in made.by if by >= 0} if made else set()
    prompts = _prompts(
        store, {(t.session, t.version.turn) for t in map(found.taken.__getitem__, by_write)}
    )
    for n, (text, by) in enumerate(zip(made.lines, made.by, strict=True) if made else (), 1):
        if by < 0:
            lines.append(BlameLine(line=n, text=text, source=SOURCES[by]))
            continue
        taken = found.taken[by]
        turn = taken.session, taken.version.turn
        lines.append(
            BlameLine(
                line=n,
                text=text,
                source="recorded",
                session=taken.session,
                turn=turn[1],
                seq=taken.version.seq,
                at=taken.commit.when,
                prompt=prompts.get(turn, ""),
            )
        )
    return Blame(
        path=path, root=root, lines=lines, writes=events.writes,
        sessions=len({taken.session for taken in found.taken}),
        on_disk=now is not None, is_cut=found.is_cut,
    )  # fmt: skip


def _collected(store: StorePort, key: str, session: str | None, project: str | None) -> _Found:
    """Every touch of a file, oldest first, those under its earlier names too."""
    found = _Found([])
    before: _Taken | None = None
    for _ in range(RENAMES_MAX):  # a file may get back a name that it had before
        touches = _touches(store, key, session, project)
        found.is_cut = found.is_cut or len(touches) >= TOUCHES_MAX
        own = [taken for taken in touches if before is None or _precedes(taken, before)]
        came = next((n for n in reversed(range(len(own))) if _source(own[n], key)), None)
        found.taken = own[came or 0 :] + found.taken
        if came is None:
            break
        before, key = own[came], _source(own[came], key)
    return found


def _precedes(taken: _Taken, other: _Taken) -> bool:
    if taken.session == other.session:
        return taken.version.seq < other.version.seq
    return taken.at < other.at


def _source(taken: _Taken, key: str) -> str:
    """The key of the name that a file had before a rename; nothing if this was none."""
    record = _record(taken.version)
    if record is None or record.op != "renamed" or not record.from_path:
        return ""
    source = file_key(record.root, record.from_path)
    return source if source != key else ""


def _record(version: Version) -> FileRecord | None:
    record = version.op.record if isinstance(version.op, Put) else None
    return record if isinstance(record, FileRecord) else None


def _touches(store: StorePort, key: str, session: str | None, project: str | None) -> list[_Taken]:
    """The touches of one name, in the order in which they happened. Within a session that is the order of its log."""
    found: list[_Taken] = []
    latest: dict[str, int] = {}
    touches = store.touches("files", key, session=session, project=project, limit=TOUCHES_MAX)
    for touch in reversed(touches):
        commit = commit_at(store, touch.session, touch.seq, load=False)
        if commit.kind == "rewind":  # it leaves the disk alone
            continue
        at = latest[touch.session] = max(commit.when, latest.get(touch.session, 0))
        for n, op in enumerate(commit.delta):
            version = Version(touch.seq, n, touch.turn, key, op)
            record = _record(version)
            if record is not None and file_key(record.root, record.path) == key:
                found.append(_Taken(at, touch.session, version, commit))
    return sorted(found, key=lambda taken: (taken.at, taken.session, taken.version.seq))


class _Events:
    """Turns touches into what happened to the file."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._stories: dict[str, FileStory] = {}
        self._readers: dict[str, ContentReader] = {}
        self._held = ""
        """The digest of what the last event left, if that is known."""
        self.writes = 0

    def of(self, touches: list[_Taken]) -> Iterator[FileEvent]:
        for by, taken in enumerate(touches):
            edit = self._stories.setdefault(taken.session, FileStory()).take(taken.version)
            if edit is None:
                continue
            self.writes += edit.record.op != "read"
            event = self._event(by, taken, edit)
            if event is not None:
                yield event

    def _event(self, by: int, taken: _Taken, edit: Edit) -> FileEvent | None:
        record = edit.record
        after = self._text(taken.session, edit.end)
        if record.op == "read":
            self._held = record.after if after is not None else self._held
            return FileEvent(by=by, is_look=True, after=after, left=record.after)
        if record.op == "deleted":
            self._held = ""
            return FileEvent(by=by, is_gone=True)
        start = edit.start
        unchanged = start is not None and start.digest != "" and start.digest == self._held
        before = None if unchanged else self._text(taken.session, start)
        places = self._places(taken.session, record) if after is None else ()
        if record.op == "renamed" and after is None and not places and not record.after:
            return None  # the same lines under another name
        self._held = record.after if after is not None else ""
        # What was kept and cannot be read, because it was erased, says no more whose lines these are.
        left = record.after if after is not None or not record.after_in else ""
        return FileEvent(
            by=by, before=before, after=after, places=places, is_new=record.op == "created",
            puts_back=taken.commit.status == RESTORED,
            turn=(taken.session, taken.version.turn), found=record.before, left=left,
        )  # fmt: skip

    def _reader(self, session: str) -> ContentReader:
        return self._readers.setdefault(session, ContentReader(self._store, session))

    def _text(self, session: str, held: Held | None) -> str | None:
        loaded = self._reader(session).load(held) if held is not None else None
        if loaded is None or isinstance(loaded, str):
            return None
        try:
            return loaded[0].decode()
        except UnicodeDecodeError:
            return None

    def _places(self, session: str, record: FileRecord) -> tuple[Place, ...]:
        if not record.patch_in:
            return ()
        found = self._reader(session).places(record.patch_in, place_key(record))
        return () if isinstance(found, str) else found


def _prompts(store: StorePort, turns: set[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """What was asked in turns, each on one line."""
    wanted: dict[str, set[int]] = {}
    for session, turn in turns:
        wanted.setdefault(session, set()).add(turn)
    found: dict[tuple[str, int], str] = {}
    for session, numbers in wanted.items():
        first, last = min(numbers), max(numbers)
        for row in store.turns(session, after=first - 1, upto=last, limit=last - first + 1):
            if row.turn in numbers:
                asked = prompt_text(commit_at(store, session, row.first).known("input", ""))
                found[session, row.turn] = cut_short(" ".join(asked.split()), PROMPT_MAX)
    return found
