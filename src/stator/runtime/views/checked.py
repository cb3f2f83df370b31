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
from stator.model.log.query import NEWEST, CallQuery, CallRow, Read, read
from stator.model.log.rewinds import rewind_tags
from stator.model.records.types import (
    LOOKS,
    CallRecord,
    CheckRecord,
    Entry,
    FileRecord,
    PlanRecord,
    chosen,
    file_key,
)
from stator.model.values import paths
from stator.model.values.ids import retype
from stator.model.views.checked import CheckRun, FileChanged, is_named, read_step
from stator.runtime.base.one_answer import ahead, one_answer
from stator.runtime.base.pages import commit_at, commits_at, find_entry, named_commits
from stator.runtime.views import reflog
from stator.store.port import StorePort

CALLS = 100
"""Calls that are looked through for runs of checks that have no record."""
CALLS_PAGE = 50
BUDGET = 1000
"""Calls and files that are looked at for one answer."""
FILES_AHEAD = 32
"""Files, those touched last, whose commits are read ahead."""
FILES = 200
"""Files, those touched last first, that are looked through for changes since a check."""
TOO_FAR = "its check did not run in the last {} calls"
TOO_MUCH = "too much happened since its check at @{}"


def read_steps(
    store: StorePort, session: str, entries: Sequence[Entry], at: int | None, folder: str = ""
) -> list[Entry]:
    """Entries of the plan, each step that its record calls done with what readers call it. `store` is the store
    itself; `folder` is the folder in which the session's files are, if it is known."""
    steps = [step for step in map(_step, entries) if step is not None]
    checks = {tidy(step.check) for step in steps} - {""}
    if not steps:
        return list(entries)
    looking = _Looking(one_answer(store), session, folder, at, steps)
    if checks:
        looking.find_runs(checks)
    return [
        msgspec.structs.replace(entry, record=looking.read(step))
        if (step := _step(entry)) is not None
        else entry
        for entry in entries
    ]


def judged_by(store: StorePort, session: str, at: int) -> tuple[set[int], set[str]]:
    """The seqs and ids of the commits by which steps of the plan are judged at a seq."""
    found = [(entry.seq, _step(entry)) for entry in store.entries(session, "plan", at=at)]
    steps = {seq: step for seq, step in found if step is not None and tidy(step.check)}
    if not steps:
        return set(), set()
    looking = _Looking(one_answer(store), session, "", at, list(steps.values()))
    seqs, ids = looking.needs({tidy(step.check) for step in steps.values()})
    tags = rewind_tags(store.entries(session, "tags", at=at))
    return {*seqs, *steps, *(seq + 1 for seq, _ in tags)}, ids


def read_steps_ahead(store: StorePort, heads: Mapping[str, int]) -> None:
    """Read in two calls what `read_steps` asks for of several sessions, by their heads. `store` is the store for one
    question, which has read their plans, checks, calls and tags."""
    found = {session: _checked_steps(store, session) for session in heads}
    asked = {session: steps for session, steps in found.items() if steps}
    pages = {session: _calls_query(session) for session in asked}
    ahead(
        store,
        *(
            one
            for session, query in pages.items()
            for one in (
                read("entries", session, "files", limit={"files": FILES + 1}),
                read("commits", session, newest_first=True, limit=1),
                read("calls", query, cursor=(heads[session] + 1,), limit=CALLS_PAGE),
            )
        ),
    )
    ahead(
        store,
        *(
            _judging_commits(store, session, steps, heads[session])
            for session, steps in asked.items()
        ),
    )


def _checked_steps(store: StorePort, session: str) -> list[PlanRecord]:
    steps = map(_step, store.entries(session, "plan"))
    return [step for step in steps if step is not None and tidy(step.check)]


def _calls_query(session: str) -> CallQuery:
    return CallQuery(session=session, statuses=(*RAN, "started"))


def _judging_commits(store: StorePort, session: str, steps: list[PlanRecord], head: int) -> Read:
    """The commits by which steps are judged: of calls, of files, and of the runs that are recorded."""
    looking = _Looking(store, session, "", None, steps)
    seqs, ids = looking.needs({tidy(step.check) for step in steps})
    page = store.calls(_calls_query(session), cursor=(head + 1,), limit=CALLS_PAGE)
    wanted = (
        (seqs - {NEWEST}) | {head} | {seq for row in page.rows for seq in (row.seq, row.outcome)}
    )
    return read("commits", session, seqs=sorted(wanted - {0}), ids=sorted(ids))


def _step(entry: Entry) -> PlanRecord | None:
    record = entry.record
    return record if isinstance(record, PlanRecord) and record.status == "done" else None


class _Spent(Exception):
    """As much was looked at as one answer may cost."""


class _Looking:
    def __init__(
        self,
        store: StorePort,
        session: str,
        folder: str,
        at: int | None,
        steps: Sequence[PlanRecord],
    ) -> None:
        """`store` is one for a question, so that what is read ahead here is not read again."""
        self._at = at  # the state of now is kept; that of a position is made from the log
        self._store, self._id, self._steps = store, session, steps
        self._upto, self._rewound = NEWEST if at is None else at, 0
        self._folders, self._root = (folder.rstrip("/"),) if folder else (), folder
        self._left = BUDGET
        self._runs: dict[str, CheckRun] = {}
        """The newest run of each check."""
        self._wrote: dict[str, list[FileChanged]] = {}
        """What commands wrote since the run of each check, as their words say."""
        self._is_all = True
        """Whether every call was looked through."""

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Spent

    # -- runs of checks ---------------------------------------------------------------------------

    def find_runs(self, checks: set[str]) -> None:
        """Find the newest run of each check: what is recorded of it, or else among the newest calls."""
        records = self._records(checks)
        self._read_ahead(*self.needs(checks))
        for check, (seq, record) in records.items():
            run = self._recorded(check, seq, record)
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

    def needs(self, checks: set[str]) -> tuple[set[int], set[str]]:
        """The seqs and ids of commits that say where the log was cut, of the calls that ran the checks, of calls
        without an outcome, and of what touched files last."""
        ids = {record.ran_in for _, record in self._records(checks).values() if record.ran_in}
        ids |= {retype(record.call, "commit") for record in self._open_calls}
        files = itertools.islice(self._touched, FILES_AHEAD)
        return {*self._cuts(), *(entry.seq for entry in files)}, ids

    def _read_ahead(self, seqs: set[int], ids: set[str]) -> None:
        """Read these commits and those that say where the log was rewound, in one call."""
        store, session, at = self._store, self._id, self._at
        named_commits(store, session, seqs, ids=ids, rewinds=True, upto=at)
        if at is None:
            self._upto = commits_at(store, session, [NEWEST])[0].seq
        found = (rewind.seq for rewind in reflog.rewinds(store, session, at))
        self._rewound = max((seq for seq in found if seq <= self._upto), default=0)

    def _records(self, checks: set[str]) -> dict[str, tuple[int, CheckRecord]]:
        """What is recorded of the newest run of each check, and at which seq."""
        return {
            entry.key: (entry.seq, entry.record)
            for entry in self._store.entries(self._id, "checks", at=self._at, keys=checks)
            if isinstance(entry.record, CheckRecord) and entry.record.ended != "unknown"
        }

    @functools.cached_property
    def _state(self) -> list[Entry]:
        """The calls without an outcome, and the files that were touched last."""
        limit = {"files": FILES + 1}
        return self._store.entries(self._id, "calls", "files", at=self._at, limit=limit)

    @property
    def _open_calls(self) -> list[CallRecord]:
        records = (entry.record for entry in self._state)
        return [record for record in records if isinstance(record, CallRecord)]

    @functools.cached_property
    def _touched(self) -> list[Entry]:
        return [entry for entry in self._state if entry.collection == "files"]

    def _recorded(self, check: str, seq: int, record: CheckRecord) -> CheckRun | None:
        intent = self._located(record.ran_in)
        if intent is None or record.ended == "unknown":
            return None
        line = command_of(intent.known("input"))
        own = [
            FileChanged(intent.seq + 1, path, intent.call) for path in written_by(line, self._root)
        ]
        later = [FileChanged(seq, path) for path in record.wrote]
        self._wrote[check] = [*own, *later, *self._open_writes]
        return CheckRun(intent.seq, record.ended, intent.call, ends_with(line, check))

    @functools.cached_property
    def _open_writes(self) -> list[FileChanged]:
        """What calls without an outcome may have written."""
        if not any(entry.collection == "calls" for entry in self._state):
            return []  # what has no outcome now had none then
        rows = list(itertools.islice(self._calls(("started",)), CALLS))
        commits_at(self._store, self._id, {row.seq for row in rows})
        return [change for row in rows for change in self._writes(row)]

    def _located(self, commit: str) -> Commit | None:
        return next(iter(named_commits(self._store, self._id, ids=[commit])), None)

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
            if not wanted or number >= CALLS:
                self._is_all = False
                return

    def _calls(self, statuses: tuple[str, ...]) -> Iterator[CallRow]:
        """Calls that ended in one of these ways, newest first."""
        query = CallQuery(session=self._id, statuses=statuses)
        cursor: tuple[int, ...] | None = (self._upto + 1,)
        while cursor is not None:
            page = self._store.calls(query, cursor=cursor, limit=CALLS_PAGE)
            rows = [row for row in page.rows if row.outcome <= self._upto]
            commits_at(self._store, self._id, {row.seq for row in rows})
            yield from rows
            cursor = page.cursor

    def _cut_off(self) -> Iterator[Commit]:
        """Ends of calls after which the log was cut, by a fork or by the reader: what was found in them is behind
        the cut."""
        for seq in self._cuts():
            commit = self._commit(seq)
            if commit.kind in ("outcome", "settlement") and not is_file_tool(commit.tool):
                yield commit

    def _cuts(self) -> list[int]:
        """The seqs after which the log was cut."""
        found = find_entry(self._store, self._id, "session", "", at=self._at)
        lineage = getattr(found.record, "lineage", ()) if found is not None else ()
        earlier = [part.upto for part in lineage if self._at is None or part.upto < self._at]
        return [*earlier, self._upto]

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
        return commit_at(self._store, self._id, seq)

    # -- one step ---------------------------------------------------------------------------------

    def read(self, step: PlanRecord) -> PlanRecord:
        check = tidy(step.check)
        run = self._runs.get(check)
        if run is None:
            return read_step(step, (), (), "" if self._is_all else TOO_FAR.format(CALLS))
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
            entry = self._files.get(_key(path))
            found += [entry] if entry is not None else []
            folders += [path] if entry is None else []
        if folders or not step.files:
            found += self._below(folders, run.seq)
        late = [entry for entry in found if entry.seq > run.seq]
        first = min(one.seq for one in self._runs.values())
        known = {entry.seq for entry in (*self._files.values(), *late) if entry.seq > first}
        commits_at(self._store, self._id, known)
        changes = [self._change(entry, run.seq) for entry in late]
        said = [
            wrote
            for wrote in self._wrote.get(tidy(step.check), ())
            if wrote.seq >= run.seq
            and (not step.files or wrote.path in step.files or is_named(wrote.path, step.files))
        ]
        return said + [change for change in changes if change is not None]

    @functools.cached_property
    def _files(self) -> dict[str, Entry]:
        """The files that steps name, by key."""
        keys = {_key(path) for step in self._steps for path in step.files}
        found = chosen(self._touched, keys, "")
        if len(self._touched) > FILES and keys:
            found = self._store.entries(self._id, "files", at=self._at, keys=keys)
        return {entry.key: entry for entry in found}

    def _below(self, folders: Sequence[str], since: int) -> list[Entry]:
        """Files that were touched since a seq: those below the folders or of the patterns, or all."""
        late = [entry for entry in self._touched if entry.seq > since]
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
