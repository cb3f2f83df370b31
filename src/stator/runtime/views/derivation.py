"""Follows what commits were made from through the store, and names commits that a program says it used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stator.errors import BadType, NotFound, Unverified
from stator.model.calls.life import Outcome
from stator.model.calls.sources import hosts
from stator.model.log.commit import Commit, Draft, Named
from stator.model.log.edges import Edge, edges_of, written_edges
from stator.model.records.types import Record, TrustRecord
from stator.model.sessions.ownership import Ownership
from stator.model.values import canon
from stator.model.values.ids import is_id
from stator.model.views.taint import Beliefs, Judge, PathStep, Reach, Sweep, is_outside, path_from
from stator.runtime.base.pages import commit_at
from stator.runtime.base.provenance import imported_upto
from stator.runtime.views.refs import intent_of, last_attempt, locate
from stator.store.port import StorePort

From = Any
"""What a record was made from, as a program names it: a commit, the id of a commit, a call or a turn, a position
(`t5`, `@42`), an outcome, a response of the model, or a list of these. None: what Stator knows of it."""
FROM_MAX = 1000
"""Things that one record can be made from."""
PAGE = 500
LOOKED_MAX = 20_000
"""Commits that a walk reads at most."""
PATH_SHOWN = 8
"""Commits of a way that an error names."""


# -- what a program says --------------------------------------------------------------------------


def named(
    store: StorePort, session: str, given: From, reply: Callable[[Any], int]
) -> tuple[Named, ...]:
    """What a program names with `from_`, as a draft names it. `reply` gives the seq of a recorded response."""
    items = list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]
    if len(items) > FROM_MAX:
        raise BadType(f"from_ names {len(items)} things; at most {FROM_MAX}", path="$.from_")
    return tuple(_one(store, session, item, reply) for item in items)


def _one(store: StorePort, session: str, item: Any, reply: Callable[[Any], int]) -> Named:
    if isinstance(item, Commit):
        return item.id
    if isinstance(item, Outcome):
        return _result(store, session, item.call)
    if type(item) is int and item > 0:
        return item
    if not isinstance(item, str):
        if seq := reply(item):
            return seq
        item = getattr(item, "id", None)  # a turn
    if not isinstance(item, str) or not item:
        raise BadType(
            "from_ takes commits, ids, positions, outcomes and responses",
            path="$.from_",
            hint='from_=t.try_call(fetch, url), from_="t5", from_=[decision, fact]',
        )
    if is_id(item):
        return _result(store, session, item) if item.startswith("c_") else item
    point = locate(store, session, item)
    if point.session == session:
        return point.seq
    return commit_at(store, point.session, point.seq, load=False).id


def _result(store: StorePort, session: str, call: str) -> Named:
    """What a call gave: its outcome, else the call."""
    intent = intent_of(store, session, call)
    row = None if intent is None else last_attempt(store, session, intent)
    return row.outcome if row is not None and row.outcome else call


# -- what lies behind a commit --------------------------------------------------------------------


def reach(
    store: StorePort,
    session: str,
    edges: Iterable[Edge],
    *,
    most: int = LOOKED_MAX,
    judged: Callable[[StorePort, str], Judge] | None = None,
) -> Reach:
    """What edges of a commit of that session lead to in the end: an untrusted root, if there is one. `judged` gives
    another judge of a session's commits."""
    return _EdgeWalk(store, most, judged or judge_of).run(session, edges)


class _EdgeWalk:
    """One walk, through as many sessions as its edges lead to."""

    def __init__(
        self, store: StorePort, most: int, judged: Callable[[StorePort, str], Judge]
    ) -> None:
        self._store = store
        self._left = self._most = most
        self._judged = judged
        self._made: dict[PathStep, PathStep | None] = {}
        self._roots: list[PathStep] = []
        self._waiting: list[tuple[str, Iterable[Edge], PathStep | None]] = []

    def run(self, session: str, edges: Iterable[Edge]) -> Reach:
        self._waiting.append((session, edges, None))
        while self._waiting:
            place, wanted, by = self._waiting.pop()
            found = self._session(place, wanted, by)
            if found is not None:
                step, why = found
                path = path_from(step, self._made)
                return Reach(path, why, True, self._roots, self._looked)
            if self._left <= 0:
                return Reach(whole=False, roots=self._roots, looked=self._looked)
        return Reach(roots=self._roots, looked=self._looked)

    @property
    def _looked(self) -> int:
        return self._most - self._left

    def _session(
        self, session: str, wanted: Iterable[Edge], by: PathStep | None
    ) -> tuple[PathStep, str] | None:
        try:
            below = self._store.head(session).seq + 1
        except NotFound:  # it was purged: what it held is not here
            return None
        sweep = Sweep(self._judged(self._store, session), self._made)
        sweep.want(wanted, by)
        self._locate(session, sweep)
        while (upto := sweep.next(below)) and self._left > 0:
            page = self._store.commits(
                session, upto=upto, newest_first=True, limit=min(PAGE, self._left), load=False
            )
            if not page:
                break
            self._left -= len(page)
            for commit in page:
                if found := sweep.feed(commit):
                    return found
            below = page[-1].seq
            self._locate(session, sweep)
        self._roots += sweep.roots
        return None

    def _locate(self, session: str, sweep: Sweep) -> None:
        """Find the commits that are known by their ids: in this session, or in another."""
        for identifier in list(sweep.ids):
            by = sweep.ids.pop(identifier)
            here = self._store.locate(identifier, session)
            if here:
                sweep.want([Edge(here[0][1], here[0][1])], by)
                continue
            for owner, seq in self._store.locate(identifier)[:1]:
                self._waiting.append((owner, [Edge(seq, seq)], by))


def judge_of(store: StorePort, session: str) -> Callable[[Commit], str | None]:
    """Decides about the commits of one session: why one is not trusted; None if a person vouches for it."""
    imported = imported_upto(store, store.session(session).record)
    foreign = store.ownership.foreign
    beliefs = Beliefs(standing_trust(store, session))

    def hosts_of(commit: Commit) -> Sequence[str]:
        intent = intent_of(store, session, commit.call)
        return [] if intent is None else hosts(intent.known("input"))

    def judge(commit: Commit) -> str | None:
        said = beliefs.of(commit, hosts_of) if beliefs else None
        if said:
            return None
        if said is False:
            return "a person does not believe it any more"
        if commit.seq <= imported:
            return "its store is foreign" if foreign else "it came with a bundle"
        if is_outside(commit):
            source = commit.provenance.source
            return "it came from the web" if source == "web" else "it came from elsewhere"
        return ""

    return judge


# -- what a person said ---------------------------------------------------------------------------


def standing_trust(store: StorePort, session: str) -> list[TrustRecord]:
    """What this user said of what a session's commits came from. Of a bundle, of a clone and of another user,
    nothing counts."""
    entries = store.entries(session, "trust")
    if not entries:
        return []
    identity, owner = store.info().id, store.ownership
    found = [entry.record for entry in entries]
    return [r for r in found if isinstance(r, TrustRecord) and _is_own(r, session, identity, owner)]


def signed_trust(store: StorePort, session: str, record: TrustRecord) -> TrustRecord:
    """The record with the mark of its owner, in this store and in this session."""
    mark = store.ownership.mark(_marked(record, session), store.info().id)
    return msgspec.structs.replace(record, sure=mark)


def _is_own(record: TrustRecord, session: str, identity: str, owner: Ownership) -> bool:
    return owner.is_own(record.sure, _marked(record, session), identity)


def _marked(record: Record, session: str) -> bytes:
    plain = msgspec.to_builtins(msgspec.structs.replace(record, sure=""))
    return canon.dumps(["trust", session, plain])


# -- verified facts -------------------------------------------------------------------------------


def check_verified(
    store: StorePort, session: str, draft: Draft, pending: Sequence[Draft] = ()
) -> None:
    """Raise `Unverified` if a fact rests on something that nobody vouches for. `pending`: drafts of the same batch,
    which are not in the log yet."""
    found = reach(store, session, draft_edges(draft, {each.id: each for each in pending}))
    if found.path:
        raise Unverified(
            f"the fact cannot be verified: {found.why}: {_way(found.path)} → fact",
            path=[step.id for step in found.path],
            hint="name what it rests on with from_=…, record it without verified=True, or let a person vouch: "
            f"stator vouch @{found.path[0].seq} --session {found.path[0].session} --why …",
            session=session,
            commit=found.path[0].id,
        )
    if not found.whole:
        raise Unverified(
            f"the fact cannot be verified: more than {LOOKED_MAX:,} commits lie behind it",
            path=[],
            hint="name what it rests on with from_=…, or record it without verified=True",
            session=session,
        )


def draft_edges(draft: Draft, pending: dict[str, Draft]) -> Iterator[Edge]:
    """The edges of a draft; those that lead to other drafts of its batch are followed."""
    seen: set[str] = set()
    waiting = [draft]
    while waiting:
        one = waiting.pop()
        flat: list[int | str] = []
        for item in one.inputs:
            flat += item if isinstance(item, tuple) else [item]
        for edge in written_edges(flat):
            other = pending.get(edge.id) if edge.id not in seen else None
            if other is None:
                yield edge
            else:
                seen.add(edge.id)
                waiting.append(other)


def behind(
    store: StorePort,
    session: str,
    commit: Commit,
    judged: Callable[[StorePort, str], Judge] | None = None,
) -> Reach:
    """What a commit of a session rests on."""
    return reach(store, session, edges_of(commit), judged=judged)


def _way(path: Sequence[PathStep]) -> str:
    shown = [f"{step.tool or step.kind} @{step.seq}" for step in path]
    if len(shown) > PATH_SHOWN:
        shown = [*shown[: PATH_SHOWN - 1], "…", shown[-1]]
    return " → ".join(shown)
