"""Reconciles the sessions of a bundle with those that are here, and decides what is done with each.

A session that is not here is new. One that is here is compared commit by commit: one log is the
beginning of the other, or both have new commits after a shared one. Then the imported commits become a fork
at that commit, and later ones continue that fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from stator.errors import Conflict, NotFound
from stator.model.exchange.bundle import Bundled
from stator.model.exchange.graft import Graft, root
from stator.model.exchange.packed import Packed
from stator.model.log.commit import Commit
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.records.types import Parent, SessionRecord
from stator.model.sessions.lifecycle import driven
from stator.model.values.ids import from_bytes, short
from stator.runtime.base import pages, project_flags, project_session
from stator.runtime.base.context import Context
from stator.runtime.base.pages import find_entry
from stator.runtime.branches.fork import lineage
from stator.store.port import StorePort

PAGE = 500
MANY = 1000
SALT_BYTES = 16

Fate = Literal["new", "fast-forward", "fork", "same", "longer here"]


class Met(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log that came and the one that is here part."""

    session: str
    """The session that shares most with it: the one of that id, or a fork that came earlier."""
    cuts: list[int]
    """The seq, as it came, before each fork on the way there."""
    common: int
    """The last seq, as it came, that is here."""
    here: bool
    """Whether something follows it here."""
    there: bool
    """Whether something follows it where it came from."""


class ReconcilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of one session of a bundle."""

    one: Bundled
    fate: Fate
    into: str
    name: str
    project: str
    new: int = 0
    """How many commits there are to take."""
    common: int
    """The last seq, as it came, that is here."""
    shared: str = ""
    """The session here that has the commits up to there; "" if it has no such commit, or none of them changes."""
    cuts: list[int] = []
    graft: Callable[[Iterable[Commit]], Iterator[Commit]] | None = None

    @property
    def last(self) -> int:
        """The seq here of its last commit."""
        return self.one.seq + len(self.cuts)


def plan(
    store: StorePort,
    context: Context,
    manifest: Sequence[Bundled],
    packed: Callable[[], Iterator[tuple[Bundled, Iterator[Packed]]]],
    project: str | None,
    names: Mapping[str, str],
) -> list[ReconcilePlan]:
    """A plan for each session of a bundle; `packed` reads their commits, if that must be. `names`: what forks of them
    are to be called."""
    rows = {one.id: _row(store, one.id) for one in manifest}
    unclear = {
        one.id for one in manifest if (row := rows[one.id]) and not _is_here(store, row, one)
    }
    met: dict[str, Met] = {}
    for one, commits in packed() if unclear else ():
        if one.id in unclear:
            met[one.id] = _meet(store, one, commits)
    plans: list[ReconcilePlan] = []
    for one in manifest:
        row = rows[one.id]
        if row is None:
            plans.append(_new(store, context, one, project, plans))
        else:
            name = names.get(one.id, "")
            plans.append(_known(store, context, one, row, met.get(one.id), name))
    return plans


def _row(store: StorePort, session: str) -> SessionRow | None:
    try:
        return store.session(session)
    except NotFound:
        return None


def _hash_at(store: StorePort, session: str, seq: int) -> str:
    found = store.commits(session, after=seq - 1, upto=seq, limit=1, load=False)
    return found[0].hash if found else ""


def _is_here(store: StorePort, row: SessionRow, one: Bundled) -> bool:
    return one.seq <= row.head and _hash_at(store, row.id, one.seq) == one.hash


# -- sessions that are not here -------------------------------------------------------------------


def _new(
    store: StorePort,
    context: Context,
    one: Bundled,
    project: str | None,
    before: Sequence[ReconcilePlan],
) -> ReconcilePlan:
    for part in one.lineage:
        above = next((plan for plan in before if plan.one.id == part.session), None)
        if above is not None and above.cuts and part.upto > above.cuts[0]:
            raise Conflict(
                f"session {one.name!r:.80} was forked from a part of {above.name!r:.80} that differs in "
                "this store",
                hint="nothing was imported; import it into a store of its own, with --store",
                session=one.id,
            )
    place = _place(store, context, one, before) if project is None else project
    asked = SessionRecord(id=one.id, name=one.name, project=place, tenant=one.tenant)
    _check_purged(store, asked)
    query = SessionQuery(name=one.name, project=place, tenant=one.tenant)
    if store.sessions(query, limit=1).rows or one.name == project_session.PROJECT_SESSION:
        raise name_taken(one.name, place, one.id)
    return ReconcilePlan(
        one=one,
        fate="new",
        into=one.id,
        name=one.name,
        project=place,
        new=one.seq - one.after,
        common=one.after,
    )


def name_taken(name: str, project: str, session: str) -> Conflict:
    """The refusal of a session whose name another one has."""
    return Conflict(
        f"there is another session {name!r:.80} in project {project!r:.200}",
        hint="nothing was imported; import it into another project with --into",
        session=session,
    )


def _place(
    store: StorePort, context: Context, one: Bundled, before: Sequence[ReconcilePlan]
) -> str:
    """The project a session belongs to here: where what it was forked from is, its own, or this one."""
    if one.lineage:
        above = next((plan for plan in before if plan.one.id == one.lineage[-1].session), None)
        if above is not None:
            return above.project
    query = SessionQuery(project=one.project, tenant=one.tenant)
    known = one.project == context.project or store.sessions(query, limit=1).rows
    return one.project if known else context.project


def _check_purged(store: StorePort, record: SessionRecord) -> None:
    """In any project: importing into another project would not make it another session."""
    for own in project_flags.project_sessions(store):
        flag = project_flags.key(project_flags.PURGED, record.id)
        if (
            own.record.tenant == record.tenant
            and find_entry(store, own.id, "flags", flag) is not None
        ):
            raise Conflict(
                f"session {record.name!r:.80} was purged from this store and is not imported again",
                hint="nothing was imported; import it into another store if you want it back",
                session=record.id,
            )


# -- sessions that are ----------------------------------------------------------------------------


def _known(
    store: StorePort,
    context: Context,
    one: Bundled,
    row: SessionRow,
    met: Met | None,
    name: str,
) -> ReconcilePlan:
    if met is None or not met.there:
        return _nothing_new(store, one, row, met)
    target = row if not met.cuts else store.session(met.session)
    if met.here:
        return _fork(store, context, one, target, met, name)
    if target.holder is not None and target.holder.live:
        raise driven(target.record, target.holder)
    graft = None
    if met.cuts:
        low = target.record.lineage[-1].upto
        first = store.commits(target.id, after=low, upto=low + 1, limit=1)[0]
        graft = _grafting(store, target.id, first, target.record, met.cuts, with_first=False)
    return ReconcilePlan(
        one=one,
        fate="fast-forward",
        into=target.id,
        name=target.record.name,
        project=target.record.project,
        new=one.seq - met.common,
        common=met.common,
        shared=target.id,
        cuts=met.cuts,
        graft=graft,
    )


def _nothing_new(store: StorePort, one: Bundled, row: SessionRow, met: Met | None) -> ReconcilePlan:
    """All of it is here, in the session itself or in a fork that came earlier."""
    into = row if met is None or not met.cuts else store.session(met.session)
    longer = into.head > one.seq if met is None else met.here
    return ReconcilePlan(
        one=one,
        fate="longer here" if longer else "same",
        into=into.id,
        name=into.record.name,
        project=into.record.project,
        common=one.seq,
        shared=into.id if met is not None and met.cuts else "",
        cuts=met.cuts if met is not None else [],
    )


def _fork(
    store: StorePort, context: Context, one: Bundled, above: SessionRow, met: Met, name: str
) -> ReconcilePlan:
    if met.common == one.after:
        raise Conflict(
            f"session {one.id} ({one.name!r:.80}) is a different session in this store: they have no commit in common",
            hint="nothing was imported; import it into a store of its own, with --store",
            session=one.id,
        )
    seq = met.common + len(met.cuts)
    parent = store.commits(above.id, after=seq - 1, upto=seq, limit=1)[0]
    told = find_entry(store, above.id, "session", "", at=seq)
    session = context.mint("session")
    known = told.record if told is not None and isinstance(told.record, SessionRecord) else None
    record = msgspec.structs.replace(
        known or above.record,
        id=session,
        name=name or f"{above.record.name}~{short(session)[2:]}",
        aliases=[],
        lineage=lineage(above.record, seq),
        parent=Parent(session=above.id, seq=seq, hash=parent.hash, kind="import"),
        project=above.record.project,
    )
    standing = [told] if told is not None else []
    standing += store.entries(above.id, "calls", at=seq)
    first = root(
        context.mint("commit"),
        record,
        parent,
        standing,
        at=context.clock(),
        principal=context.principal,
        salt=context.secret(SALT_BYTES),
    )
    cuts = [*met.cuts, met.common]
    return ReconcilePlan(
        one=one,
        fate="fork",
        into=session,
        name=record.name,
        project=record.project,
        new=one.seq - met.common + 1,
        common=met.common,
        shared=above.id,
        cuts=cuts,
        graft=_grafting(store, above.id, first, record, cuts, with_first=True),
    )


def _grafting(
    store: StorePort,
    session: str,
    first: Commit,
    record: SessionRecord,
    cuts: Sequence[int],
    *,
    with_first: bool,
) -> Callable[[Iterable[Commit]], Iterator[Commit]]:
    """What gives a session's commits as those of a fork of it."""

    def grafted(commits: Iterable[Commit]) -> Iterator[Commit]:
        graft = Graft(first, record, cuts, lambda seq: _hash_at(store, session, seq))
        if with_first:
            yield first
        for commit in commits:
            if commit.seq > cuts[-1]:
                yield graft.take(commit)

    return grafted


# -- comparing ------------------------------------------------------------------------------------


def _meet(store: StorePort, one: Bundled, packed: Iterator[Packed]) -> Met:
    """Go through both logs until they part, on into forks of ours that came from there."""
    session, cuts, common = one.id, list[int](), one.after
    local = pages.commits(store, session, after=common, load=False)
    mine = next(local, None)
    for theirs in packed:
        while mine is None or not _same(mine, theirs, cuts):
            fork = _came_earlier(store, session, common + len(cuts), theirs) if mine else None
            if fork is None:
                return Met(
                    session=session, cuts=cuts, common=common, here=mine is not None, there=True
                )
            session, cuts = fork.id, [*cuts, common]
            local = pages.commits(store, session, after=common + len(cuts), load=False)
            mine = next(local, None)
        common, mine = theirs.seq, next(local, None)
    return Met(session=session, cuts=cuts, common=common, here=mine is not None, there=False)


def _same(mine: Commit, theirs: Packed, cuts: Sequence[int]) -> bool:
    """By its hash; in a fork, where that is another, by its id."""
    if cuts:
        return mine.id == from_bytes(theirs.id, "commit")
    return mine.hash == theirs.hash.hex()


def _came_earlier(store: StorePort, session: str, seq: int, theirs: Packed) -> SessionRow | None:
    """The fork at a seq that an earlier import made, and that begins with this commit."""
    for row in store.sessions(SessionQuery(parent=session), limit=MANY).rows:
        parent = row.record.parent
        if parent is None or parent.kind != "import" or parent.seq != seq:
            continue
        second = store.commits(row.id, after=seq + 1, upto=seq + 2, limit=1, load=False)
        if second and second[0].id == from_bytes(theirs.id, "commit"):
            return row
    return None
