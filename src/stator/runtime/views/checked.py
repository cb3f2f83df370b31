"""Finds what decides whether steps of a plan read done or claimed: runs of their checks, changes of their files.

The newest run of a check is recorded (`model.extraction.checks`), so that it is found however much happened since.
Where that record is missing or says that it does not know, the newest calls are looked through. What lies outside
proves nothing, so such a step reads claimed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stator.model.exchange.check_lines import (
    LOOKS,
    RAN,
    checks_in,
    ending,
    ends_with,
    tidy,
    written_by,
    written_paths,
)
from stator.model.exchange.tool_files import command_of, files_of_call, is_file_tool
from stator.model.extraction.evidence import seen_commit
from stator.model.log.commit import Commit
from stator.model.log.delta import Op, Put
from stator.model.log.query import CallQuery, CallRow
from stator.model.records.types import CheckRecord, Entry, FileRecord, PlanRecord, file_key
from stator.model.values import paths
from stator.model.values.ids import retype
from stator.model.views.checked import CheckRun, FileChanged, is_named, read_step
from stator.runtime.views import reflog
from stator.store.port import StorePort

NEWEST = 100
"""Calls that are looked through for runs of checks that have no record."""
BUDGET = 1000
"""Calls and files that are looked at for one answer."""
FILES = 200
"""Files, those touched last first, that are looked through for changes since a check."""
TOO_FAR = "its check did not run in the last {} calls"
TOO_MUCH = "too much happened since its check at @{}"


def read_steps(
    store: StorePort, session: str, entries: Sequence[Entry], at: int | None, folder: str = ""
) -> list[Entry]:
    """Entries of the plan, each step that its record calls done with what readers call it. `store` is the store
    itself; `folder` is the folder in which the session's files are, if it is known."""
    if not any(_is_said_done(entry) for entry in entries):
        return list(entries)
    upto = store.head(session).seq if at is None else at
    looking = _Looking(store, session, upto, folder, at)
    looking.find_runs({tidy(step.check) for step in map(_step, entries) if step} - {""})
    return [
        msgspec.structs.replace(entry, record=looking.read(step))
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
    def __init__(
        self, store: StorePort, session: str, upto: int, folder: str, at: int | None
    ) -> None:
        self._at = at  # the state of now is kept; that of a position is made from the log
        self._store, self._id, self._upto = store, session, upto
        self._folders = (folder.rstrip("/"),) if folder else ()
        self._root = folder
        self._left = BUDGET
        rewinds = (rewind.seq for rewind in reflog.rewinds(store, session))
        self._rewound = max((seq for seq in rewinds if seq <= upto), default=0)
        self._runs: dict[str, CheckRun] = {}
        """The newest run of each check."""
        self._wrote: dict[str, list[FileChanged]] = {}
        """What commands wrote since the run of each check, as their words say."""
        self._is_all = True
        """Whether every call was looked through."""
        self._read: Commit | None = None

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Spent

    # -- runs of checks ---------------------------------------------------------------------------

    def find_runs(self, checks: set[str]) -> None:
        """Find the newest run of each check: what is recorded of it, or else among the newest calls."""
        for check in checks:
            run = self._recorded(check)
            if run is not None:
                self._runs[check] = run
        self._look_through(checks - set(self._runs))
        for end in self._cut_off() if self._runs else ():
            intent = self._located(retype(end.call, "commit"))
            if intent is None:
                continue
            for check, run in self._ran_in(intent, end.seq, set(self._runs)):
                self._runs[check] = max(self._runs[check], run, key=lambda one: one.seq)
            written = written_by(command_of(intent.known("input")), self._root)
            for changes in self._wrote.values():
                changes += [FileChanged(end.seq, path, end.call) for path in written]

    def _recorded(self, check: str) -> CheckRun | None:
        entry = self._store.find(self._id, "checks", check, at=self._at)
        record = entry.record if entry is not None else None
        if not isinstance(record, CheckRecord) or record.ended == "unknown":
            return None
        intent = self._located(record.ran_in)
        if entry is None or intent is None:
            return None
        line = command_of(intent.known("input"))
        own = [
            FileChanged(intent.seq + 1, path, intent.call) for path in written_by(line, self._root)
        ]
        later = [FileChanged(entry.seq, path) for path in record.wrote]
        self._wrote[check] = [*own, *later, *self._open_writes]
        return CheckRun(intent.seq, record.ended, intent.call, ends_with(line, check))

    @functools.cached_property
    def _open_writes(self) -> list[FileChanged]:
        """What calls without an outcome may have written."""
        rows = itertools.islice(self._calls(("started",)), NEWEST)
        return [change for row in rows for change in self._writes(row)]

    def _located(self, commit: str) -> Commit | None:
        found = (self._commit(seq) for _, seq in self._store.locate(commit, self._id))
        return next((one for one in found if one.id == commit), None)

    def _look_through(self, checks: set[str]) -> None:
        wanted = set(checks)
        if not wanted:
            return
        seen: list[FileChanged] = []
        for number, row in enumerate(self._calls((*RAN, "started")), 1):
            seen += self._writes(row)
            if row.outcome and not is_file_tool(row.tool):
                for check, run in self._ran_in(self._commit(row.seq), row.outcome, wanted):
                    self._runs[check], self._wrote[check] = run, list(seen)
                    wanted.discard(check)
            if not wanted or number >= NEWEST:
                self._is_all = False
                return

    def _calls(self, statuses: tuple[str, ...]) -> Iterator[CallRow]:
        """Calls that ended in one of these ways, newest first."""
        query = CallQuery(session=self._id, statuses=statuses)
        cursor: tuple[int, ...] | None = (self._upto + 1,)
        while cursor is not None:
            page = self._store.calls(query, cursor=cursor, limit=50)
            yield from (row for row in page.rows if row.outcome <= self._upto)
            cursor = page.cursor

    def _cut_off(self) -> Iterator[Commit]:
        """Ends of calls after which the log was cut, by a fork or by the reader: what was found in them is behind
        the cut."""
        row = self._store.session(self._id)
        cuts = [part.upto for part in row.record.lineage if part.upto < self._upto]
        for seq in (*cuts, self._upto):
            commit = self._commit(seq)
            if commit.kind in ("outcome", "settlement") and not is_file_tool(commit.tool):
                yield commit

    def _ran_in(self, intent: Commit, end: int, checks: set[str]) -> list[tuple[str, CheckRun]]:
        """What the end of a call says of each of these checks."""
        self._spend()
        command = command_of(intent.known("input"))
        if not any(check in tidy(command) for check in checks):
            return []
        one = seen_commit(self._commit(end))
        ended = ending(one.status, one.output)
        if ended is None:
            return []
        # an exit code may be in what was erased
        sure = ended if one.is_whole else "failed"
        ran = checks_in(command, self._folders)
        return [
            (check, CheckRun(intent.seq, sure, intent.call, ends_with(command, check)))
            for check in checks
            if check in ran
        ]

    def _writes(self, row: CallRow) -> list[FileChanged]:
        """The files that a call's own words say it wrote, also if nobody reported them, or it is in doubt."""
        is_open = row.status == "started"
        if not is_open and is_file_tool(row.tool):
            return []
        given = self._commit(row.seq).known("input")
        if is_open and isinstance(given, Mapping):
            written = written_paths(files_of_call(row.tool, given), self._root)
        else:
            written = written_by(command_of(given), self._root)
        return [FileChanged(row.outcome or row.seq, path, row.call) for path in written]

    def _commit(self, seq: int) -> Commit:
        if self._read is None or self._read.seq != seq:
            self._read = self._store.commits(self._id, after=seq - 1, upto=seq, limit=1)[0]
        return self._read

    # -- one step ---------------------------------------------------------------------------------

    def read(self, step: PlanRecord) -> PlanRecord:
        check = tidy(step.check)
        run = self._runs.get(check)
        if run is None:
            return read_step(step, (), (), "" if self._is_all else TOO_FAR.format(NEWEST))
        try:
            return read_step(step, [run], self._changes(step, run), rewound=self._rewound)
        except _Spent:
            return read_step(step, [run], (), TOO_MUCH.format(run.seq))

    # -- changes of files -------------------------------------------------------------------------

    def _changes(self, step: PlanRecord, run: CheckRun) -> list[FileChanged]:
        """The newest change of each file of a step since a run of its check."""
        if run.ending == "failed" or run.seq < self._rewound:
            return []
        found: list[Entry] = []
        folders: list[str] = []
        for path in step.files:
            self._spend()
            entry = self._store.find(self._id, "files", _key(path), at=self._at)
            found += [entry] if entry is not None else []
            folders += [path] if entry is None else []
        if folders or not step.files:
            found += self._below(folders, run.seq)
        changes = [self._change(entry, run.seq) for entry in found if entry.seq > run.seq]
        said = [
            wrote
            for wrote in self._wrote.get(tidy(step.check), ())
            if wrote.seq >= run.seq
            and (not step.files or wrote.path in step.files or is_named(wrote.path, step.files))
        ]
        return said + [change for change in changes if change is not None]

    def _below(self, folders: Sequence[str], since: int) -> list[Entry]:
        """Files that were touched since a seq: those below the folders or of the patterns, or all."""
        touched = self._store.entries(self._id, "files", at=self._at, limit=FILES + 1)
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
