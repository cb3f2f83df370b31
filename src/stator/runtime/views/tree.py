"""Builds the tree of forks, retries and children that a session is in, or that a project has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import islice

import msgspec

from stator.errors import NotFound
from stator.model.log.query import SessionQuery, SessionRow, read
from stator.model.log.rewinds import TAG
from stator.model.records.types import ChildRecord, Parent
from stator.model.sessions.sub_agents import is_stray
from stator.model.views.tree import Branch, Tree, UnrecordedAgent, in_order
from stator.runtime.base.costs import asks_cost, session_spend
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import matching
from stator.runtime.views.as_read import for_one_answer, prices_in
from stator.runtime.views.reflog import turn_at
from stator.runtime.views.refs import rows_of
from stator.runtime.views.spend import spent
from stator.store.port import StorePort

NAMING = 100
"""Sessions of a project, those used last, whose sub-agents are looked up."""
LIMIT = 1000
"""Sessions of a tree that are looked at, unless more are asked for."""


def tree_of(store: StorePort, session: str, *, limit: int = LIMIT) -> Tree:
    """The whole tree a session is in: from the one that has no parent down, one call for each generation."""
    store = for_one_answer(store)
    row = store.session(session)
    seen = {row.id}
    while row.record.parent is not None and row.record.parent.session not in seen:
        seen.add(row.record.parent.session)
        try:
            row = store.session(row.record.parent.session)
        except NotFound:  # it is gone: the tree begins below it
            break
    found, level, more = [row], [row.id], False
    while level and not more:
        queries = [SessionQuery(parent=above) for above in level]
        ahead(store, *(read("sessions", query) for query in queries))
        below = [other for query in queries for other in islice(matching(store, query), limit + 1)]
        room = limit - len(found)
        more = len(below) > room
        found += below[:room]
        level = [other.id for other in below[:room]]
    tree = _tree(store, found, more=more)
    return msgspec.structs.replace(tree, unrecorded=_unrecorded(store, found))


def project_tree(
    store: StorePort, project: str | None, *, limit: int = LIMIT, alone: bool = True
) -> Tree:
    """Every session of a project, or of the store, the most recently used if there are too many; unless `alone`, those
    without a relative among them, and among as many others, are only counted."""
    rows = (row for row in rows_of(store, project=project) if row.record.mode != "project")
    most = limit if alone else max(limit, LIMIT)
    found = list(islice(rows, most + 1))
    looked = found[:most]
    shown = looked if alone else _related(looked)
    more = len(found) > most or len(shown) > limit
    tree = _tree(store, shown[:limit], more=more)
    naming = list(islice(rows_of(store, project=project, holds="children"), NAMING))
    return msgspec.structs.replace(
        tree, alone=len(looked) - len(shown), unrecorded=_unrecorded(store, naming)
    )


def _unrecorded(store: StorePort, rows: Sequence[SessionRow]) -> list[UnrecordedAgent]:
    """The sub-agents that these sessions name and that have no session here: two calls."""
    store = for_one_answer(store)
    ahead(store, *(read("entries", row.id, "children") for row in rows))
    named = [
        (row, entry.seq, record)
        for row in rows
        for entry in store.entries(row.id, "children")
        if isinstance(record := entry.record, ChildRecord) and record.kind == "child"
    ]
    ahead(store, *(read("session", record.session) for _, _, record in named))
    return [
        UnrecordedAgent(
            session=record.session, name=record.name, status=record.status, parent=row.id, seq=seq
        )
        for row, seq, record in named
        if not _is_here(store, record.session)
    ]


def _is_here(store: StorePort, session: str) -> bool:
    try:
        store.session(session)
    except NotFound:
        return False
    return True


def _related(rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Those that another one came from, those that came from another one, and sub-agents whose parent is not known."""
    parents = {row.record.parent.session for row in rows if row.record.parent is not None}
    return [
        row
        for row in rows
        if row.record.parent is not None or row.id in parents or is_stray(row.record)
    ]


def _tree(store: StorePort, rows: Iterable[SessionRow], *, more: bool) -> Tree:
    store = for_one_answer(store)
    by_id = {row.id: row for row in rows}
    began: dict[str, set[int]] = {}
    ahead(
        store,
        *(read("entries", one, "spend", "tags") for one in by_id),
        *(each for one in by_id for each in asks_cost(one, prices_in(store))),
        *(read("session", one, counted=True) for one in by_id),
    )
    for row in by_id.values():
        if (parent := row.record.parent) is not None and parent.session in by_id:
            began.setdefault(parent.session, set()).add(parent.seq)
    ahead(
        store,
        *(
            read("commits", session, seqs=sorted(seqs), load=False)
            for session, seqs in began.items()
        ),
    )
    turn = lru_cache(maxsize=None)(partial(turn_at, store))
    branches = [_branch(store, row, by_id, turn) for row in by_id.values()]
    return Tree(branches=in_order(branches), more=more)


def _turn_above(parent: Parent, turn_of: Callable[[str, int], int]) -> int:
    """The turn of the other session that a session came from, or that it tries again; 0 if that session is not here."""
    try:
        return turn_of(parent.session, parent.seq) + (parent.kind == "retry")
    except NotFound:
        return 0


def _branch(
    store: StorePort,
    row: SessionRow,
    known: dict[str, SessionRow],
    turn_of: Callable[[str, int], int],
) -> Branch:
    """A session in its tree; `turn_of` says which turn of a session a seq is in."""
    record, parent = row.record, row.record.parent
    used = spent(store, row.id) | session_spend(store, row, prices_in(store))
    above = known.get(parent.session) if parent is not None else None
    turn = _turn_above(parent, turn_of) if parent is not None else 0
    began = parent.seq if parent is not None and record.lineage else 0
    return Branch(
        id=row.id,
        name=record.name,
        status=row.shown,
        parent=parent.session if parent is not None else "",
        kind=parent.kind if parent is not None else "child" if is_stray(record) else "",
        turn=turn,
        seq=parent.seq if parent is not None else 0,
        turns=used["turns"],
        spent=used,
        adopted=record.adopted,
        goes_on=above is not None and above.record.adopted == row.id,
        rewound=sum(
            entry.key.startswith(TAG) and entry.seq > began
            for entry in store.entries(row.id, "tags")
        ),
        created=record.created,
        updated=row.updated,
    )
