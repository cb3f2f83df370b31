"""Checks what the sessions of a bundle claim against this store: names, aliases, parents and calls.

The chain shows that a bundle is what was exported. It does not show that what it says is true: its maker
can choose every id and name in it. What would take the place of something local is refused here.
"""

from __future__ import annotations

from stator.errors import BadBundle, Conflict, NotFound
from stator.model.exchange.bundle import refuse
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import SessionQuery
from stator.model.records.types import SessionRecord
from stator.model.values.ids import retype
from stator.runtime.base import project_session
from stator.runtime.bundles.reconcile import ReconcilePlan, name_taken
from stator.store.port import StorePort

ABOVE_MAX = 10_000
"""Sessions that one may have above it."""


class Claims:
    """Takes the new commits of every session of a bundle, and refuses those that cannot be true here."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._parents: dict[str, str] = {}
        self._known: dict[str, SessionRecord] = {}
        self._calls: set[str] = set()

    def take(self, plan: ReconcilePlan, commit: Commit) -> None:
        """Check a new commit; a log that is grafted onto a fork has the fork's own record."""
        if commit.kind == "call" and commit.call != retype(commit.id, "call"):
            self._check_call(plan, commit)
        if plan.graft is None:
            for op in commit.delta:
                record = op.record if isinstance(op, Put) else None
                if isinstance(record, SessionRecord):
                    self._check_record(plan, record)

    def _check_call(self, plan: ReconcilePlan, commit: Commit) -> None:
        """Another attempt at a call has the call's id, and so could a call of any other session: a person who
        approves or settles it by its id would decide about that one."""
        if commit.call in self._calls:
            return
        self._calls.add(commit.call)
        own = {plan.into, plan.one.id, *(part.session for part in plan.one.lineage)}
        for session, _ in self._store.locate(retype(commit.call, "commit")):
            row = self._store.session(session)
            if session not in own and not own & {part.session for part in row.record.lineage}:
                raise refuse(
                    f"@{commit.seq} of session {plan.one.id} names call {commit.call}, which is a call "
                    f"of session {session}",
                    session=plan.one.id,
                    seq=commit.seq,
                )

    def _check_record(self, plan: ReconcilePlan, record: SessionRecord) -> None:
        known = self._known.get(record.id)
        self._known[record.id] = record
        if record.parent is not None:
            self._parents[record.id] = record.parent.session
        if known is None or known.name != record.name:
            self._check_name(plan, record)
        if known is None or known.aliases != record.aliases:
            self._check_aliases(record)

    def _check_name(self, plan: ReconcilePlan, record: SessionRecord) -> None:
        """A session may have been named only after it began."""
        query = SessionQuery(name=record.name, project=plan.project, tenant=plan.one.tenant)
        others = [row for row in self._store.sessions(query, limit=2).rows if row.id != record.id]
        if others or record.name == project_session.PROJECT_SESSION:
            raise name_taken(record.name, plan.project, record.id)

    def _check_aliases(self, record: SessionRecord) -> None:
        """A conversation is recorded in the session that has its alias: another must not claim it."""
        for alias in record.aliases:
            if len(alias) != 2:
                raise refuse(f"session {record.id} has an alias of {len(alias)} parts")
            query = SessionQuery(alias=(alias[0], alias[1]))
            for row in self._store.sessions(query, limit=2).rows:
                if row.id != record.id:
                    raise Conflict(
                        f"session {record.name!r:.80} claims the conversation {alias[1]!r:.80} of {alias[0]!r:.40}, "
                        f"which is recorded in session {row.id}",
                        hint="nothing was imported; import it into a store of its own, with --store",
                        session=record.id,
                    )

    def finish(self) -> None:
        """Refuse sessions that are above themselves, also through sessions that are here."""
        for session in self._parents:
            seen, above = {session}, self._above(session)
            while above and above not in seen and len(seen) <= ABOVE_MAX:
                seen.add(above)
                above = self._above(above)
            if above:
                raise _circle(session)

    def _above(self, session: str) -> str:
        if session in self._parents:
            return self._parents[session]
        try:
            parent = self._store.session(session).record.parent
        except NotFound:
            return ""
        return "" if parent is None else parent.session


def _circle(session: str) -> BadBundle:
    return refuse(f"session {session} is its own parent, or that of one above it", session=session)
