"""The store as readers see it: what a log does not hold of its open calls and of the steps of its plan is worked
out here, for all of them.

Nothing about absence is written to a log. Whether a call without an outcome still runs depends on whether its
session is at rest, which changes without a commit. Whether a step that is said to be done reads done depends on its
check and the changes since. Every reader asks through `AsRead`, so that all agree at once;
whatever writes asks the store itself. Positions, hashes and the commits are the store's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import msgspec

from stator.errors import StatorError
from stator.model.calls.costs import Prices
from stator.model.log.commit import Draft
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    TurnRow,
    read,
)
from stator.model.records.types import CallRecord, Entry
from stator.model.views import open_calls
from stator.runtime.base.asking_again import asking_again
from stator.runtime.base.context import Context
from stator.runtime.base.one_answer import OneAnswer, ahead, one_answer, store_itself
from stator.runtime.base.pages import commit_at
from stator.runtime.base.prices import prices_of
from stator.runtime.base.watch import close_watcher
from stator.store.port import StorePort

if TYPE_CHECKING:
    from stator.model.views.unplaced import Unplaced

Answer = TypeVar("Answer")
LEFT = ("in doubt", "cancelled")
"""What readers show of calls that the index has as started."""
JUDGES_STEPS = ("checks", "tags", "session")
"""Collections that say how steps of a plan read."""
FILES = 201
"""The newest files that say how steps read: where files are read with the plan, at most this number."""
LOOKED_AT = 100
"""Calls that are looked at for whether all of them are history."""


class AsRead:
    """A store whose answers say how open calls ended, and which steps of a plan were only claimed to be done;
    everything else is the store's own."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        *,
        remembers: bool = False,
        kept: dict[str, Any] | None = None,
    ) -> None:
        self._below = store
        self._context = context
        self.kept: dict[str, Any] = {} if kept is None else kept
        """What is kept from one question to the next, by what it is."""
        self._known: dict[tuple[str, str], Any] | None = {} if remembers else None
        """What was asked before, where the answers are for one question: it asks several times, and each reads
        a transcript."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    @property
    def below(self) -> StorePort:
        return self._below

    @property
    def asked_in(self) -> tuple[StorePort, Context]:
        """The store below, and the context that it is read in."""
        return store_itself(self._below), self._context

    @cached_property
    def prices(self) -> Prices | None:
        """The prices by which readers compute costs; none if the policy file cannot be used, which `doctor` says."""
        try:
            return prices_of(self._context)
        except StatorError:
            return None

    # -- sessions ---------------------------------------------------------------------------------

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        return self._row(self._below.session(session, counted=counted))

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        page = self._below.sessions(query, cursor=cursor, limit=limit)
        return Page([self._row(row) for row in page.rows], page.cursor)

    def _row(self, row: SessionRow) -> SessionRow:
        """The row, with whether the agent is at rest where the log would say that it is at work."""
        if row.record.mode != "recorded" or row.record.status != "active":
            return row
        return msgspec.structs.replace(row, at_rest=self._rests(row))

    def _lost_before(self, row: SessionRow) -> float:
        """What was begun before this time and is open gets no outcome any more: everything where the session is at
        rest, else what its agent did before it last started."""
        if row.record.mode != "recorded":
            return math.inf if row.shown == "interrupted" else 0
        return math.inf if self._rests(row) else self._asked("started", row, self._context.started)

    # -- calls ------------------------------------------------------------------------------------

    def entries(
        self, session: str, *collections: str, at: int | None = None, **chosen: Any
    ) -> list[Entry]:
        if self._known is not None and "plan" in collections and not chosen.get("keys"):
            self.read_ahead(session, *collections, at=at, limit=chosen.get("limit"))
        found = self._below.entries(session, *collections, at=at, **chosen)
        return [
            entry
            for name, same in groupby(found, lambda entry: entry.collection)
            for entry in self._as_read(session, name, list(same), at)
        ]

    def _as_read(
        self, session: str, collection: str, found: list[Entry], at: int | None
    ) -> list[Entry]:
        """Entries of one collection, as readers see them."""
        if collection == "plan":
            return self.steps(session, found, at)
        if collection != "calls" or not self._is_now(session, at):
            return found
        return [entry for entry in self._seen(session, found) if _is_open(entry)]

    def steps(self, session: str, found: list[Entry], at: int | None) -> list[Entry]:
        """Steps of a plan, as they read."""
        if not any(map(_names_check, found)):
            from stator.model.views.checked import read_alone  # many answers have no plan

            return [read_alone(entry) for entry in found]
        from stator.runtime.views.checked import read_steps  # and few plans have checks

        return read_steps(self._below, session, found, at, self._context.root)

    def _is_now(self, session: str, at: int | None) -> bool:
        """Whether a position is the present: the state of the past stays as it was."""
        return at is None or at >= self._below.head(session).seq

    def _seen(self, session: str, entries: list[Entry]) -> list[Entry]:
        """Entries of calls, with the status that readers give them."""
        if not any(_runs(entry) for entry in entries):
            return entries
        row = self._below.session(session)
        before = self._lost_before(row)
        if not before:
            return entries
        known = self._results(row)
        return [
            msgspec.structs.replace(entry, record=open_calls.left_open(entry.record, row))
            if isinstance(entry.record, CallRecord)
            and _runs(entry)
            and entry.record.since < before
            and entry.record.call not in known
            else entry
            for entry in entries
        ]

    def _results(self, row: SessionRow) -> set[str]:
        """Calls whose result is known and has no place yet."""
        found = self._unplaced(row)
        return {draft.call for draft in found if draft.kind in ("outcome", "settlement")}

    def _unplaced(self, row: SessionRow) -> list[Draft]:
        return self._asked("unplaced", row, self._context.unplaced)

    def _rests(self, row: SessionRow) -> bool:
        return self._asked("at rest", row, self._context.at_rest)

    def _asked(
        self, what: str, row: SessionRow, ask: Callable[[StorePort, SessionRow], Answer]
    ) -> Answer:
        if self._known is None:
            return ask(self._below, row)
        if (what, row.id) not in self._known:
            self._known[what, row.id] = ask(self._below, row)
        found: Answer = self._known[what, row.id]
        return found

    def for_one_answer(self) -> AsRead:
        """The same, remembering what it read: for one question, and not longer."""
        if self._known is not None:
            return self
        return AsRead(one_answer(self._below), self._context, remembers=True, kept=self.kept)

    def read_ahead(
        self, session: str, *collections: str, also: Sequence[Read] = (), **chosen: Any
    ) -> None:
        """Read in one call what a question is going to ask for: these entries, and more."""
        more = JUDGES_STEPS if "plan" in collections else ()
        limit = chosen.pop("limit", None)
        if isinstance(limit, int):
            limit = dict.fromkeys(collections, limit)
        if more and limit and limit.get("files", FILES) < FILES:
            limit = {**limit, "files": FILES}
        ahead(
            self._below, read("entries", session, *collections, *more, limit=limit, **chosen), *also
        )

    def judging(self, session: str, at: int) -> tuple[set[int], set[str]]:
        """The seqs and ids of the commits by which the steps of the plan are judged at a seq."""
        if not any(map(_names_check, self._below.entries(session, "plan", at=at))):
            return set(), set()
        from stator.runtime.views.checked import judged_by

        return judged_by(self._below, session, at)

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        """As the store's, with the status that readers give calls which the index has as started."""
        wanted = query.statuses
        if any(status in wanted for status in LEFT):
            query = msgspec.structs.replace(query, statuses=(*wanted, "started"))
        rows: list[CallRow] = []
        while True:
            page = self._below.calls(query, cursor=cursor, limit=limit - len(rows))
            seen = self._seen_rows(page.rows, query.session)
            rows += [row for row in seen if not wanted or row.status in wanted]
            cursor = page.cursor
            if cursor is None or len(rows) >= limit:
                return Page(rows, cursor)

    def begun(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        """Calls that the index has as started, with the status that readers give them."""
        asked = msgspec.structs.replace(query, statuses=("started",))
        page = self._below.calls(asked, cursor=cursor, limit=limit)
        return Page(self._seen_rows(page.rows, query.session), page.cursor)

    def _seen_rows(self, rows: list[CallRow], asked: str | None) -> list[CallRow]:
        """Rows of calls, with the status that readers give them: those of the session that was asked, which may
        have inherited them, else each of its own."""
        open_in: dict[str, dict[str, CallRecord]] = {}
        for session in {asked or row.session for row in rows if row.status == "started"}:
            entries = self._seen(session, self._below.entries(session, "calls"))
            records = (entry.record for entry in entries)
            open_in[session] = {
                record.call: record for record in records if isinstance(record, CallRecord)
            }
        return [
            msgspec.structs.replace(row, status=record.status, cause=record.cause)
            if row.status == "started"
            and (record := open_in[asked or row.session].get(row.call)) is not None
            and record.status in LEFT
            and record.attempt == row.attempt
            else row
            for row in rows
        ]

    # -- turns ------------------------------------------------------------------------------------

    def turns(self, session: str, **chosen: Any) -> list[TurnRow]:
        rows = self._below.turns(session, **chosen)
        return [row if row.status else self._turn(session, row) for row in rows]

    def _turn(self, session: str, row: TurnRow) -> TurnRow:
        """A turn that did not end: interrupted if one of its calls gets no outcome any more, else open."""
        entries = self._below.entries(session, "calls")
        began = [entry for entry in entries if _runs(entry) and entry.seq >= row.first]
        lost = any(
            entry is not seen for entry, seen in zip(began, self._seen(session, began), strict=True)
        )
        return msgspec.structs.replace(row, status="interrupted") if lost else row

    # -- what only readers ask --------------------------------------------------------------------

    def without_place(self, session: str) -> list[Unplaced]:
        row = self._below.session(session)
        if row.record.mode != "recorded":
            return []
        from stator.model.views.unplaced import unplaced  # only some questions are about that

        found = unplaced(self._unplaced(row))
        ended = {one.call for one in found if one.kind != "call"}
        before = self._lost_before(row)
        return [
            one
            if one.kind != "call" or one.call in ended or one.happened >= before
            else msgspec.structs.replace(
                one, status=open_calls.fate(one.effect), cause=open_calls.cause_of(row)
            )
            for one in found
        ]

    def is_old(self, session: str, seq: int) -> bool:
        """Whether what a commit says of a call in doubt is history."""
        row = self._below.session(session)
        if row.record.mode != "recorded":
            return False
        commit = commit_at(self._below, session, seq, load=False)
        principal = commit.known("principal", "")
        return open_calls.is_history(row, str(principal), commit.when, self._context.clock())


class OpenStore:
    """A store that is open, and the context it is used in: all that a hook needs. `facade.store` adds the methods for
    programs, which take longer to load."""

    def __init__(self, store: StorePort, context: Context) -> None:
        self.port = asking_again(store, context)
        self.context = context
        self.as_read = as_read(self.port, context)
        """The same store, as readers see it: with the outcomes of calls that its logs have as open."""

    @property
    def foreign(self) -> str:
        """Why the store is not this user's own; empty if it is. A foreign store can be read, and nothing in it acts."""
        return self.port.ownership.foreign

    def close(self) -> None:
        close_watcher(self.port)
        self.port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def may_be_in_doubt(store: StorePort, query: CallQuery) -> bool:
    """Whether one of the calls may be in doubt and concern a person. That all of them are history shows sooner than
    what became of each, for which transcripts are read."""
    if not isinstance(store, AsRead):
        return True
    page = store.asked_in[0].calls(
        msgspec.structs.replace(query, statuses=("in doubt", "started")), limit=LOOKED_AT
    )
    return page.cursor is not None or any(
        not store.is_old(row.session, row.outcome or row.seq) for row in page.rows
    )


def as_read(store: StorePort, context: Context) -> StorePort:
    """The store as readers see it."""
    return store if isinstance(store, AsRead) else cast("StorePort", AsRead(store, context))


def itself(store: StorePort) -> StorePort:
    """The store itself, for any reader."""
    return store.asked_in[0] if isinstance(store, AsRead) else store


def prices_in(store: StorePort) -> Prices | None:
    """The prices by which costs are computed for readers of this store; none below what readers see."""
    return store.prices if isinstance(store, AsRead) else None


def _names_check(entry: Entry) -> bool:
    """Whether a step names a check: how any other reads depends on its record alone."""
    return bool(getattr(entry.record, "check", ""))


def itself_asked(store: StorePort) -> StorePort:
    """What a question asks below what readers make of it: the records as they are in the log."""
    return store.below if isinstance(store, AsRead) else store


def for_one_answer(store: StorePort) -> StorePort:
    """The store for one question: what it read, and what is known of agents, is looked up once."""
    return (
        cast("StorePort", store.for_one_answer())
        if isinstance(store, AsRead)
        else one_answer(store)
    )


def remember_reads(store: OpenStore) -> None:
    """Read nothing twice from here on: for a program that answers one question and ends."""
    store.as_read = for_one_answer(store.as_read)


def read_ahead(
    store: StorePort, session: str, *collections: str, also: Sequence[Read] = (), **chosen: Any
) -> None:
    """Read entries that one question is going to ask for, and more, in one call."""
    if isinstance(store, AsRead):
        store.read_ahead(session, *collections, also=also, **chosen)
    else:
        ahead(store, read("entries", session, *collections, **chosen), *also)


def judging(store: StorePort, session: str, at: int) -> tuple[set[int], set[str]]:
    """The seqs and ids of the commits that readers of this store need to judge the steps of the plan at a seq."""
    return store.judging(session, at) if isinstance(store, AsRead) else (set(), set())


def derive(
    store: StorePort,
    collection: str,
    place: tuple[str, int],
    other: tuple[str, int],
    gone: Collection[str],
    put_back: Sequence[Entry],
) -> None:
    """Have a store for one answer know a collection at one position, if it knows it at another: without the records
    that are `gone`, with those that are `put_back`."""
    below = itself_asked(store)
    if isinstance(below, OneAnswer):
        below.derive(collection, place, other, gone, put_back)


def as_shown(store: StorePort, session: str, steps: list[Entry], at: int) -> list[Entry]:
    """Steps of a plan as readers of this store see them."""
    return store.steps(session, steps, at) if isinstance(store, AsRead) else steps


def unplaced_in(store: StorePort, session: str) -> list[Unplaced]:
    """What is known of a session and has no place in its log yet, in order; nothing where a program drives it."""
    return store.without_place(session) if isinstance(store, AsRead) else []


def is_history(store: StorePort, session: str, seq: int) -> bool:
    """Whether a call in doubt, of which the commit at that seq says the last, is too old to ask a person about."""
    return isinstance(store, AsRead) and store.is_old(session, seq)


def to_settle(store: StorePort, session: str) -> list[CallRecord]:
    """The calls in doubt of a session that a person is asked about, oldest first."""
    found = [
        record
        for entry in store.entries(session, "calls")
        if isinstance(record := entry.record, CallRecord)
        and record.status == "in doubt"
        and not record.elsewhere
        and not is_history(store, session, entry.seq)
    ]
    return sorted(found, key=lambda record: (record.since, record.call))


def _runs(entry: Entry) -> bool:
    return isinstance(entry.record, CallRecord) and open_calls.is_running(entry.record)


def _is_open(entry: Entry) -> bool:
    """Whether the call has a place in the state: a read that gets no result any more has ended."""
    return getattr(entry.record, "status", "") != "cancelled"
