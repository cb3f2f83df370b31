"""Gathers a brief from the state, the log and the disk, in reads that do not grow with the session.

Where something came from, what a call was asked to do and whether a file is still as it was are looked up
only for the lines that fit. No clock is read and no model asked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stator.errors import NotFound, StatorError
from stator.model.brief import compose as briefs
from stator.model.brief.compose import (
    Brief,
    BriefItem,
    Gathered,
    SectionName,
    Target,
    Tell,
    Topic,
)
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import CallQuery, CallRow, TurnRow
from stator.model.log.rewinds import TAG, visible
from stator.model.records.tables import (
    BOOKKEEPING,
    BRIEFED,
    CONTRIBUTIONS,
    KINDS,
    NEWS,
    record_text,
)
from stator.model.records.text import arguments_text, prompt_text, recorded_text, value_text
from stator.model.records.types import (
    CallRecord,
    Entry,
    ErasedRecord,
    EvictedRecord,
    FactRecord,
    FileRecord,
    PendingRecord,
    file_key,
)
from stator.model.sessions.lifecycle import split_cause
from stator.model.values.ids import is_id, short
from stator.model.views import checked, open_calls
from stator.model.window.compaction import (
    GROUPS_MAX,
    KEYS_MAX,
    RANKS,
    order,
)
from stator.model.window.words import CountTokens
from stator.runtime.base.provenance import imported_upto
from stator.runtime.files import disk_check
from stator.runtime.files import git as worktree
from stator.runtime.views import reflog
from stator.runtime.views.as_read import for_one_answer, to_settle, unplaced_in
from stator.runtime.views.file_changes import FileChange, files_before, net_files
from stator.runtime.views.refs import Point, arguments_of, intent_of
from stator.store.port import StorePort

MODEL = "model"
"""The setting whose change a brief mentions."""
FEW = 8
"""Failed calls that are listed."""
ITEMS_MAX = 500
SCAN = 300
"""Commits that are looked through for what happened while the agent was away."""
WINDOW = 300
"""Commits over which the net change of a file is known; before that, its last one."""
DISK_BYTES = 8 * 1024 * 1024
"""Bytes of files that are read to see whether they changed; for more, a brief takes too long."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DID_NOT_WORK = ("error", "timeout", "cancelled", "denied")
EVICTED_MAX = len(RANKS) * (KEYS_MAX + GROUPS_MAX) + 1
"""Keys of one compaction that are ranked: more than one ever has."""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for a brief, and from where."""

    root: str = ""
    """The folder the session's files are in; empty where they are elsewhere, or not to be looked at."""
    run: str = ""
    """The asking driver's own run, and the seq it began at."""
    began: int = 0


def brief(
    store: StorePort,
    session: str,
    here: Here,
    at: Callable[[str], Point],
    *,
    max_tokens: int,
    target: Target,
    since: str | None,
    count_tokens: CountTokens | None,
) -> Brief:
    """The brief of a session; `at` says where a position is."""
    items = min(ITEMS_MAX, 20 + max_tokens // 15) if type(max_tokens) is int else 0
    gathered = _Gathering(for_one_answer(store), session, here, max(items, 1)).gather(since, at)
    return briefs.compose(gathered, max_tokens=max_tokens, target=target, count_tokens=count_tokens)


class _Gathering:
    def __init__(self, store: StorePort, session: str, here: Here, items: int) -> None:
        self._store, self._id, self._here, self._items = store, session, here, items
        self._row = store.session(session)
        self._head = store.head(session)
        self._counts = store.counts(session)
        self._is_fork = bool(self._row.record.lineage)
        self._imported = imported_upto(store, self._row.record)
        self._disk_left = DISK_BYTES
        self._source = functools.cache(self._look_up_source)

    def gather(self, since: str | None, at: Callable[[str], Point]) -> Gathered:
        turns = self._store.turns(self._id, newest_first=True, limit=1)
        calls = self._store.entries(self._id, "calls")
        topics: dict[SectionName, Topic] = {
            **{name: self._live(name, row.note) for name, row in BRIEFED.items()},
            "goal": self._goal(turns),
            "facts": self._facts(),
            "plan": self._plan(),
            "files": self._files(),
            "failed": self._failed(),
            "in_doubt": self._calls(to_settle(self._store, self._id), "stator settle"),
            "pending": self._pending(),
            "waiting": self._calls(_waiting(calls), "stator approve"),
            "model": self._model(),
            "evicted": self._evicted(),
            "unplaced": briefs.unplaced_topic(unplaced_in(self._store, self._id), self._items),
            "away": self._away(since, at, turns),
        }
        return Gathered(
            session=self._id, name=self._row.record.name, head=self._head, topics=topics
        )

    # -- where things came from -------------------------------------------------------------------

    def _look_up_source(self, seq: int) -> str:
        found = self._store.commits(self._id, after=seq - 1, upto=seq, limit=1, load=False)
        return self._label(found[0]) if found and seq > 0 else "unknown"

    def _label(self, commit: Commit) -> str:
        """Where a commit came from; nothing where that is a verified user."""
        if commit.seq <= self._imported:
            return "import"
        source = commit.provenance
        if source.source == "user" and source.trust == "verified":
            return ""
        # What a contributor records, a person or a program that acts for one.
        return "user" if commit.actor == "user" else source.source

    def _commit(self, seq: int) -> Commit | None:
        found = self._store.commits(self._id, after=seq - 1, upto=seq, limit=1)
        return found[0] if found else None

    # -- the state --------------------------------------------------------------------------------

    def _live(self, collection: str, note: Callable[[Any], str]) -> Topic:
        """Records of a collection, the newest first."""
        entries = self._store.entries(self._id, collection, limit=self._items)
        return self._topic(
            collection,
            entries,
            entries,
            lambda entry: self._told(entry, note=_joined(f"t{entry.turn}", note(entry.record))),
        )

    def _topic(
        self,
        collection: str,
        entries: Sequence[Entry],
        chosen: Iterable[Entry],
        tell: Callable[[Entry], BriefItem],
    ) -> Topic:
        """Chosen entries of those that were read, and how many there are altogether."""
        tells = [functools.partial(_unless_erased, tell, entry) for entry in chosen]
        cut = len(entries) >= self._items
        known = self._counts.live.get(collection, 0)
        total = max(known - (len(entries) - len(tells)), len(tells))
        return Topic(tells=tells, total=total if cut else len(tells))

    def _told(self, entry: Entry, *, mark: str = "", note: str = "") -> BriefItem:
        return BriefItem(
            text=record_text(entry.record),
            mark=mark,
            note=note,
            source=self._source(entry.seq),
            seq=entry.seq,
        )

    def _facts(self) -> Topic:
        """Those that were verified first."""
        entries = self._store.entries(self._id, "facts", limit=self._items)
        ordered = sorted(entries, key=lambda entry: not _is_verified(entry))
        return self._topic(
            "facts",
            entries,
            ordered,
            lambda entry: self._told(
                entry,
                mark="verified" if _is_verified(entry) else "unverified",
                note=f"t{entry.turn}",
            ),
        )

    def _plan(self) -> Topic:
        """What is claimed to be done; what is to be done, in order; then what is done, the newest first."""
        entries = self._store.entries(self._id, "plan", limit=self._items)
        return self._topic(
            "plan",
            entries,
            sorted(entries, key=checked.in_plan),
            lambda entry: self._told(
                entry,
                mark=str(getattr(entry.record, "status", "")).replace("_", " "),
                note=_joined(f"t{entry.turn}", checked.reason(entry.record)),
            ),
        )

    def _pending(self) -> Topic:
        """What is intended; a call to settle is listed among the calls."""
        entries = self._store.entries(self._id, "pending", limit=self._items)
        chosen = [entry for entry in entries if not _is_to_settle(entry)]
        return self._topic(
            "pending", entries, chosen, lambda entry: self._told(entry, note=f"t{entry.turn}")
        )

    def _model(self) -> Topic:
        """The model and the one before it, where it changed; the other settings are not the next session's."""
        now = self._store.find(self._id, "settings", MODEL)
        before = now and self._store.find(self._id, "settings", MODEL, at=now.seq - 1)
        if now is None or before is None:
            return Topic(tells=[])
        return Topic(tells=[functools.partial(_unless_erased, self._told_model(before), now)])

    def _told_model(self, before: Entry) -> Callable[[Entry], BriefItem]:
        def told(now: Entry) -> BriefItem:
            text = " → ".join(
                recorded_text(getattr(entry.record, "value", "(erased)")) for entry in (before, now)
            )
            return BriefItem(
                text=text, note=f"t{now.turn}", source=self._source(now.seq), seq=now.seq
            )

        return told

    def _evicted(self) -> Topic:
        """What left the agent's view, what matters most first."""
        # All of one seq: the newest few are not those that matter.
        entries = self._store.entries(self._id, "evicted", limit=EVICTED_MAX)
        chosen = sorted(entries, key=_rank)[: self._items]
        tells = [functools.partial(_unless_erased, self._told_evicted, entry) for entry in chosen]
        return Topic(tells=tells, total=len(entries), exact=len(entries) < EVICTED_MAX)

    def _told_evicted(self, entry: Entry) -> BriefItem:
        held = int(getattr(entry.record, "seq", 0))
        return BriefItem(
            text=record_text(entry.record), note=f"@{held}", source=self._source(held), seq=held
        )

    # -- files ------------------------------------------------------------------------------------

    def _files(self) -> Topic:
        entries = self._store.entries(self._id, "files", limit=self._items)
        start = max(0, self._head.seq - WINDOW)
        versions = self._store.versions(
            self._id, after=start, upto=self._head.seq, collections=("files",)
        )
        there = files_before(self._store, self._id, versions)
        net = {
            file_key(change.root, change.path): change
            for change in net_files(versions, there=there, reads=True)
        }
        # A file that was created and deleted since is left out.
        chosen = [entry for entry in entries if entry.seq <= start or entry.key in net]
        return self._topic(
            "files", entries, chosen, lambda entry: self._told_file(entry, net.get(entry.key))
        )

    def _told_file(self, entry: Entry, net: FileChange | None) -> BriefItem:
        record = entry.record
        assert isinstance(record, FileRecord)
        op = net.op if net is not None else record.op
        told = self._told(entry, mark=op, note=_joined(f"t{entry.turn}", self._on_disk(record)))
        digest = f"{told.text} (digest {record.after})" if record.after else told.text
        return msgspec.structs.replace(told, text=digest)

    def _on_disk(self, record: FileRecord) -> str:
        """How a file compares with what was recorded of it; empty where that is not known."""
        root = self._here.root
        if not root or record.root != "." or record.op in ("deleted", "skipped"):
            return ""
        found = disk_check.compare(root, record.path, record.after, self._disk_left)
        self._disk_left -= found.read
        return found.said

    # -- calls ------------------------------------------------------------------------------------

    def _calls(self, records: Sequence[CallRecord], command: str) -> Topic:
        """Calls without a known outcome, the newest first."""
        newest = records[::-1]
        tells: list[Tell] = [
            functools.partial(self._told_call, record, command) for record in newest[: self._items]
        ]
        return Topic(tells=tells, total=len(records))

    def _told_call(self, record: CallRecord, command: str) -> BriefItem:
        intent = intent_of(self._store, self._id, record.call)
        call = short(record.call) if is_id(record.call, "call") else "c_?"
        turn = f"t{intent.turn}, " if intent is not None else ""
        return BriefItem(
            text=_joined(arguments_text(record.tool, arguments_of(intent)), record.cause, by=" — "),
            note=f"{turn}{call}: {command} {call}",
            source=self._label(intent) if intent is not None else "unknown",
            seq=intent.seq if intent is not None else 0,
        )

    def _failed(self) -> Topic:
        # What a fork inherits has no index of failures, so only its last part is looked through.
        after = max(0, self._head.seq - WINDOW) if self._is_fork else 0
        query = CallQuery(session=self._id, statuses=DID_NOT_WORK, after=after)
        page = self._store.calls(query, limit=FEW)
        tells = [functools.partial(self._told_failed, row) for row in page.rows]
        more = page.cursor is not None
        return Topic(tells=tells, total=len(tells) + more, exact=not more)

    def _told_failed(self, row: CallRow) -> BriefItem:
        intent = self._commit(row.seq)
        outcome = self._commit(row.outcome) if row.outcome else None
        output = outcome.known("output") if outcome is not None else None
        said = output.get("message", "") if isinstance(output, Mapping) else output
        cause = split_cause(row.cause)[1]
        how = ": ".join(filter(None, [row.status, cause, value_text(said) if said else ""]))
        told = outcome or intent
        return BriefItem(
            text=f"{arguments_text(row.tool, arguments_of(intent))} — {how}",
            note=f"t{row.turn}",
            source=self._label(told) if told is not None else "unknown",
            seq=row.seq,
        )

    # -- the goal ---------------------------------------------------------------------------------

    def _goal(self, turns: Sequence[TurnRow]) -> Topic:
        """The current request, how its turn ended, and what was asked first."""
        current = self._current(turns)
        if current is None:
            return Topic(tells=[])
        tells: list[Tell] = [functools.partial(self._asked, current, self._how(current))]
        if current.status in ("interrupted", "aborted"):
            end = self._end_of(current)
            if end is not None and end.cause:
                tells.append(
                    lambda: BriefItem(
                        text=end.cause, mark="it was left with", source="system", seq=end.seq
                    )
                )
        if current.turn > 1:
            first = self._store.turns(self._id, upto=1, limit=1)
            tells += [functools.partial(self._asked, row, "asked first") for row in first]
        return Topic(tells=tells)

    def _current(self, turns: Sequence[TurnRow]) -> TurnRow | None:
        """The last turn, or the one that the session has been rewound to since."""
        newest = turns[0] if turns else None
        tags = self._store.entries(self._id, "tags", limit=self._items)
        back = next((tag.seq for tag in tags if tag.key.startswith(TAG)), 0)
        if newest is None or back <= newest.first:
            return newest
        stretches = visible(reflog.rewinds(self._store, self._id), self._head.seq)
        return reflog.standing_turn(self._store, self._id, self._head.seq, stretches)

    def _asked(self, row: TurnRow, how: str) -> BriefItem:
        commit = self._commit(row.first)
        prompt = commit.known("input") if commit is not None else None
        text = "" if prompt is None else prompt_text(prompt)
        return BriefItem(
            text=text,
            mark="" if text else "(no prompt on record)",
            note=f"(t{row.turn}, {how})",
            source=self._label(commit) if commit is not None else "unknown",
            seq=row.first,
        )

    def _how(self, row: TurnRow) -> str:
        said = {"ok": "ended", "aborted": "given up", "interrupted": "interrupted: not finished"}
        if row.status:
            return said.get(row.status, "ended")
        return said["interrupted"] if self._row.shown == "interrupted" else "open: not finished"

    def _end_of(self, row: TurnRow) -> Commit | None:
        """The commit that ended a turn."""
        last = self._store.commits(
            self._id, after=row.first, upto=row.last, newest_first=True, limit=FEW, load=False
        )
        return next((commit for commit in last if commit.kind == "turn_end"), None)

    # -- while away -------------------------------------------------------------------------------

    def _away(
        self, since: str | None, at: Callable[[str], Point], turns: Sequence[TurnRow]
    ) -> Topic:
        """What others did since the last run, or everything since a position; and a position that is
        not there."""
        start, tells = self._left(), list[Tell]()
        if since is not None:
            found = self._known(since, at)
            if found is None:
                tells.append(functools.partial(_gap, since))
            else:
                start = found
                tells.append(functools.partial(self._since, found))
        tells += self._git(turns)
        if start is None:
            return Topic(tells=tells)
        between, cut = self._between(start)
        wanted = [c for c in between if self._is_news(c, whole=since is not None)]
        tells += [functools.partial(self._news, commit.seq) for commit in wanted]
        return Topic(tells=tells, total=len(tells) + cut, exact=not cut)

    def _known(self, since: str, at: Callable[[str], Point]) -> int | None:
        """The seq of a position, if it is in this log."""
        try:
            point = at(since)
        except NotFound:
            return None
        lent = {part.session: part.upto for part in self._row.record.lineage}
        inside = point.session == self._id or point.seq <= lent.get(point.session, -1)
        return point.seq if inside else None

    def _left(self) -> int | None:
        """Where the last run that is not the asker's own ended."""
        if self._row.record.mode != "driven":
            return None
        upto = self._here.began - 1 if self._here.began else None
        for limit in (FEW, SCAN):  # as a rule the last commits are how the last run ended
            page = self._store.commits(
                self._id, upto=upto, newest_first=True, limit=limit, load=False
            )
            for commit in page:
                if commit.run and commit.run != self._here.run:
                    return commit.seq
        return None

    def _between(self, start: int) -> tuple[list[Commit], bool]:
        """The newest commits since, and those from before the asker's own run began."""
        found = self._store.commits(
            self._id, after=start, newest_first=True, limit=SCAN, load=False
        )
        cut = len(found) == SCAN and found[-1].seq > start + 1
        if cut and self._here.began > start:
            upto = min(self._here.began, found[-1].seq - 1)
            found += self._store.commits(
                self._id, after=start, upto=upto, newest_first=True, limit=SCAN, load=False
            )
        return found, cut

    def _is_news(self, commit: Commit, *, whole: bool) -> bool:
        if commit.run and commit.run == self._here.run:
            return False
        if not commit.run and commit.kind in CONTRIBUTIONS:
            return True
        return whole and commit.kind in NEWS

    def _since(self, start: int) -> BriefItem:
        commits = self._head.seq - start
        return BriefItem(text="", mark=f"since @{start}: {commits:,} commit{'s' * (commits != 1)}")

    def _news(self, seq: int) -> BriefItem:
        commit = self._commit(seq)
        assert commit is not None
        by = value_text(commit.known("principal", ""))
        text = _joined(_said_by(commit), by and f"by {by}", by=", ")
        return BriefItem(
            text=text,
            mark=commit.kind.replace("_", " ") if commit.kind in KINDS else "commit",
            note=_joined(f"@{seq}", _day(commit.when)),
            source=self._label(commit),
            seq=seq,
        )

    def _git(self, turns: Sequence[TurnRow]) -> list[Tell]:
        """Where the work tree was when the last turn ended, if it is elsewhere now."""
        end = self._end_of(turns[0]) if turns and self._here.root else None
        if end is None or not end.has("input"):
            return []
        try:
            found = end.known("input")
        except StatorError:
            return []
        then = found.get("git") if isinstance(found, Mapping) else None
        now = worktree.place(self._here.root) if isinstance(then, Mapping) else None
        if now is None or not isinstance(then, Mapping) or _at(then) == _at(now):
            return []
        return [
            lambda: BriefItem(
                text=f"{_at(then)} → {_at(now)}", mark="git has moved:", source="file"
            )
        ]


# -- our words ------------------------------------------------------------------------------------


def _joined(*parts: str, by: str = ", ") -> str:
    return by.join(part for part in parts if part)


def _unless_erased(tell: Callable[[Entry], BriefItem], entry: Entry) -> BriefItem:
    if isinstance(entry.record, ErasedRecord):
        return BriefItem(text="", mark=f"(erased by @{entry.record.erased})", seq=entry.seq)
    return tell(entry)


def _is_verified(entry: Entry) -> bool:
    return isinstance(entry.record, FactRecord) and entry.record.verified


def _is_to_settle(entry: Entry) -> bool:
    record = entry.record
    if not isinstance(record, PendingRecord):
        return False
    verb, _, call = record.what.partition(" ")
    return verb == "settle" and is_id(call, "call")


def _rank(entry: Entry) -> tuple[int, int, int, str]:
    record = entry.record
    return order(record) if isinstance(record, EvictedRecord) else (0, 0, 0, "")


def _waiting(calls: Sequence[Entry]) -> list[CallRecord]:
    """Calls that wait for a person's word, oldest first."""
    found = [
        entry.record
        for entry in calls
        if isinstance(entry.record, CallRecord) and open_calls.waits(entry.record)
    ]
    return sorted(found, key=lambda record: (record.since, record.call))


def _gap(since: str) -> BriefItem:
    return BriefItem(
        text=since,
        mark="a gap: the expected head",
        note="is not in this log; what you remember from there may not be on record",
    )


def _said_by(commit: Commit) -> str:
    """What a commit says: its records, what was asked, or what it is about."""
    if commit.kind == "turn":
        return prompt_text(commit.known("input", ""))
    told = [
        record_text(op.record)
        for op in commit.delta
        if isinstance(op, Put) and op.collection not in BOOKKEEPING
    ]
    return "; ".join(told) or _joined(
        commit.tool, commit.status, commit.cause and f"({commit.cause})", by=" "
    )


def _at(git: Mapping[str, Any]) -> str:
    return f"{git.get('branch') or 'detached'}@{str(git.get('head'))[:12]}"


def _day(when: int) -> str:
    """The day of a commit, in UTC; nothing for a time that no calendar has."""
    try:
        return f"{EPOCH + timedelta(microseconds=when):%Y-%m-%d}"
    except OverflowError:
        return ""
