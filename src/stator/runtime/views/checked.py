"""Finds what decides whether steps of a plan read done or claimed: runs of their checks, changes of their files.

Bounded, however long the log is: the newest calls are looked through, and those before the step was last recorded,
which is where an agent runs its check. What lies outside proves nothing, so such a step reads claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stator.model.calls.vocabulary import is_file_tool
from stator.model.exchange.shell_effects import files_touched
from stator.model.exchange.tool_files import command_of, files_of_call
from stator.model.log.commit import Commit
from stator.model.log.delta import Op, Put
from stator.model.log.query import CallQuery, CallRow
from stator.model.records.types import Entry, FileRecord, PlanRecord, file_key
from stator.model.values import paths
from stator.model.views.checked import (
    CheckRun,
    FileChanged,
    ending_of,
    ends_with,
    is_named,
    read_step,
    tidy,
)
from stator.model.views.diff import LOOKS
from stator.runtime.views import reflog
from stator.store.port import StorePort

NEWEST = 100
"""Calls that are looked through for runs of the checks."""
BEFORE = 30
"""Calls before a step was recorded that are looked through, if it was recorded earlier than those."""
BUDGET = 1000
"""Calls and files that are looked at for one answer."""
FILES = 200
"""Files, those touched last first, that are looked through for changes since a check."""
TOO_FAR = "its check did not run in the last {} calls"
TOO_MUCH = "too much happened since its check at @{}"
RAN = ("ok", "error", "timeout")
FAILED = ("error", "timeout")


def read_steps(
    store: StorePort, session: str, entries: Sequence[Entry], at: int | None, folder: str = ""
) -> list[Entry]:
    """Entries of the plan, each step that its record calls done with what readers call it. `store` is the store
    itself; `folder` is the folder in which the session's files are, if it is known."""
    if not any(_is_said_done(entry) for entry in entries):
        return list(entries)
    upto = store.head(session).seq if at is None else at
    looking = _Looking(store, session, upto, folder)
    looking.scan({tidy(step.check) for step in map(_step, entries) if step} - {""})
    return [
        msgspec.structs.replace(entry, record=looking.read(entry, step))
        if (step := _step(entry)) is not None
        else entry
        for entry in entries
    ]


def _step(entry: Entry) -> PlanRecord | None:
    record = entry.record
    return record if isinstance(record, PlanRecord) and record.status == "done" else None


def _is_said_done(entry: Entry) -> bool:
    return _step(entry) is not None


class _Spent(Exception):
    """As much was looked at as one answer may cost."""


class _Looking:
    def __init__(self, store: StorePort, session: str, upto: int, folder: str) -> None:
        self._store, self._id, self._upto = store, session, upto
        self._folders = (folder.rstrip("/"),) if folder else ()
        self._root = folder
        self._left = BUDGET
        rewinds = (rewind.seq for rewind in reflog.rewinds(store, session))
        self._rewound = max((seq for seq in rewinds if seq <= upto), default=0)
        self._runs: dict[str, CheckRun] = {}
        """The newest run of each check."""
        self._scanned = 0
        """Every call after this seq was looked through."""
        self._read: Commit | None = None
        self._wrote: list[FileChanged] = []
        """What the words of these calls say they wrote."""

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Spent

    # -- runs of checks ---------------------------------------------------------------------------

    def scan(self, checks: set[str]) -> None:
        """Look through the newest calls, until the newest run of each check is found."""
        wanted = set(checks)
        if not wanted:
            return
        for number, row in enumerate(self._calls(self._upto, (*RAN, "started")), 1):
            for check, run in self._said(row, wanted):
                self._runs[check] = run
                wanted.discard(check)
            self._note_writes(row)
            self._scanned = row.seq
            if not wanted or number >= NEWEST:
                return
        self._scanned = 0

    def _calls(self, upto: int, statuses: Sequence[str], after: int = 0) -> Iterator[CallRow]:
        """Calls that ended in one of these ways, newest first."""
        query = CallQuery(session=self._id, statuses=tuple(statuses), after=after)
        cursor: tuple[int, ...] | None = (upto + 1,)
        while cursor is not None:
            page = self._store.calls(query, cursor=cursor, limit=50)
            yield from (row for row in page.rows if row.outcome <= self._upto)
            cursor = page.cursor

    def _said(self, row: CallRow, checks: set[str]) -> Iterator[tuple[str, CheckRun]]:
        """What a call says of each of these checks."""
        if is_file_tool(row.tool):
            return
        self._spend()
        command = command_of(self._commit(row.seq).known("input"))
        near = [check for check in checks if check in tidy(command)] if command else []
        if not near:
            return
        output = self._commit(row.outcome).known("output") if row.outcome else None
        for check in near:
            ending = ending_of(check, command, row.status, output, self._folders)
            if ending is not None:
                yield check, CheckRun(row.seq, ending, row.call, ends_with(command, check))

    def _note_writes(self, row: CallRow) -> None:
        """Note the files that a call's own words say it wrote, also if nobody reported them, or it is in doubt."""
        if row.status != "started" and is_file_tool(row.tool):
            return
        given = self._commit(row.seq).known("input")
        touched = (
            files_of_call(row.tool, given)
            if row.status == "started" and isinstance(given, Mapping)
            else files_touched(command_of(given))
        )
        for touch in touched:
            if touch.op in LOOKS:
                continue
            for path in (touch.path, touch.from_path):
                if path:
                    named = paths.split(path, self._root)[1]
                    self._wrote.append(FileChanged(row.outcome or row.seq, named, row.call))

    def _commit(self, seq: int) -> Commit:
        if self._read is None or self._read.seq != seq:
            self._read = self._store.commits(self._id, after=seq - 1, upto=seq, limit=1)[0]
        return self._read

    def _earlier(self, check: str, recorded: int) -> CheckRun | None:
        """The newest run before a step was recorded, if that is certainly the newest of all."""
        found: CheckRun | None = None
        for number, row in enumerate(self._calls(recorded, RAN), 1):
            found = next((run for _, run in self._said(row, {check})), None)
            if found is not None or number >= BEFORE:
                break
        if found is None or found.ending == "failed":
            return found
        between = self._calls(self._scanned - 1, FAILED, after=found.seq)
        failures = [run for row in between for _, run in self._said(row, {check})]
        return failures[0] if failures else found

    # -- one step ---------------------------------------------------------------------------------

    def read(self, entry: Entry, step: PlanRecord) -> PlanRecord:
        check = tidy(step.check)
        if not check:
            return read_step(step, (), ())
        run = self._runs.get(check)
        unknown = ""
        try:
            if run is None and self._scanned:
                run = self._earlier(check, min(entry.seq, self._scanned - 1))
                unknown = TOO_FAR.format(NEWEST)
            if run is None:
                return read_step(step, (), (), unknown)
            return read_step(step, [run], self._changes(step, run), rewound=self._rewound)
        except _Spent:
            unknown = TOO_MUCH.format(run.seq) if run else TOO_FAR.format(NEWEST)
            return read_step(step, [run] if run else (), (), unknown)

    # -- changes of files -------------------------------------------------------------------------

    def _changes(self, step: PlanRecord, run: CheckRun) -> list[FileChanged]:
        """The newest change of each file of a step since a run of its check."""
        if run.ending == "failed" or run.seq < self._rewound:
            return []
        found: list[Entry] = []
        folders: list[str] = []
        for path in step.files:
            self._spend()
            entry = self._store.find(self._id, "files", _key(path), at=self._upto)
            found += [entry] if entry is not None else []
            folders += [path] if entry is None else []
        if folders or not step.files:
            found += self._below(folders, run.seq)
        changes = [self._change(entry, run.seq) for entry in found if entry.seq > run.seq]
        said = [
            wrote
            for wrote in self._wrote
            if wrote.seq >= run.seq
            and (not step.files or wrote.path in step.files or is_named(wrote.path, step.files))
        ]
        return said + [change for change in changes if change is not None]

    def _below(self, folders: Sequence[str], since: int) -> list[Entry]:
        """Files that were touched since a seq: those below the folders or of the patterns, or all."""
        touched = self._store.entries(self._id, "files", at=self._upto, limit=FILES + 1)
        late = [entry for entry in touched if entry.seq > since]
        if len(late) > FILES:
            raise _Spent
        return [
            entry
            for entry in late
            if not folders or is_named(str(getattr(entry.record, "path", "")), folders)
        ]

    def _change(self, entry: Entry, since: int) -> FileChanged | None:
        """The newest change of a file since a seq; what only looked at it is no change."""
        record = entry.record
        path = record.path if isinstance(record, FileRecord) else "(erased)"
        if not isinstance(record, FileRecord) or record.op not in LOOKS:
            return FileChanged(entry.seq, path, self._commit(entry.seq).call)
        touches = self._store.touches("files", entry.key, session=self._id, limit=FILES)
        for touch in touches:
            if touch.seq > self._upto:
                continue
            if touch.seq <= since:
                return None
            self._spend()
            commit = self._commit(touch.seq)
            if touch.dropped or any(_is_change(op, touch.id) for op in commit.delta):
                return FileChanged(touch.seq, path, commit.call)
        if len(touches) < FILES:
            return None
        raise _Spent


def _is_change(op: Op, file: str) -> bool:
    """Whether an op records that a file changed."""
    if not isinstance(op, Put) or op.collection != "files" or op.id != file:
        return False
    return not isinstance(op.record, FileRecord) or op.record.op not in LOOKS


def _key(path: str) -> str:
    root, relative = paths.split(path, "")
    return file_key(root, relative)
