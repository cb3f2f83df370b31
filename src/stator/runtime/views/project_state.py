"""Answers what a project knows, and keeps the index of that up to date.

The index is filled from the log by questions, never by recording. What each session knows is worked out by the
model; here it is decided which commits are read, and which other sessions a change concerns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from stator.errors import StoreBusy, StoreError, StoreFailed, StoreFull, StoreReadOnly
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Drop
from stator.model.log.query import SessionQuery, SessionRow, check_limit
from stator.model.log.rewinds import stands, visible
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.knowledge import CARRY, SessionKnowledge, learn
from stator.model.views.project_state import (
    ALL,
    Group,
    HeldKey,
    KnownSession,
    Learned,
    ProjectState,
    Scope,
    SessionAbout,
    StateEntry,
    ancestors,
    as_state,
    counted_upto,
    newest,
    settle_all,
)
from stator.model.views.search import Mark
from stator.model.views.untrusted import SessionTaint
from stator.runtime.base import project_session
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at, commits, matching
from stator.runtime.base.project_flags import Trash
from stator.runtime.base.project_session import USER_PROJECT
from stator.runtime.base.sessions_once import SessionsOnce
from stator.runtime.views import reflog, search
from stator.runtime.views.search import Progress
from stator.runtime.views.trust.untrusted import REREAD, TaintReader, TaintStream
from stator.store.port import IndexLost, ProjectIndex, StorePort

ROUNDS = 3
"""How often a question looks for what was appended while it read: writers may never stop."""
TRIES = 5
"""How often it begins again with an index that was found broken, or that another process emptied."""
BATCH = 400
"""Sessions that are put into the index in one transaction, so that others get their turn."""
FEW = 100
"""Sessions that are read so quickly that what was appended in the meantime is left to the next question."""
RELATED_MAX = 10_000
CONFLICTS_LOOKED_AT = 500
"""The newest entries of a collection that are looked at for conflicts."""
USER_MAX = 200
"""Entries of a collection that are true of the user and are shown in a project."""

Answer = TypeVar("Answer")


def project_state(
    store: StorePort,
    context: Context,
    project: str,
    *,
    limit: int,
    scope: Scope = "project",
    progress: Progress | None = None,
) -> ProjectState:
    """What a project knows: the newest `limit` entries of each collection."""
    check_limit(limit)

    def read(index: ProjectIndex) -> ProjectState:
        settled = index.settled(project, limit=limit)
        return as_state(project, settled, _abouts(index, settled).get, scope)

    return ask(store, context, read, progress)


def known_so_far(store: StorePort, context: Context, project: str, *, limit: int) -> ProjectState:
    """The same from what the index holds already: while another question fills it, that may be little."""
    check_limit(limit)
    if context.project_index is not None:
        with suppress(IndexLost, StoreError), context.project_index(store, True) as index:
            if index is not None:
                settled = index.settled(project, limit=limit)
                return as_state(project, settled, _abouts(index, settled).get, "project")
    return as_state(project, {}, lambda session: None, "project")


def with_user(store: StorePort, context: Context, state: ProjectState) -> ProjectState:
    """What a project knows, and what is true of the user where the project says nothing else."""
    users = user_state(store, context, limit=USER_MAX)
    if not any(users.collections.values()):
        return state

    def unsaid(index: ProjectIndex) -> dict[str, list[StateEntry]]:
        return {
            name: [one for one in entries if index.find(state.project, name, one.key) is None]
            for name, entries in users.collections.items()
        }

    added = ask(store, context, unsaid)
    return msgspec.structs.replace(
        state,
        collections={
            name: sorted([*entries, *added[name]], key=lambda one: (-one.happened, one.key))
            for name, entries in state.collections.items()
        },
    )


def user_state(store: StorePort, context: Context, *, limit: int) -> ProjectState:
    """What is true of the user: one session in the user's own store, read as it is."""
    check_limit(limit)
    record = SessionRecord(id="", name="", project=USER_PROJECT)
    with context.user_store(store, False) as users:
        row = None if users is None else project_session.known(users, record)
        if users is None or row is None:
            return as_state(USER_PROJECT, {}, lambda session: None, "user")
        known, active = know(users, row, TaintReader(users))
        about = SessionAbout(row.id, row.record.name, row.record.agent, active, "project")
        settled = newest(settle_all([(about, known)]), limit)
    return as_state(USER_PROJECT, settled, lambda session: about, "user")


BEHIND_COMMITS_MAX = 20_000
"""Commits that the index may lack: a few long sessions take as long as many short ones."""


def conflicts(
    store: StorePort, context: Context, projects: Iterable[str], *, behind_max: int
) -> list[tuple[str, StateEntry]] | None:
    """What sessions of these projects disagree on, each with its project. None where the index lacks more than
    `behind_max` sessions, or too many commits: then it takes a while, and nobody asked for it."""
    if context.project_index is None:
        return None
    with context.project_index(store, True) as index:
        behind = [] if index is None else index.behind()[0]
        if index is None or len(behind) > behind_max:
            return None
    if behind and sum(store.heads(dict.fromkeys(behind, 0)).values()) > BEHIND_COMMITS_MAX:
        return None

    def read(index: ProjectIndex) -> list[tuple[str, StateEntry]]:
        found = []
        for project in projects:
            settled = index.settled(project, limit=CONFLICTS_LOOKED_AT)
            state = as_state(project, settled, _abouts(index, settled).get, "project")
            entries = (one for each in state.collections.values() for one in each)
            found += [(project, one) for one in entries if one.conflicts]
        return found

    return ask(store, context, read)


def one_entry(
    store: StorePort, context: Context, project: str, collection: str, key: str
) -> HeldKey | None:
    """What holds for one key in a project."""
    return ask(store, context, lambda index: index.find(project, collection, key))


def _abouts(
    index: ProjectIndex, settled: dict[str, tuple[list[HeldKey], int]]
) -> dict[str, SessionAbout]:
    found: dict[str, None] = {}
    for entries, _ in settled.values():
        for one in entries:
            found[one.value.session] = None
            found |= dict.fromkeys(value.session for value in (*one.conflicts, *one.earlier))
    return index.about(list(found))


def ask(
    store: StorePort,
    context: Context,
    question: Callable[[ProjectIndex], Answer],
    progress: Progress | None = None,
) -> Answer:
    """The answer of an index that is up to date; of one in memory where none can be written."""
    if context.project_index is None:
        raise StoreError(
            "this store has no index of projects", hint="connect to it: stator.connect"
        )
    try:
        with context.project_index(store, True) as index:
            return _asked(store, index, question, progress)
    except (StoreFull, StoreFailed, StoreReadOnly) as error:
        warnings.warn(
            f"the index of projects cannot be written ({error.what}); the answer is complete, but the"
            " whole log had to be read for it",
            RuntimeWarning,
            stacklevel=4,
        )
    with context.project_index(store, True, on_disk=False) as index:
        return _asked(store, index, question, progress)


def _asked(
    store: StorePort,
    index: ProjectIndex | None,
    question: Callable[[ProjectIndex], Answer],
    progress: Progress | None,
) -> Answer:
    assert index is not None
    for _ in range(TRIES):
        with suppress(IndexLost):
            catch_up(store, index, progress)
            return question(index)
    raise StoreBusy("other processes keep rebuilding the index of projects", hint="try again")


# -- keeping up -----------------------------------------------------------------------------------


def catch_up(store: StorePort, index: ProjectIndex, progress: Progress | None = None) -> None:
    """Put into the index what the log has gained since, and take out what is gone."""
    for _ in range(ROUNDS):
        moved, gone = index.behind()
        if gone:
            _lose(store, index, gone)
        if not moved:
            break
        if _tell(store, index, moved, progress) and len(moved) <= FEW:
            break
    index.scrub()


def _lose(store: StorePort, index: ProjectIndex, gone: Sequence[str]) -> None:
    """Forget sessions; first those that came from them are told, so that a crash in between is made good."""
    learning = _Learning(store, index)
    concerned = [*related(index, gone), *learning.judged_again([], gone)]
    index.put([[one] for one in learning.changed(concerned, gone)])
    index.drop(gone)


def related(index: ProjectIndex, sessions: Sequence[str], parent: str = "") -> list[str]:
    """Sessions whose records may count or not because of these: what came from them, and what they came from."""
    found = dict.fromkeys(index.below(sessions))
    waiting = [parent] if parent else []
    for session in sessions:
        known = index.known(session)
        waiting += [known.parent] if known is not None and known.parent else []
    while waiting and len(found) < RELATED_MAX:
        session = waiting.pop()
        if session not in found:
            found[session] = None
            known = index.known(session)
            waiting += [known.parent] if known is not None and known.parent else []
    return list(found)


def _tell(
    store: StorePort,
    index: ProjectIndex,
    sessions: Sequence[str],
    progress: Progress | None = None,
) -> bool:
    """Put what sessions know into the index; False if another process was first with some of it."""
    learning = _Learning(store, index)
    batch: list[list[Learned]] = []
    held: set[str] = set()
    landed = True
    for done, session in enumerate(sessions):
        if progress is not None:
            progress("reading sessions", done, len(sessions))
        group = learning.group(session)
        if len(batch) >= BATCH or any(one.about.id in held for one in group):
            # A session that waits to be put is looked at again, once it was.
            landed = index.put(batch) and landed
            batch, held = [], set()
            learning = _Learning(store, index)
            group = learning.group(session)
        if group:
            batch.append(group)
            held |= {one.about.id for one in group}
    return (index.put(batch) if batch else True) and landed


class _Learning:
    """Works out what sessions know, for one transaction of an index."""

    def __init__(self, store: StorePort, index: ProjectIndex) -> None:
        self._store = store
        self._index = index
        self._sessions = SessionsOnce(store)
        self._reader = TaintReader(store, self._saved)
        self._again: set[str] = set()
        """Sessions that are read from their beginning: what is trusted of them may have changed."""

    def group(self, session: str) -> list[Learned]:
        """A session, and those whose records count or not because of how it changed."""
        known = self._index.known(session)
        before = None
        if known is not None and self._is_projects_own(session):
            before = self._index.knowledge(session)
        first = self._learned(session, known)
        if first is None:
            return []
        concerned: dict[str, None] = {}
        if known is None or (known.adopted, known.upto) != (first.adopted, first.upto):
            concerned |= dict.fromkeys(related(self._index, [session], first.parent))
        concerned |= dict.fromkeys(self._resting(first, known))
        if first.about.scope != "session":
            was = {} if before is None else before.trashed
            now = first.knowledge.trashed
            moved = [one for one in {**was, **now} if was.get(one) != now.get(one)]
            concerned |= dict.fromkeys([*moved, *related(self._index, moved)])
            came = {} if before is None else before.imported
            marks = first.knowledge.imported
            marked = [one for one in {**came, **marks} if came.get(one) != marks.get(one)]
            concerned |= dict.fromkeys(self.judged_again(marked, [session]))
        return [first, *self.changed(concerned, [session])]

    def _resting(self, learned: Learned, known: KnownSession | None) -> list[str]:
        """Sessions whose values rest on a session, where more or less of that is trusted than the index knew."""
        session, parent = learned.about.id, learned.parent
        before = self._index.taint(session) if known is not None else None
        now = learned.knowledge.taint
        if before is not None and not learned.anew and before.anywhere() == now.anywhere():
            return []
        if before is None and now.anywhere() is None:
            return []
        above = [parent] if parent and self._index.known(parent) is not None else []
        return self.judged_again(above, [session])

    def judged_again(self, sessions: Sequence[str], told: Sequence[str] = ()) -> list[str]:
        """These sessions, and those that rest on them, which are read from their beginning; without `told`, which
        the index learns anyway."""
        found = [*sessions, *self._index.resting([*sessions, *told])]
        found = [one for one in dict.fromkeys(found) if one not in told]
        self._again |= set(found)
        self._reader.forget(found)
        return found

    def _saved(self, session: str) -> SessionTaint | None:
        return None if session in self._again else self._index.taint(session)

    def changed(self, concerned: Iterable[str], told: Iterable[str]) -> list[Learned]:
        """What the index is to be told of these sessions, and of those that concerns in turn, apart from those that
        it is told of anyway."""
        seen = set(told)
        waiting = list(concerned)
        found: list[Learned] = []
        while waiting:
            session = waiting.pop()
            if session in seen:
                continue
            seen.add(session)
            known, learned = self._index.known(session), self.of(session)
            if known is None or learned is None:
                continue
            found.append(learned)
            if (known.adopted, known.upto) != (learned.adopted, learned.upto):
                waiting += related(self._index, [session], learned.parent)
        return found

    def of(self, session: str) -> Learned | None:
        """What the index is to be told of a session that it knows already; None if that is nothing new."""
        known = self._index.known(session)
        if known is None:  # it is told when its own turn comes
            return None
        learned = self._learned(session, known)
        if learned is None or learned.upto != known.upto or session in self._again:
            return learned
        held = self._index.about([session]).get(session)
        return None if held == learned.about else learned

    def _is_projects_own(self, session: str) -> bool:
        row = self._sessions.row(session)
        return row is not None and row.record.mode == "project"

    def _learned(self, session: str, known: KnownSession | None) -> Learned | None:
        row = self._sessions.row(session)
        if row is None:
            return None
        record = row.record
        upto = counted_upto(record, self._sessions.record, self._sessions.is_trashed)
        found = self._continued(row, known) if upto == ALL else None
        mark, knowledge, active = found or self._from_the_start(row, upto)
        return Learned(
            about=SessionAbout(
                id=record.id,
                name=record.name,
                agent=record.agent,
                active=active,
                scope="project" if record.mode == "project" else "session",
                ancestors=ancestors(record, self._sessions.record),
            ),
            project=record.project,
            mark=mark,
            knowledge=knowledge,
            before=0 if known is None else known.revision,
            upto=upto,
            parent="" if record.parent is None else record.parent.session,
            continues=record.continues,
            adopted=record.adopted,
            anew=found is None,
        )

    def _from_the_start(self, row: SessionRow, upto: int) -> tuple[Mark, SessionKnowledge, int]:
        """How far the index then knows a session, what the session knows, and when it was last used."""
        store = self._store
        head = commit_at(store, row.id, row.head, load=False)
        mark = Mark(row.head, row.updated, head.hash)
        if not upto:
            return mark, SessionKnowledge(), row.updated
        return mark, *know(store, row, self._reader, upto)

    def _continued(
        self, row: SessionRow, known: KnownSession | None
    ) -> tuple[Mark, SessionKnowledge, int] | None:
        """The same from where the index is; None if it must begin at the beginning."""
        if known is None or known.upto != ALL or row.id in self._again:
            return None
        at = known.mark
        if not 0 < at.seq <= row.head or at.seq <= lent_upto(row.record.lineage):
            return None
        new = list(commits(self._store, row.id, after=at.seq - 1, upto=row.head, load=False))
        if not new or new[0].hash != at.hash or any(one.kind in REREAD for one in new[1:]):
            return None
        knowledge = self._index.knowledge(row.id)
        if knowledge is None:
            return None
        stream = self._reader.begin(row.id, knowledge.taint)
        for commit in new[1:]:
            _learn(self._store, knowledge, commit, stream, in_force=True)
        return Mark(row.head, row.updated, new[-1].hash), knowledge, row.updated


def know(
    store: StorePort, row: SessionRow, reader: TaintReader, upto: int = ALL
) -> tuple[SessionKnowledge, int]:
    """What a session knows by its own commits up to a seq, and when the last of them was used."""
    stream = reader.begin(row.id)
    known = SessionKnowledge(taint=stream.taint)
    low = lent_upto(row.record.lineage)
    end = min(upto, row.head)
    stream.advance(min(low, end))
    in_force = visible([one for one in reflog.rewinds(store, row.id) if one.seq <= end], end)
    active = row.record.created
    for commit in commits(store, row.id, after=low, upto=end, load=False):
        _learn(store, known, commit, stream, in_force=stands(in_force, commit.seq))
        active = commit.used
    return known, row.updated if upto >= row.head else active


def _learn(
    store: StorePort,
    known: SessionKnowledge,
    commit: Commit,
    stream: TaintStream,
    *,
    in_force: bool,
) -> None:
    if commit.kind in ("carry", "turn_end", "flag") and isinstance(
        commit.content.get("input"), Large
    ):
        commit = commit_at(store, commit.session, commit.seq)

    def dropped_key(op: Drop, seq: int) -> str:
        found = store.versions(
            commit.session, after=seq - 1, upto=seq, collections=(op.collection,)
        )
        return next(
            (one.key for one in found if isinstance(one.op, Drop) and one.op.id == op.id), ""
        )

    rooted = stream.feed(commit)
    each = stream.taken_over(commit) if commit.kind == CARRY else []

    def unverified(place: int) -> str:
        found = each[place] if place < len(each) else rooted
        return "" if found is None else found.origin

    learn(known, commit, in_force=in_force, dropped_key=dropped_key, unverified=unverified)


def whole_state(store: StorePort, project: str) -> dict[Group, HeldKey]:
    """What a project knows by the whole log, without an index: what the index must equal."""
    trash = Trash(store)
    rows = {row.id: row for row in matching(store, SessionQuery())}
    records = {session: row.record for session, row in rows.items()}
    sessions: list[tuple[SessionAbout, SessionKnowledge]] = []
    reader = TaintReader(store)
    for row in sorted(rows.values(), key=lambda one: (one.record.created, one.id)):
        upto = counted_upto(row.record, records.get, lambda one: one in rows and rows[one] in trash)
        if row.record.project != project or not upto:
            continue
        known, active = know(store, row, reader, upto)
        about = SessionAbout(
            id=row.id,
            name=row.record.name,
            agent=row.record.agent,
            active=active,
            scope="project" if row.record.mode == "project" else "session",
            ancestors=ancestors(row.record, records.get),
        )
        sessions.append((about, known))
    return settle_all(sessions)


# -- forgetting -----------------------------------------------------------------------------------


def forget(store: StorePort, context: Context, sessions: Iterable[str]) -> bool:
    """Let the index, if there is one, know of these sessions only what is still there; False if that, or
    overwriting what it knew, is left to the next question."""
    if context.project_index is None:
        return True
    concerned = set(sessions)
    try:
        for _ in range(TRIES):
            with suppress(IndexLost), context.project_index(store, False) as index:
                return index is None or _forget(store, index, concerned)
        return False
    except (
        StoreError
    ):  # what it is about was done; that the index is behind, the next question sees
        return False


def _forget(store: StorePort, index: ProjectIndex, sessions: set[str]) -> bool:
    moved, gone = index.behind()
    if gone:
        _lose(store, index, gone)
    # Those it does not know it must learn now: a process that reads one for the first time at this moment must not
    # bring in what it read before.
    _tell(store, index, [session for session in moved if session in sessions])
    return index.scrub()


def forget_in_indexes(store: StorePort, context: Context, sessions: Iterable[str]) -> bool:
    """The same for every index of the store; False if one of them could not yet."""
    concerned = list(sessions)
    searched = search.forget(store, context, concerned)
    return forget(store, context, concerned) and searched
