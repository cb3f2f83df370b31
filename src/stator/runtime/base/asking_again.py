"""Asks a store at a distance again where an answer was lost: the one place that does.

Everything the runtime reads or writes goes through here, if its store says that it is asked over a wire. A read is
repeated; a write is sent again with the same ids, so that it lands once. Where no answer comes in time,
`StoreUnreachable` says what is known; from then on each question is asked once, until one is answered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec

from stator.errors import Busy, HeadMoved, StoreUnreachable
from stator.model.calls.unanswered import pause_s
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Commit, Draft
from stator.model.log.query import Holder, Lease, Page, Read, SessionQuery, SessionRow
from stator.model.sessions.ownership import Ownership
from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.base.context import Context
from stator.runtime.base.silent_holders import SilentHolders
from stator.store.port import StorePort

Answer = TypeVar("Answer")
STREAMS = frozenset({"close", "logs", "audit"})
"""What is not repeated from here: an answer that is read bit by bit, and giving the store back."""


class AskingAgain:
    """A store that is asked again, for a bounded time, where it gives no answer."""

    def __init__(self, store: StorePort, context: Context) -> None:
        self._below = store
        self._context = context
        self._us = context.mint("run")
        """What the leases of this connection are known by."""
        self._holders = SilentHolders(context.monotonic, context.is_gone)
        self._held: set[int] = set()
        """The epochs of the leases that were given out here and not given back."""
        self._displaced: dict[str, Holder] = {}
        """Silent holders that were displaced, by session, until a lease was given out for it."""
        self._is_silent = False
        """Whether the last question was given up."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._below, name)
        if name in STREAMS or not callable(found):
            return found

        @functools.wraps(found)
        def read(*args: Any, **kwargs: Any) -> Any:
            return self._ask(lambda: found(*args, **kwargs), landed="nothing")

        return read

    @property
    def ownership(self) -> Ownership:
        return self._below.ownership

    @ownership.setter
    def ownership(self, ownership: Ownership) -> None:
        self._below.ownership = ownership

    @property
    def wrote(self) -> Callable[[], object]:
        return self._below.wrote

    @wrote.setter
    def wrote(self, wrote: Callable[[], object]) -> None:
        self._below.wrote = wrote

    # -- writing ----------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        again = False

        def ask() -> tuple[SessionRow, bool]:
            nonlocal again
            was_asked, again = again, True
            row, made = self._below.create(drafts, bookmark=bookmark)
            # The session is there because the answer that said so was lost.
            return row, made or (was_asked and row.id == drafts[0].session)

        return self._ask(ask, session=drafts[0].session, commits=_ids(drafts))

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
        bookmark: Bookmark | None = None,
    ) -> list[Commit]:
        again = False

        def ask() -> list[Commit]:
            nonlocal again
            was_asked, again = again, True
            try:
                # Never `fresh`: a request without an answer may arrive after the one that repeats it.
                return self._below.append(
                    session, drafts, if_head=if_head, barrier=barrier, bookmark=bookmark
                )
            except HeadMoved:
                if not was_asked or bookmark is None or not self._is_kept(session, bookmark):
                    raise
                # Its own bookmark is in the way, so that all of it landed.
                return self._below.append(session, drafts, barrier=barrier)

        return self._ask(ask, session=session, commits=_ids(drafts))

    def _is_kept(self, session: str, sent: Bookmark) -> bool:
        """Whether the bookmark that is there is the one that was sent. One that held a secret is not recognized: its
        reader then continues from the one that is there."""
        kept = self._below.bookmark(session, sent.name)
        return (
            kept is not None
            and kept.number == sent.number
            and canon.dumps(kept.value) == canon.dumps(sent.value)
        )

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        """As the store's; after a lost answer, those are new that were to the last question."""
        return self._ask(lambda: self._below.ingest(commits, projects=projects))

    def sync(self) -> None:
        self._ask(self._below.sync)

    def rebuild(self) -> None:
        self._ask(self._below.rebuild)

    # -- the lease --------------------------------------------------------------------------------

    def acquire(
        self, session: str, holder: Holder, *, take: bool = False, over: int = 0, newest: int = 0
    ) -> Lease:
        """As the store's; a holder that is seen to be silent is displaced, and one that has ended is as if it had
        given the session back."""
        ours = msgspec.structs.replace(holder, run=self._us)

        def ask() -> Lease:
            try:
                return self._below.acquire(session, ours, take=take, over=over, newest=newest)
            except Busy as busy:
                if not isinstance(busy.holder, Holder):
                    raise
                found = busy.holder = self._holders.holder(busy.holder)
                if found.run == self._us and found.epoch not in self._held:
                    # A lease of this connection that nobody here holds: the answer to its acquire or to its release
                    # was lost. Its epoch may have been a run, so that it is given back and not used.
                    self._below.release(Lease(session, found.epoch))
                    return self._below.acquire(session, ours, take=take, newest=newest)
                if found.live is True:
                    raise
                if found.live == "silent":
                    self._displaced[session] = found
                return self._below.acquire(session, ours, over=found.epoch, newest=newest)

        lease = self._ask(ask, session=session)
        self._held.add(lease.epoch)
        # Also if the answer that named it was lost: it may still run.
        silent = self._displaced.pop(session, None)
        displaced = lease.displaced or silent
        if displaced is not None and not self._holders.holder(displaced).live:
            displaced = None
        return msgspec.structs.replace(lease, displaced=displaced)

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        row = self._ask(lambda: self._below.session(session, counted=counted), landed="nothing")
        return self._holders.row(row)

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        page = self._ask(
            lambda: self._below.sessions(query, cursor=cursor, limit=limit), landed="nothing"
        )
        return Page([self._holders.row(row) for row in page.rows], page.cursor)

    def together(self, *reads: Read) -> list[Any]:
        found = self._ask(lambda: self._below.together(*reads), landed="nothing")
        return [self._seen(read.method, answer) for read, answer in zip(reads, found, strict=True)]

    def _seen(self, method: str, answer: Any) -> Any:
        """An answer, with what is known here of who drives the sessions in it."""
        if method == "session" and isinstance(answer, SessionRow):
            return self._holders.row(answer)
        if method == "sessions" and isinstance(answer, Page):
            return Page([self._holders.row(row) for row in answer.rows], answer.cursor)
        return answer

    def release(self, lease: Lease) -> None:
        self._held.discard(lease.epoch)
        self._ask(lambda: self._below.release(lease), session=lease.session)

    # -- asking -----------------------------------------------------------------------------------

    def _ask(
        self,
        ask: Callable[[], Answer],
        *,
        landed: Literal["unknown", "nothing"] = "unknown",
        session: str | None = None,
        commits: Sequence[str] = (),
    ) -> Answer:
        monotonic = self._context.monotonic
        began, tried = monotonic(), 0
        while True:
            try:
                answer = ask()
            except StoreUnreachable as lost:
                tried += 1
                pause = None if self._is_silent else pause_s(tried, monotonic() - began)
                if pause is None:
                    self._is_silent = True
                    raise _given_up(lost, tried, landed, session, commits) from lost
                self._context.sleep(pause)
            else:
                self._is_silent = False
                return answer


def reached(
    ask: Callable[[], Answer], monotonic: Callable[[], float], sleep: Callable[[float], object]
) -> Answer:
    """What a question gives that is asked until it can be asked: to open a store of which a part is taking over."""
    began, tried = monotonic(), 0
    while True:
        try:
            return ask()
        except StoreUnreachable:
            tried += 1
            pause = pause_s(tried, monotonic() - began)
            if pause is None:
                raise
            sleep(pause)


def _ids(drafts: Sequence[Draft]) -> list[str]:
    return [draft.id for draft in drafts]


def _given_up(
    lost: StoreUnreachable,
    tried: int,
    landed: Literal["unknown", "nothing"],
    session: str | None,
    commits: Sequence[str],
) -> StoreUnreachable:
    """The error that says what is known after the last try."""
    times = "once" if tried == 1 else f"{tried} times"
    asked = f"{lost.what}; asked {times}"
    if landed == "nothing":
        what, hint = f"{asked}; nothing was written", "try again when the store can be reached"
    else:
        of = f" of session {short(session)}" if session else ""
        which = f": {', '.join(map(short, commits[:3]))}{' …' if len(commits) > 3 else ''}"
        what = f"{asked}; whether it landed is not known{of}{which if commits else ''}"
        hint = "when the store can be reached, look whether it is there before you do it again"
    return StoreUnreachable(what, landed=landed, commits=commits, hint=hint, session=session)


def asking_again(store: StorePort, context: Context) -> StorePort:
    """The store, asked again where it loses answers; a store of this machine is itself."""
    if isinstance(store, AskingAgain) or not getattr(store, "remote", False):
        return store
    return cast("StorePort", AskingAgain(store, context))
