"""Delivers commits to another store in transactions of a bounded size, each of which can be the last.

The other store's heads say where the next delivery continues, so nothing is kept here and nothing arrives twice. A
session that the store refuses does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

from stator.errors import (
    BadBundle,
    BrokenChain,
    Busy,
    Conflict,
    InvalidInput,
    NotFound,
    StatorError,
)
from stator.model.exchange.bundle import unpack
from stator.model.exchange.bundle_redaction import Sieve
from stator.model.log.chain import GENESIS
from stator.model.log.commit import Commit
from stator.runtime.exchange.choice import SessionToSend
from stator.runtime.exchange.heads import Standing
from stator.store.port import StorePort

READ = 64
"""Commits read at a time: each may hold megabytes."""
BYTES, COMMITS = 1 << 20, 2000
"""Content and commits after which a transaction is full."""
REFUSALS = (Conflict, BrokenChain, Busy, InvalidInput, NotFound, BadBundle)
"""Errors that are about one session. Any other is about the store and ends the delivery."""

Sieves = Callable[[SessionToSend], Sieve]
"""Makes what leaves content out of the commits of a session."""


class SentPart(msgspec.Struct, kw_only=True):
    """What went of one session."""

    commits: int = 0
    erasures: int = 0
    """Erasures of content that the other store may have had."""
    withheld: int = 0
    """Content items that were left out."""
    secrets: int = 0
    """Of those, the ones that hold what the rules about secrets know."""


class Delivery:
    """Takes sessions one after the other, what a fork continues before the fork."""

    def __init__(
        self,
        source: StorePort,
        target: StorePort,
        *,
        sieves: Sieves | None = None,
        sent: Callable[[str, int], None] | None = None,
        dry_run: bool = False,
    ) -> None:
        """`sent` is called with a session's name and how many of its commits went. A dry run writes nothing."""
        self._source, self._target, self._sieves = source, target, sieves
        self._sent = sent
        self._dry_run = dry_run
        self._batch: list[Commit] = []
        self._size = 0
        self._projects: dict[str, str] = {}
        self.delivered: dict[str, SentPart] = {}
        self.refused: dict[str, StatorError] = {}

    def send(self, standing: Standing, project: str) -> None:
        """Send what the other store lacks of a session; a session that is new there is found in that project."""
        one = standing.one
        self._projects[one.id] = project
        done = self.delivered[one.id] = SentPart()
        sieve = self._sieve(one)
        try:
            for commit in self._commits(one, standing.there, standing.prev, sieve):
                if commit.kind == "erasure" and standing.there > one.after:
                    done.erasures += 1
                    if not self._dry_run:
                        self._send_with_erasures(one, commit.seq)
                        break
                if not self._add(one, commit):
                    break
                done.commits += 1
        except REFUSALS as refusal:
            self._refuse(one.id, refusal)
        if sieve is not None:
            done.withheld, done.secrets = sieve.withheld, sieve.secrets

    def _sieve(self, one: SessionToSend) -> Sieve | None:
        return None if self._sieves is None else self._sieves(one)

    def _add(self, one: SessionToSend, commit: Commit) -> bool:
        """Add a commit to the transaction that is being collected; False if its session is refused."""
        if self._dry_run:
            return True
        self._batch.append(commit)
        self._size += sum([len(i) for i in commit.content.values() if type(i) is bytes])
        if self._size >= BYTES or len(self._batch) >= COMMITS:
            self.flush()
        if self._sent is not None:
            self._sent(one.record.name, 1)
        return one.id not in self.refused

    def _commits(
        self, one: SessionToSend, after: int, prev: str, sieve: Sieve | None
    ) -> Iterator[Commit]:
        """The commits of a session after a seq, as they travel."""
        while after < one.seq:
            page = self._source.packed(one.id, after=after, upto=one.seq, limit=READ)
            if not page:
                raise NotFound(f"@{after + 1} of session {one.id} is gone", session=one.id)
            for packed in page:
                taken = packed if sieve is None else sieve.take(packed, one.id)
                commit = unpack(taken, one.id, prev)
                yield commit
                prev = commit.hash
            after = page[-1].seq

    def _send_with_erasures(self, one: SessionToSend, first: int) -> None:
        """Send the whole log again, in one transaction: what an erasure took away must go together with the
        arrival of the erasure. `first` is the seq of the first of them."""
        self.flush()
        if one.id in self.refused:
            return
        done = self.delivered[one.id]
        whole = _WholeLog(self, one, first)
        self._target.ingest(whole, projects=self._projects)
        done.commits += one.seq - first + 1
        done.erasures = whole.erasures
        if self._sent is not None:
            self._sent(one.record.name, one.seq - first + 1)

    def whole_log(self, one: SessionToSend) -> Iterator[Commit]:
        """Everything of a session, from its first commit."""
        parent = one.record.parent
        prev = parent.hash if one.record.lineage and parent is not None else GENESIS
        return self._commits(one, one.after, prev, self._sieve(one))

    def _refuse(self, session: str, refusal: StatorError) -> None:
        """Take what was collected of a session out again."""
        self._batch = [commit for commit in self._batch if commit.session != session]
        self.refused[session] = refusal

    def flush(self) -> None:
        """Write what was collected. If that is refused, each session by itself, so that the others arrive."""
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return
        groups = [list(own) for _, own in groupby(batch, key=attrgetter("session"))]
        try:
            self._target.ingest(batch, projects=self._projects)
        except REFUSALS as refusal:
            if len(groups) == 1:
                self.refused[batch[0].session] = refusal
                return
            for group in groups:
                self._batch = group
                self.flush()


class _WholeLog:
    """A session's log, read again each time it is gone through."""

    def __init__(self, delivery: Delivery, one: SessionToSend, first: int) -> None:
        self._delivery, self._one, self._first = delivery, one, first
        self.erasures = 0

    def __iter__(self) -> Iterator[Commit]:
        self.erasures = 0
        for commit in self._delivery.whole_log(self._one):
            self.erasures += commit.kind == "erasure" and commit.seq >= self._first
            yield commit
