"""Makes spans of the commits of many sessions and gives them to what sends them.

A span begins with an earlier commit. What this process has not seen of an open turn, because it was started since, is
read back from the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from stator.model.log.commit import Commit
from stator.model.outlets.spans import OtlpSpan, SessionLabel, TurnSpans
from stator.runtime.facade.store import Store

SESSIONS_MAX = 1000
"""Sessions whose open turn is remembered; that of others is read again."""
PAGE = 500
BEGIN = frozenset({"open", "fork", "turn"})
"""Kinds that need nothing of what came before them."""


class SpanOutlet:
    """Takes pages of commits, each of one session, and sends the spans that end in them."""

    def __init__(
        self, store: Store, send: Callable[[Sequence[OtlpSpan]], object], *, content: bool
    ) -> None:
        self._store = store.port
        self._send = send
        self._content = content
        self._open: OrderedDict[str, TurnSpans] = OrderedDict()

    def send(self, commits: Sequence[Commit]) -> None:
        first = commits[0]
        turns = self._open.pop(first.session, None)
        if turns is None or first.kind in ("open", "fork"):
            turns = self._begun(first)
        spans = [span for commit in commits for span in turns.add(commit)]
        if spans:
            self._send(spans)
        self._open[first.session] = turns
        while len(self._open) > SESSIONS_MAX:
            self._open.popitem(last=False)

    def _begun(self, first: Commit) -> TurnSpans:
        """What is known of a session before that commit: its turn, from the beginning."""
        record = self._store.session(first.session).record
        about = SessionLabel(agent=record.agent, project=record.project, name=record.name)
        turns = TurnSpans(about, content=self._content)
        if first.kind in BEGIN or not first.turn:
            return turns
        rows = self._store.turns(first.session, after=first.turn - 1, upto=first.turn)
        after = rows[0].first - 1 if rows else first.seq - 1
        while after < first.seq - 1:
            page = self._store.commits(first.session, after=after, upto=first.seq - 1, limit=PAGE)
            for commit in page:
                turns.add(commit)
            after = page[-1].seq if page else first.seq
        return turns
