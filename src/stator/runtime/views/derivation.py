"""Follows what commits were made from through the store, and names commits that a program says it used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stator.errors import BadType, NotFound, Unverified
from stator.model.calls.life import Outcome
from stator.model.calls.sources import hosts
from stator.model.calls.web_calls import fetched_hosts
from stator.model.log.commit import UNTRUSTED, Commit, Draft, Named
from stator.model.log.edges import Edge, written_edges
from stator.model.log.query import PAGE_MAX, Read, SessionQuery, read
from stator.model.records.types import Record, TrustRecord
from stator.model.sessions.ownership import Ownership
from stator.model.values import canon
from stator.model.values.ids import is_id, retype
from stator.model.views.knowledge import CARRY
from stator.model.views.taint import (
    RESULTS,
    Beliefs,
    Judge,
    PathStep,
    Reach,
    Sweep,
    edges_in,
    is_memory,
    is_outside,
    is_persons_word,
    path_from,
    reported_children,
)
from stator.runtime.base.pages import commit_at, matching
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
FOREIGN = "its store is foreign"
BUNDLED = "it came with a bundle"
ELSEWHERE = "it came from elsewhere"
MEMORY = "an agent wrote it down for itself"
WEB = "it came from the web"
NAMED = {FOREIGN: "a foreign store", BUNDLED: "a bundle", MEMORY: "an agent's memory"}
"""Where roots came from that are not calls."""
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
        self._children: dict[str, dict[int, list[str]]] = {}

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
        record = self._store.session(session).record
        sweep = Sweep(self._judged(self._store, session), edges_in(record), self._made)
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
                self._reports(commit, sweep)
            below = page[-1].seq
            self._locate(session, sweep)
        self._roots += sweep.roots
        return None

    def _reports(self, commit: Commit, sweep: Sweep) -> None:
        """A result of a call that a sub-agent worked for rests on all that this one was shown."""
        step = sweep.step_of(commit)
        if step is None:
            return
        for child in (*reported_children(commit), *self._worked_for(commit)):
            with contextlib.suppress(NotFound):
                head = self._store.head(child).seq
                self._waiting.append((child, [Edge(1, head)], step))

    def _worked_for(self, commit: Commit) -> list[str]:
        if commit.kind not in RESULTS or not commit.call:
            return []
        if commit.session not in self._children:
            self._children[commit.session] = children_at(self._store, commit.session)
        children = self._children[commit.session]
        if not children:
            return []
        found = self._store.locate(retype(commit.call, "commit"), commit.session)
        return children.get(found[0][1], []) if found else []

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


def judge_of(
    store: StorePort, session: str, intent: Callable[[str], Commit | None] | None = None
) -> Judge:
    """Decides about the commits of one session: why one is not trusted; None if it is a person's word, or a person
    vouches for it. `intent` gives the commit of a call where that is at hand."""
    record = store.session(session).record
    imported = imported_upto(store, record)
    foreign = store.ownership.foreign
    beliefs = Beliefs(standing_trust(store, session))
    is_recorded = record.mode == "recorded"

    def fetched(commit: Commit) -> list[str]:
        asked = _asked(store, session, commit, intent)
        return [] if asked is None else fetched_hosts(asked.tool, asked.known("input"))

    def hosts_of(commit: Commit) -> Sequence[str]:
        asked = _asked(store, session, commit, intent)
        if asked is None:
            return []
        given = asked.known("input")
        return hosts(given) or [host for host in fetched_hosts(asked.tool, given) if host]

    def judge(commit: Commit) -> str | None:
        said = beliefs.of(commit, hosts_of) if beliefs else None
        if said:
            return None
        if said is False:
            return "a person does not believe it any more"
        if commit.seq <= imported:
            return FOREIGN if foreign else BUNDLED
        if is_persons_word(commit):
            return None
        if commit.kind == CARRY and _is_followed(store, commit):
            return ""
        if is_outside(commit):
            return WEB if commit.provenance.source == "web" else ELSEWHERE
        if is_recorded and commit.kind in RESULTS and commit.call and fetched(commit):
            return WEB
        return MEMORY if is_memory(commit) else ""

    return judge


def _asked(
    store: StorePort,
    session: str,
    commit: Commit,
    intent: Callable[[str], Commit | None] | None,
) -> Commit | None:
    """The commit that holds what a result was asked for."""
    if not commit.call:
        return None
    return intent(commit.call) if intent is not None else intent_of(store, session, commit.call)


def _is_followed(store: StorePort, commit: Commit) -> bool:
    """Whether what a commit took over is still where it was recorded: then that decides."""
    return 0 < len(commit.inputs) < FROM_MAX and all(
        isinstance(item, int) or (is_id(item) and store.locate(retype(item, "commit")))
        for item in commit.inputs
    )


def children_at(store: StorePort, session: str) -> dict[int, list[str]]:
    """The sessions of sub-agents that a session's calls started, by the places of these calls."""
    found: dict[int, list[str]] = {}
    for row in matching(store, SessionQuery(parent=session), limit=PAGE_MAX):
        parent = row.record.parent
        if parent is not None and parent.kind == "child" and parent.session == session:
            found.setdefault(parent.seq, []).append(row.id)
    return found


def asks_children(session: str) -> Read:
    """What `children_at` reads."""
    return read("sessions", SessionQuery(parent=session), limit=PAGE_MAX)


def origin_of(commit: Commit, why: str, intent: Callable[[str], Commit | None]) -> str:
    """Where an untrusted root came from, in a word."""
    if why in NAMED:
        return NAMED[why]
    asked = intent(commit.call) if commit.call else None
    given = None if asked is None else asked.known("input")
    named = hosts(given) or ([] if asked is None else fetched_hosts(asked.tool, given))
    if named and named[0]:
        return f"web:{named[0]}"
    if commit.kind == CARRY:
        return f"{commit.provenance.source}, in an earlier session"
    source = commit.provenance.source
    return f"{source if source in UNTRUSTED else 'web'}:{commit.tool or commit.kind}"


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
    edges = edges_in(store.session(session).record)(commit)
    return reach(store, session, edges, judged=judged)


def _way(path: Sequence[PathStep]) -> str:
    shown = [f"{step.tool or step.kind} @{step.seq}" for step in path]
    if len(shown) > PATH_SHOWN:
        shown = [*shown[: PATH_SHOWN - 1], "…", shown[-1]]
    return " → ".join(shown)
