"""Chooses which sessions a bundle holds and how far, and reads their commits as they travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from stator.errors import InvalidInput, NotFound
from stator.model.exchange.bundle import Bundled
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.exchange.packed import Packed
from stator.model.log.query import SessionQuery
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.base.pages import find_entry, matching
from stator.store.port import StorePort

PAGE = 64
"""Commits read at a time: each may hold megabytes."""
FRAME_BYTES = 1 << 20
"""Content after which a frame is full."""
FRAME_COMMITS = 5000


def family(store: StorePort, sessions: Sequence[str], kinds: Set[str]) -> list[str]:
    """The sessions, and those derived from them in these ways. Without its children a session could neither
    be continued nor replayed."""
    found = list(dict.fromkeys(sessions))
    for session in found:
        found += [original for original in _goes_on_for(store, session) if original not in found]
        found += [
            row.id
            for row in matching(store, SessionQuery(parent=session))
            if row.record.parent is not None
            and row.record.parent.kind in kinds
            and row.id not in found
        ]
    return found


def _goes_on_for(store: StorePort, session: str) -> list[str]:
    """The session that another one was adopted for: its name leads there, so it comes along whole."""
    parent = store.session(session).record.parent
    if parent is None:
        return []
    try:
        original = store.session(parent.session)
    except NotFound:  # it was purged
        return []
    return [original.id] if original.record.adopted == session else []


def bundled(store: StorePort, sessions: Sequence[str]) -> list[Bundled]:
    """What goes into the bundle and how far: ancestors first, cut where the last fork needs them."""
    wanted: dict[str, Bundled] = {}
    for session in dict.fromkeys(sessions):
        row = store.session(session)
        if row.record.mode == "project":
            raise InvalidInput("a project's own session cannot be exported", session=session)
        for part in row.record.lineage:
            known = wanted.get(part.session)
            if known is None or known.seq < part.upto:
                wanted[part.session] = _bundled(store, part.session, part.upto, whole=False)
        wanted[session] = _bundled(store, session, store.head(session).seq, whole=True)
    if not wanted:
        raise InvalidInput("there is nothing to export", hint="name a session")
    return sorted(wanted.values(), key=lambda one: one.after)


def _bundled(store: StorePort, session: str, seq: int, *, whole: bool) -> Bundled:
    """A session as its own log says it is; here it may be in another project."""
    low = lent_upto(store.session(session).record.lineage)
    first = store.commits(session, after=low, upto=low + 1, limit=1)[0]
    puts = (getattr(op, "record", None) for op in first.delta)
    opened = next((record for record in puts if isinstance(record, SessionRecord)), None)
    if opened is None:
        raise InvalidInput(
            f"the record of session {session} was erased from its log, so it cannot be exported",
            session=session,
        )
    last = store.commits(session, after=seq - 1, upto=seq, limit=1, load=False)[0]
    told = find_entry(store, session, "session", "", at=seq)
    named = told.record if told is not None and isinstance(told.record, SessionRecord) else opened
    return Bundled(
        id=session,
        name=named.name,
        project=opened.project,
        tenant=opened.tenant,
        lineage=opened.lineage,
        seq=seq,
        hash=last.hash,
        whole=whole,
    )


def batches(store: StorePort, one: Bundled, sieve: Sieve) -> Iterator[tuple[list[Packed], int]]:
    """A session's commits as frames of a bounded size, with the bytes of content in each."""
    batch: list[Packed] = []
    size, seq = 0, one.after
    while seq < one.seq:
        page = store.packed(one.id, after=seq, upto=one.seq, limit=PAGE)
        if not page:
            raise NotFound(f"@{seq + 1} of session {one.id} is gone", session=one.id)
        for commit in page:
            length = sum([len(i) for i in commit.content.values() if type(i) is bytes])
            full = size + length > FRAME_BYTES or len(batch) >= FRAME_COMMITS
            if batch and full:
                yield batch, size
                batch, size = [], 0
            batch.append(sieve.take(commit, one.id))
            size += length
        seq = page[-1].seq
    yield batch, size
