"""Reads a session's log as the transcript its agent is shown, from where its view begins.

Without a compaction that is the whole log, read once and then only what is new. With one, it is
what came after its last boundary, and the little before it that is still shown: however long the
session, a turn costs what is shown of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.log.commit import Commit
from stator.model.log.rewinds import (
    Rewind,
    Stretch,
    stands,
    visible,
)
from stator.model.records.types import CallRecord, ErasedRecord, EvictedRecord, Record
from stator.model.window.compaction import UNDONE, WHOLE, WINDOW, told_from, view_of
from stator.model.window.transcript import Transcript
from stator.model.window.words import Told
from stator.runtime.base.pages import commit_at
from stator.runtime.views import reflog
from stator.runtime.views.refs import intent_of
from stator.runtime.views.trust.outside import OutsideJudge
from stator.store.port import StorePort


class Rendering:
    """A session's transcript, kept up with its log."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._session = session
        self._transcript: Transcript | None = None
        self._fed = 0

    @property
    def upto(self) -> int:
        """The seq up to which the transcript was read."""
        return self._fed

    @property
    def window(self) -> int:
        """The last seq that did not fit, as far as the transcript was read; 0: all did."""
        return 0 if self._transcript is None else self._transcript.window

    def forget(self) -> None:
        """After a rewind: read what is shown again."""
        self._transcript = None

    def current(self) -> Transcript:
        """The transcript as of the head."""
        upto = self._store.head(self._session).seq
        transcript = self._transcript
        while transcript is None or transcript.stale or self._fed < upto:
            stretches = [(self._fed, upto)]
            if transcript is None or transcript.stale:
                stretches = visible(reflog.rewinds(self._store, self._session), upto)
                transcript = self._transcript = self._begin(upto, stretches)
            for commit in reflog.shown(self._store, self._session, self._fed, upto, stretches):
                transcript.feed(commit)
            self._fed = upto
        return transcript

    def _begin(self, upto: int, stretches: list[Stretch]) -> Transcript:
        """A transcript with all it needs from before its view."""
        last = latest(self._store, self._session)
        told = told_in(self._store, self._session)
        judge = OutsideJudge(self._store, self._session)
        view = WHOLE if last is None else view_of(last, told)
        transcript = Transcript(
            view, asof=upto, told=told, is_outside=lambda c: bool(judge.origin(c))
        )
        if view.summarise:
            for commit in _before(self._store, self._session, view.summarise, stretches):
                transcript.feed(commit)
        self._fed = view.summarise
        return transcript


def told_in(store: StorePort, session: str) -> Told:
    """What the keys of a session stand for, read from its log."""

    def at(seq: int) -> Commit | None:
        found = store.commits(session, after=seq - 1, upto=seq, limit=1)
        return found[0] if found else None

    return told_from(at, lambda call: intent_of(store, session, call))


def latest(store: StorePort, session: str, *, at: int | None = None) -> Commit | None:
    """The compaction that says what is seen at a seq (default: head); None if all of it is.

    Every compaction puts the keys it evicted, and an undo those in force again, so the commit that put the
    newest key is the one. If that commit was rewound, or is a rewind, no compaction followed the last rewind,
    and the view is that of the rewind's target. Keys alone are not enough: two compactions may have evicted
    the same ones, and a rewind leaves those unchanged. What only did not fit into a window is left
    out of account.
    """
    known: list[Rewind] | None = None
    while found := _newest(store, session, at):
        if known is None:
            known = reflog.rewinds(store, session)
        before = [rewind for rewind in known if at is None or rewind.seq <= at]
        if not before or (found.kind == "compaction" and found.seq > before[-1].seq):
            return found if found.kind == "compaction" else None
        at = before[-1].to
    return None


def _newest(store: StorePort, session: str, at: int | None) -> Commit | None:
    """The commit that put the newest key, but for those that only did not fit."""
    entries = store.entries(session, "evicted", at=at, limit=1)
    if entries and (_is_window(entries[0].record) or isinstance(entries[0].record, ErasedRecord)):
        entries = store.entries(session, "evicted", at=at)
    for seq in sorted({e.seq for e in entries if not _is_window(e.record)}, reverse=True):
        found = commit_at(store, session, seq)
        if found.status != WINDOW:  # of an erased key only its commit says so
            return found
    return None


def _is_window(record: Record) -> bool:
    return isinstance(record, EvictedRecord) and record.window


def stands_for(commit: Commit) -> int:
    """The seq of the compaction whose view a compaction commit shows: an undo shows an earlier one's."""
    stood = commit.inputs[1] if commit.status == UNDONE and len(commit.inputs) > 1 else 0
    return stood if isinstance(stood, int) and 0 < stood < commit.seq else commit.seq


def _before(store: StorePort, session: str, seq: int, stretches: list[Stretch]) -> Iterator[Commit]:
    """What is shown of the log up to a boundary: the request of the turn it falls into, and the calls
    that were open there and may still become known."""
    row = reflog.standing_turn(store, session, seq, stretches)
    if row is not None:
        yield commit_at(store, session, row.first)
    for entry in store.entries(session, "calls", at=seq):
        call = entry.record.call if isinstance(entry.record, CallRecord) else ""
        intent = intent_of(store, session, call) if call else None
        if intent is not None and stands(stretches, intent.seq):
            yield intent
