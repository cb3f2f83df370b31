"""Says which commits rest on something that nobody vouches for, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable

from stator.errors import StoreError
from stator.model.views.untrusted import NOT_KNOWN, SessionTaint
from stator.runtime.base.context import Context
from stator.runtime.base.one_answer import reading
from stator.runtime.views import project_state
from stator.runtime.views.trust.kept_taints import KeptTaints
from stator.runtime.views.trust.rounds import read_rounds
from stator.runtime.views.trust.untrusted import reader_of
from stator.store.port import IndexLost, StorePort

READ_MAX = 20_000
"""Commits that are read where no index is at hand. What lies behind more is not trusted."""
FEW = 500
"""Commits that are read sooner than an index is asked."""


def unverified(
    store: StorePort, session: str, seqs: Iterable[int], context: Context | None = None
) -> dict[int, str]:
    """Of these commits of a session, those that rest on an untrusted root: seq → from where, such as "web:a.example",
    "a bundle" or "a foreign store". A long log is not read for it: the index of projects knows it. Only where there
    is neither a `context` nor a store that was opened to be read (`AsRead`), the log is all there is."""
    asked = sorted(set(seqs))
    if not asked:
        return {}
    taint = _read(store, session, asked[-1], context)
    if taint is None:
        return dict.fromkeys(asked, NOT_KNOWN)
    found = {seq: taint.at(seq) for seq in asked}
    return {seq: rooted.origin for seq, rooted in found.items() if rooted is not None}


def anywhere(store: StorePort, session: str, context: Context | None = None) -> str:
    """What anything in a session rests on that nobody vouches for; empty if there is nothing of that kind."""
    taint = _read(store, session, store.head(session).seq, context)
    rooted = None if taint is None else taint.anywhere()
    return NOT_KNOWN if taint is None else "" if rooted is None else rooted.origin


def reads_log(store: StorePort, session: str, upto: int) -> bool:
    """Whether what commits up to a seq rest on is found out from the whole log, and not from an index or from what is
    kept."""
    if known_upto(store, session):
        return False
    if upto <= FEW or upto > READ_MAX:
        return upto <= FEW
    return not _has_index(*_reading(store))


def known_upto(store: StorePort, session: str) -> int:
    """Up to which seq what a session's commits rest on may be known from an earlier question; 0: not at all."""
    kept = _kept(store)
    return 0 if kept is None else kept.upto(session)


def _kept(store: StorePort) -> KeptTaints | None:
    """What is kept for a store that was opened to be read."""
    found: dict[str, KeptTaints] | None = getattr(store, "kept", None)
    return None if found is None else found.setdefault("taints", KeptTaints())


def _has_index(store: StorePort, context: Context | None) -> bool:
    if context is None or context.project_index is None:
        return False
    try:
        with context.project_index(store, False) as index:
            return index is not None
    except (StoreError, IndexLost):
        return False


def _read(
    store: StorePort, session: str, upto: int, context: Context | None
) -> SessionTaint | None:
    """What is not trusted of a session up to a seq; None if too much would have to be read for it."""
    reader = reader_of(store, session)
    stream = reader.stream(session)
    kept = _kept(store)
    if stream is None and kept is not None and (known := kept.take(store, session)) is not None:
        stream = reader.begin(session, known)
    taint = None if stream is None else stream.taint
    indexed = None
    if upto > FEW and (taint is None or taint.upto < upto):
        indexed = _indexed_once(store, session, upto, context) if taint is None else None
        taint = taint or indexed
    if taint is None or taint.upto < upto:
        if taint is None and upto > READ_MAX:
            return None
        if stream is None:
            if taint is None:
                read_rounds(store, session, upto)
            stream = reader.begin(session, taint)
            stream.is_alone = indexed is None
        stream.advance(upto)
        taint = stream.taint
        if kept is not None:
            kept.keep(store, session, stream)
    return taint


def _indexed_once(
    store: StorePort, session: str, upto: int, context: Context | None
) -> SessionTaint | None:
    """What the index of projects knows of a session, asked once for one question."""
    asked = reading(store)
    if asked is None:
        return _indexed(store, session, upto, context)
    return asked.once(f"index {session}", lambda: _indexed(store, session, upto, context))


def _indexed(
    store: StorePort, session: str, upto: int, context: Context | None
) -> SessionTaint | None:
    """What the index of projects knows of a session; None if there is none and the log is short enough to read, or
    if the session does not count there."""
    below, context = (store, context) if context is not None else _reading(store)
    if context is None or context.project_index is None:
        return None
    try:
        if upto <= READ_MAX and not _has_index(below, context):
            return None
        taint = project_state.ask(below, context, lambda index: index.taint(session))
    except (StoreError, IndexLost):  # a busy or a broken index: the log itself answers
        return None
    return taint if taint is not None and taint.upto else None


def _reading(store: StorePort) -> tuple[StorePort, Context | None]:
    """The store and the context of a store that was opened to be read."""
    found: tuple[StorePort, Context] | None = getattr(store, "asked_in", None)
    return found or (store, None)
