"""Reads ahead the sessions that others rest on, in rounds: what all sessions of one round name is read together.

So the calls of the port grow with how deep sub-agents lie, and with how much is recorded in them, but not with how many
there are. It decides nothing: what was not read ahead is read when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from stator.model.log.commit import Commit
from stator.model.log.query import PAGE_MAX, Read, SessionQuery, SessionRow, read
from stator.model.values.ids import is_id
from stator.model.views.taint import reported_children
from stator.runtime.base.one_answer import OneAnswer, reading
from stator.runtime.base.project_session import asks_known, known
from stator.runtime.base.provenance import asks_imported, imported_upto
from stator.runtime.views.derivation import asks_children
from stator.store.port import StorePort

ROUNDS_MAX = 40
"""Sessions behind one another that are read ahead."""

Level = Mapping[str, int]
"""The sessions of a round, and up to which seq each is read."""


def read_rounds(store: StorePort, session: str, upto: int) -> None:
    """Read a session up to a seq, and what its commits rest on in others."""
    _follow(store, {session: upto}, set())


def read_behind(
    store: StorePort, session: str, commits: Sequence[Commit], children: Iterable[str]
) -> None:
    """Read what some commits of a session rest on in others, and what those sub-agents recorded."""
    asked = reading(store)
    if asked is not None:
        names = _names(asked, session, commits)
        _locate(asked, names)
        level = dict.fromkeys(children, PAGE_MAX) | _owners(asked, names)
        _follow(store, level, {session})


def _follow(store: StorePort, level: Level, seen: set[str]) -> None:
    asked = reading(store)
    if asked is None or store.ownership.foreign:  # nothing of a foreign store is trusted
        return
    for _ in range(ROUNDS_MAX):
        level = {session: upto for session, upto in level.items() if session not in seen}
        if not level:
            return
        seen |= level.keys()
        _read(asked, level)
        held = {session: asked.read_upto(session, upto) for session, upto in level.items()}
        own = cast("StorePort", asked)
        held = {
            session: commits
            for session, commits in held.items()
            if commits and imported_upto(own, own.session(session).record) < commits[-1].seq
        }
        names = [n for session, commits in held.items() for n in _names(asked, session, commits)]
        _locate(asked, names)
        level = _owners(asked, names)
        for session, commits in held.items():
            level |= _children(own, session, commits)


def _read(asked: OneAnswer, level: Level) -> None:
    """Read the sessions of a round: in one call, unless more than a page of commits is in them."""
    asked.ahead(*(read("session", session) for session in level))
    reads: list[Read] = []
    size = 0
    for session, upto in level.items():
        row = asked.row_read(session)
        if row is None:
            continue
        last = min(upto, row.head, PAGE_MAX)
        if size + last > PAGE_MAX:
            asked.ahead(*reads)
            reads, size = [], 0
        size += last
        reads += _reads(asked, row, last)
    asked.ahead(*reads)


def _reads(asked: OneAnswer, row: SessionRow, upto: int) -> Iterator[Read]:
    """What is asked of a session to know what its commits rest on."""
    yield asks_known(row.record)
    yield asks_children(row.id)
    yield read("entries", row.id, "trust")
    if upto > 0:
        yield read("commits", row.id, upto=upto, limit=PAGE_MAX, load=False)
    if asked.is_read(asks_known(row.record)):
        own = known(cast("StorePort", asked), row.record)
        if own is not None:
            yield asks_imported(own.id, row.record)


def _children(store: StorePort, session: str, commits: Sequence[Commit]) -> dict[str, int]:
    """The sub-agents that worked for a session up to its last commit here."""
    reported = {child for commit in commits for child in reported_children(commit)}
    found = dict.fromkeys(reported, PAGE_MAX)
    for row in store.sessions(SessionQuery(parent=session), limit=PAGE_MAX).rows:
        parent = row.record.parent
        if parent is not None and parent.kind == "child" and parent.seq <= commits[-1].seq:
            found[row.id] = row.head
    return found


def _names(asked: OneAnswer, session: str, commits: Iterable[Commit]) -> list[str]:
    """The ids of commits that some of a session name and that were not read in it: they may be another's."""
    found: dict[str, None] = {}
    for commit in commits:
        for text in (*commit.inputs, commit.call, commit.parent):
            if text and isinstance(text, str):
                name = f"k_{text[2:]}"  # as calls and turns name the commits that began them
                if not asked.has_id(session, name) and is_id(text):
                    found[name] = None
    return list(found)


def _locate(asked: OneAnswer, names: Iterable[str]) -> None:
    """Find, in one call, whose these commits are."""
    asked.ahead(*(read("locate", name) for name in names))


def _owners(asked: OneAnswer, names: Iterable[str]) -> dict[str, int]:
    """The sessions that these commits are in, and up to where."""
    found: dict[str, int] = {}
    for name in names:
        for owner, seq in asked.locate(name):
            found[owner] = max(seq, found.get(owner, 0))
    return found
