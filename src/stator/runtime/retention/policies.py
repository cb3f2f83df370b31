"""Sets and reads retention policies, plans what they would do now, and does it.

Everything that is done is a commit: in the session, where its transcript expires or it is archived; in
the project's own session, where it is put in the trash, taken out or purged. One commit is all or
nothing, so a run that was killed has done some of its actions whole, and the next does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from stator.errors import HeadMoved, InvalidInput, NotFound, StatorError, WrongState
from stator.model.log.commit import (
    Change,
    Draft,
    Erase,
    Purge,
    Remove,
    Upsert,
)
from stator.model.log.query import SessionRow
from stator.model.records.types import FlagRecord, SessionRecord
from stator.model.sessions import retention as model
from stator.model.sessions.lifecycle import lent_upto
from stator.model.sessions.retention import Action, Plan, Subject
from stator.runtime.base import project_flags, project_session
from stator.runtime.base.context import Context
from stator.runtime.base.pages import counts_of
from stator.runtime.driving import lifecycle
from stator.runtime.retention.subjects import (
    DONE,
    EXPIRED,
    NEVER,
    activity,
    subjects,
    transcript_words,
)
from stator.runtime.runs import folder
from stator.runtime.views.project_state import forget_in_indexes
from stator.store.port import StorePort

PAGE = 500
"""Commits whose content one erasure takes away."""
TRIES = 100


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies that hold for a project: its own, over those of the store."""

    project: dict[str, int] = {}
    store: dict[str, int] = {}

    @property
    def holding(self) -> dict[str, int]:
        return {**self.store, **self.project}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """An action, and why it was not done; empty if it was."""

    action: Action
    failed: str = ""


# -- policies -------------------------------------------------------------------------------------


def policies(store: StorePort, project: str, tenant: str = "") -> Policies:
    """What was set for a project, and for the whole store."""
    whole = _retention(store, "", "")
    return Policies(
        project=_retention(store, project, tenant) if project or tenant else {}, store=whole
    )


def _retention(store: StorePort, project: str, tenant: str) -> dict[str, int]:
    known = project_session.known(store, _scope(project, tenant))
    return {} if known is None else dict(known.record.retention)


def _scope(project: str, tenant: str = "") -> SessionRecord:
    return SessionRecord(id="", name="", project=project, tenant=tenant)


def set_policies(
    store: StorePort,
    context: Context,
    settings: Mapping[str, int | None],
    *,
    project: str,
    by: str,
) -> dict[str, int]:
    """Set policies for a project (`""`: the whole store), None taking one off; those that are set then."""
    own = project_session.own(store, context, _scope(project))

    def wanted() -> Draft | None:
        record = store.session(own.id).record
        found = {**record.retention, **settings}
        kept = model.check_retention({n: v for n, v in found.items() if v is not None})
        if kept == record.retention:
            return None
        return Draft(
            id=context.mint("commit"),
            session=own.id,
            kind="retention",
            actor="user",
            principal=by,
            changes=(Upsert("session", msgspec.structs.replace(record, retention=kept)),),
        )

    _decide(store, own, wanted)
    return dict(store.session(own.id).record.retention)


def _decide(store: StorePort, own: SessionRow, wanted: Callable[[], Draft | None]) -> None:
    """Append to a project's own session what is wanted in the light of what it says, and of nothing older."""
    for _ in range(TRIES):
        head = store.head(own.id)
        draft = wanted()
        try:
            if draft is not None:
                store.append(own.id, [draft], if_head=head.hash, barrier=True)
            return
        except HeadMoved as error:
            moved = error
    raise moved


# -- the plan -------------------------------------------------------------------------------------


def plan(
    store: StorePort, context: Context, *, project: str | None = None, max_bytes: int | None = None
) -> Plan:
    """What the policies would do now, to the sessions of a project or of the whole store."""
    if max_bytes is None and not _asks_for_anything(store):
        return Plan(sessions=_how_many(store, project))
    known: dict[tuple[str, str], dict[str, int]] = {}
    now = context.clock()

    def policy_of(one: Subject | SessionRecord) -> Mapping[str, int]:
        scope = (one.project, one.tenant)
        if scope not in known:
            known[scope] = policies(store, *scope).holding
        return known[scope]

    def floor_of(row: SessionRow) -> int:
        shortest = model.shortest_age(policy_of(row.record))
        return now - shortest if shortest else NEVER

    floors = floor_of if max_bytes is None else None
    found = [one for one in subjects(store, floors) if project is None or one.project == project]
    return model.plan(found, policy_of, now, max_bytes=max_bytes)


def _asks_for_anything(store: StorePort) -> bool:
    """Whether there is a policy that is about ages, or anything in the trash: else no session need be looked at."""
    rows = project_flags.project_sessions(store)
    if any(model.shortest_age(row.record.retention) for row in rows):
        return True
    return next(project_flags.marks(store, project_flags.TRASH), None) is not None


def _how_many(store: StorePort, project: str | None) -> int:
    """How many sessions there are, without the projects' own."""
    own = project_flags.project_sessions(store)
    whole = store.heads({}, project=project, others=True)
    return len(whole) - sum(project in (None, row.record.project) for row in own)


# -- doing it -------------------------------------------------------------------------------------


def apply(
    store: StorePort, context: Context, made: Plan, *, by: str, yes: bool = False
) -> Iterator[Done]:
    """Carry a plan out, an action at a time. One that removes too much is refused unless `yes`."""
    if made.breaker and not yes:
        raise WrongState(
            f"nothing was done: {made.breaker}", hint="look at the plan; then --yes --force"
        )
    for action in made.actions:
        try:
            _ACTIONS[action.what](store, context, action, by)
            yield Done(action=action)
        except StatorError as error:
            yield Done(action=action, failed=error.what)
    sweep(store)
    store.sync()  # a write: it finishes what an earlier run that was killed left in the WAL
    forget_in_indexes(store, context, [action.session for action in made.actions])


def _archive(store: StorePort, context: Context, action: Action, by: str) -> None:
    row = _unmoved(store, action)
    moves = ("archive",) if row.record.status == "closed" else ("close", "archive")
    with lifecycle.held(store, context, action.session) as hold:
        drafts = [
            hold.draft(kind, cause="done", actor="system", principal=by, why=action.why)
            for kind in moves
        ]
        store.append(action.session, [*hold.left_behind(), *drafts], barrier=True)


def _expire(store: StorePort, context: Context, action: Action, by: str) -> None:
    """Take a session's transcript away, a page of commits at a time; what it decided and learned stays."""
    head = store.head(action.session).hash
    row = _unmoved(store, action)
    pages = _pages(store, row)
    changes = next(pages, ())
    while changes:
        more = next(pages, ())
        draft = Draft(
            id=context.mint("commit"),
            session=action.session,
            kind="erasure",
            actor="system",
            principal=by,
            cause=EXPIRED,
            status="" if more else DONE,
            why=action.why,
            input={"from": changes[0].seq, "to": changes[-1].seq, "commits": len(changes)},
            changes=changes,
        )
        head = store.append(action.session, [draft], if_head=head, barrier=True)[0].hash
        changes = more


def _pages(store: StorePort, row: SessionRow) -> Iterator[tuple[Erase, ...]]:
    """What is to be erased of a session's transcript, for a page of commits at a time."""
    after = lent_upto(row.record.lineage)
    while after < row.head:
        upto = min(after + PAGE, row.head)
        page = store.commits(row.id, after=after, upto=upto, limit=PAGE, load=False)
        found = tuple(
            Erase(seq=commit.seq, fields=words)
            for commit in page
            if (words := transcript_words(commit))
        )
        if found:
            yield found
        after = upto


def _trash(store: StorePort, context: Context, action: Action, by: str) -> None:
    project_flags.put(
        store, context, _unmoved(store, action), project_flags.TRASH, by=by, why=action.why
    )


def restore(store: StorePort, context: Context, session: str, *, by: str) -> bool:
    """Take a session out of the trash; False if it was not there."""
    return project_flags.take_off(
        store, context, store.session(session), project_flags.TRASH, by=by
    )


def _restore(store: StorePort, context: Context, action: Action, by: str) -> None:
    restore(store, context, action.session, by=by)


def _purge(store: StorePort, context: Context, action: Action, by: str) -> None:
    """Purge a session; its tombstone is in the project's own session.

    Only while it lies in the trash as it did when the plan was made: who takes it out, holds it or
    goes on with it, in whatever process, comes before.
    """
    own = project_session.own(store, context, store.session(action.session).record)
    _decide(store, own, lambda: _purging(store, context, own, action, by))


def _purging(store: StorePort, context: Context, own: SessionRow, action: Action, by: str) -> Draft:
    row = _unmoved(store, action)
    record, counts = row.record, counts_of(store, row.id)
    mark = project_flags.trashed(store, own.id, row.id)
    if mark is None or (mark.at, project_flags.stood_at(mark)) != (action.trashed, row.head):
        raise WrongState(
            f"session {record.name!r:.80} has changed since it was moved to the trash",
            session=row.id,
        )
    flag = FlagRecord(name=project_flags.PURGED, on=row.id, why=action.why, by=by)
    changes: list[Change] = [
        Purge(row.id, row.head),
        Upsert("flags", flag),
        Remove("flags", project_flags.key(project_flags.TRASH, row.id)),
    ]
    tombstone = {
        "name": record.name,
        "agent": record.agent,
        "created": record.created,
        "updated": row.updated,
        "turns": counts.turns,
        "commits": counts.commits,
        "bytes": action.bytes,
        "policy": action.why,
    }
    return Draft(
        id=context.mint("commit"),
        session=own.id,
        kind="purge",
        actor="system",
        principal=by,
        input=tombstone,
        why=action.why,
        changes=tuple(changes),
    )


_ACTIONS: dict[str, Callable[[StorePort, Context, Action, str], None]] = {
    "archive": _archive,
    "expire": _expire,
    "trash": _trash,
    "restore": _restore,
    "purge": _purge,
}


def _unmoved(store: StorePort, action: Action) -> SessionRow:
    """The session, unless something happened in it, or it was held, since the plan was made."""
    row = store.session(action.session)
    if project_flags.has(store, row, project_flags.HOLD):
        raise WrongState(f"session {row.record.name!r:.80} is held", session=row.id)
    if activity(store, row)[0] != action.active:
        raise WrongState(f"session {row.record.name!r:.80} is in use again", session=row.id)
    return row


def sweep(store: StorePort) -> int:
    """Remove the run folders of sessions that were purged; how many."""
    runs = list(folder.beside(store))
    gone = project_flags.marked(store, project_flags.PURGED) if runs else {}
    swept = 0
    for files in runs:
        try:
            session = files.read().session
        except StatorError:
            continue
        if session in gone and not files.is_live() and not _is_there(store, session):
            files.discard()
            swept += 1
    return swept


def _is_there(store: StorePort, session: str) -> bool:
    """Whether a session is there; one that was purged may have come back in a bundle."""
    try:
        store.session(session)
    except NotFound:
        return False
    return True


# -- holds ----------------------------------------------------------------------------------------


def hold(store: StorePort, context: Context, session: str, *, by: str, why: str = "") -> None:
    """Keep a session regardless of the policies, until it is released."""
    row = store.session(session)
    if row.record.mode == "project":
        raise InvalidInput("a project's own session is never removed", session=session)
    project_flags.put(store, context, row, project_flags.HOLD, by=by, why=why)


def release(store: StorePort, context: Context, session: str, *, by: str) -> bool:
    """Let the policies apply to a session again; False if it was not held."""
    return project_flags.take_off(store, context, store.session(session), project_flags.HOLD, by=by)
