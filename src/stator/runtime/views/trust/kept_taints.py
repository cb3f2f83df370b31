"""Keeps what was found out about a session's commits from one question to the next, in one process.

Who watches a session asks about it again and again, and only the new commits have to be looked at. It is kept only of a
session that rests on nothing but its own log, and used only while nothing has changed that it depended on.
"""

from __future__ import annotations

import msgspec

from stator.errors import NotFound
from stator.model.views.untrusted import SessionTaint
from stator.runtime.base.pages import commits
from stator.runtime.base.provenance import imported_upto
from stator.runtime.views.derivation import children_at, standing_trust
from stator.runtime.views.trust.untrusted import REREAD, TaintStream
from stator.store.port import StorePort

KEPT_MIN = 200
"""Commits of a log that is worth keeping something of."""
KEPT_MAX = 50
"""Sessions of which something is kept."""


class _KeptTaint(msgspec.Struct, frozen=True):
    taint: bytes
    upto: int
    hash: str
    """Of the commit up to which it was found out."""
    depends: tuple[str, int, str]


class KeptTaints:
    """What is kept for one store object."""

    def __init__(self) -> None:
        self._kept: dict[str, _KeptTaint] = {}

    def upto(self, session: str) -> int:
        """Up to which seq something is kept of a session; 0 if nothing is."""
        kept = self._kept.get(session)
        return 0 if kept is None else kept.upto

    def take(self, store: StorePort, session: str) -> SessionTaint | None:
        """What is kept of a session, if it still holds."""
        kept = self._kept.get(session)
        if kept is None or kept.depends != _depends(store, session):
            return None
        head = store.session(session).head
        since = list(commits(store, session, after=kept.upto - 1, upto=head, load=False))
        is_same = bool(since) and since[0].hash == kept.hash
        if not is_same or any(commit.kind in REREAD for commit in since):
            self._kept.pop(session, None)
            return None
        return msgspec.msgpack.decode(kept.taint, type=SessionTaint)

    def keep(self, store: StorePort, session: str, stream: TaintStream) -> None:
        """Keep what was found out, if nothing but the session's own log was needed for it."""
        upto = stream.taint.upto
        if upto < KEPT_MIN or upto <= self.upto(session) or not stream.is_alone:
            return
        depends = _depends(store, session)
        if depends is None:
            return
        (last,) = store.commits(session, after=upto - 1, upto=upto, limit=1, load=False)
        taint = msgspec.msgpack.encode(stream.taint)
        self._kept.pop(session, None)
        self._kept[session] = _KeptTaint(taint, upto, last.hash, depends)
        if len(self._kept) > KEPT_MAX:
            self._kept.pop(next(iter(self._kept)), None)


def _depends(store: StorePort, session: str) -> tuple[str, int, str] | None:
    """What decides about commits beside the log; None for a session with sub-agents, which say more."""
    try:
        record = store.session(session).record
    except NotFound:
        return None
    if children_at(store, session):
        return None
    said = repr(standing_trust(store, session))
    return store.ownership.foreign, imported_upto(store, record), said
