"""Says which commits rest on something that nobody vouches for, and where that came from."""

from __future__ import annotations

from collections.abc import Iterable

from stator.errors import StoreError
from stator.model.views.untrusted import NOT_KNOWN, SessionTaint
from stator.runtime.base.context import Context
from stator.runtime.views import project_state
from stator.runtime.views.trust.outside import brought_in
from stator.runtime.views.trust.untrusted import TaintReader
from stator.store.port import IndexLost, StorePort

__all__ = ["brought_in", "unverified"]
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
    taint = None if asked[-1] <= FEW else _indexed(store, session, asked[-1], context)
    if taint is None or taint.upto < asked[-1]:
        if taint is None and asked[-1] > READ_MAX:
            return dict.fromkeys(asked, NOT_KNOWN)
        stream = TaintReader(store).begin(session, taint)
        stream.advance(asked[-1])
        taint = stream.taint
    found = {seq: taint.at(seq) for seq in asked}
    return {seq: rooted.origin for seq, rooted in found.items() if rooted is not None}


def _indexed(
    store: StorePort, session: str, upto: int, context: Context | None
) -> SessionTaint | None:
    """What the index of projects knows of a session; None if there is none and the log is short enough to read, or
    if the session does not count there."""
    below, context = (store, context) if context is not None else _reading(store)
    if context is None or context.project_index is None:
        return None
    try:
        with context.project_index(below, False) as index:
            is_there = index is not None
        if not is_there and upto <= READ_MAX:
            return None
        taint = project_state.ask(below, context, lambda index: index.taint(session))
    except (StoreError, IndexLost):  # a busy or a broken index: the log itself answers
        return None
    return taint if taint is not None and taint.upto else None


def _reading(store: StorePort) -> tuple[StorePort, Context | None]:
    """The store and the context of a store that was opened to be read."""
    found: tuple[StorePort, Context] | None = getattr(store, "asked_in", None)
    return found or (store, None)
