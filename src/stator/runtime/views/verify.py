"""Verifies a store: its own audit, then every session's chain, commit by commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stator.errors import StatorError
from stator.model.log import chain
from stator.model.log.commit import Commit, Gone
from stator.model.log.query import Finding, SessionQuery
from stator.runtime.base.provenance import imported_upto
from stator.store.port import StorePort

PAGE = 500
Progress = Callable[[str, int], None]
"""(session, commits checked so far)."""


def verify(
    store: StorePort, session: str | None = None, *, progress: Progress | None = None
) -> Iterator[Finding]:
    """Everything wrong with the store and with the chains of one session or all."""
    yield from store.audit()
    for identifier in [session] if session is not None else _all(store):
        yield from verify_session(store, identifier, progress)


def _all(store: StorePort) -> Iterator[str]:
    cursor: tuple[int, ...] | None = None
    while True:
        page = store.sessions(SessionQuery(), cursor=cursor, limit=PAGE)
        for row in page.rows:
            yield row.id
        cursor = page.cursor
        if cursor is None:
            return


def verify_session(
    store: StorePort, session: str, progress: Progress | None = None
) -> Iterator[Finding]:
    """The first commit of a session that does not belong at its place, if there is one."""
    prev, seq = chain.GENESIS, 0
    erasures: dict[tuple[str, int], int] = {}
    while True:
        try:
            page = store.commits(session, after=seq, limit=PAGE)
        except StatorError as error:
            yield _finding(session, seq + 1, f"cannot be read: {error.what}")
            return
        for commit in page:
            wrong = chain.check(commit, prev, seq + 1)
            if wrong is not None:
                yield _finding(session, commit.seq, wrong)
                return
            prev, seq = commit.hash, commit.seq
            _note_erasures(commit, erasures)
        if progress is not None:
            progress(session, seq)
        if len(page) < PAGE:
            break
    for (owner, by), seq_of in erasures.items():
        if not by:
            if seq_of > imported_upto(store, store.session(owner).record):
                yield _finding(session, seq_of, "content is not there, and no bundle brought it so")
            continue
        found = store.commits(owner, after=by - 1, upto=by, limit=1)
        if not found or found[0].kind != "erasure":
            yield _finding(session, seq_of, f"content is missing, but @{by} is not an erasure")


def _note_erasures(commit: Commit, erasures: dict[tuple[str, int], int]) -> None:
    for item in commit.content.values():
        if isinstance(item, Gone):
            place = (commit.session, item.by)
            erasures[place] = commit.seq if not item.by else erasures.get(place, commit.seq)


def _finding(session: str, seq: int, what: str) -> Finding:
    return Finding(
        what=what,
        check="chain",
        session=session,
        seq=seq,
        hint="the commits before it are intact; restore a backup, or export up to the commit before",
    )


def holds_head(store: StorePort, session: str, head: str) -> bool:
    """Whether a head noted earlier is still in the log: if not, it was cut off, rolled back or rewritten."""
    found = store.locate(head, session)
    return any(
        store.commits(session, after=seq - 1, upto=seq, limit=1, load=False)[0].hash == head
        for _, seq in found
    )
