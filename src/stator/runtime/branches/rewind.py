"""Rewinds a session to a position by appending the difference.

Nothing leaves the log. One transaction holds a tag on the head that is left and the rewind itself,
whose delta makes the state what it was. What happened in the world since then is listed, not undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stator.errors import BadTurn, HeadMoved, InvalidInput, WrongState
from stator.model.log.commit import (
    Commit,
    Draft,
    Reset,
    Upsert,
)
from stator.model.log.query import CallQuery, Head, read
from stator.model.log.rewinds import (
    RESET,
    TAG,
    agree_upto,
    resets,
    stands,
    visible,
)
from stator.model.records.types import CallRecord, SessionRecord, TagRecord
from stator.model.values.ids import short
from stator.model.views.diff import CallItem
from stator.runtime.base.context import Context
from stator.runtime.base.one_answer import ahead, one_answer
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.lifecycle import MakeDraft, held
from stator.runtime.views import reflog
from stator.runtime.views.ranges import SMALL_RANGE, call_item, calls_in, touched
from stator.runtime.views.refs import Point
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

ATTEMPTS = 20
"""How often a rewind is computed again because another writer appended in between."""
DONE = ("ok", "in doubt", "started")
"""Statuses of calls that changed something, or may have."""
CALLS_LOOKED_AT = 1000
"""Calls, the newest, among which a long way is looked at for effects."""
RECORDS_LOOKED_AT = 200
"""Records of each collection, those touched last, that are counted on a long way."""


class Rewound(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind did, or would do."""

    session: str
    name: str
    start: int
    """The seq it went back from."""
    end: int
    """The seq it went back to."""
    shown: str
    """That, as it was asked for."""
    tag: str
    """Names the head that was left: rewind there to undo this."""
    turns: list[int]
    """Turns that are undone by it."""
    again: list[int]
    """Turns that an earlier rewind undid, and that count again."""
    effects: list[CallItem]
    """Writes it crosses: they happened, or may have, and are not undone."""
    records: int
    """How many records it resets."""
    seq: int = 0
    """Of the rewind itself; 0: it was not made."""
    is_whole: bool = True
    """False where it was foreseen over a long way: there may be more effects, before the first, and more records."""


class _Plan(msgspec.Struct, frozen=True):
    head: Head
    changes: tuple[Reset, ...]
    rewound: Rewound


def plan(store: StorePort, session: str, to: str) -> Rewound:
    """What a rewind would do, without doing it."""
    return _plan(store, _target(store, session, to)).rewound


def foresee(store: StorePort, session: str, to: str) -> Rewound:
    """The same for a person, who does not read thousands of names: over a long way, the newest effects and the records
    that were touched last. It costs the same however long the way is."""
    store = one_answer(store)
    target = _target(store, session, to)
    head = store.head(session)
    is_short = head.seq - target.seq <= SMALL_RANGE
    newest = {} if is_short else dict.fromkeys(RESET, RECORDS_LOOKED_AT)
    before, most = max(0, target.seq - 1), SMALL_RANGE + 1
    way_back = read("commits", session, after=before, upto=head.seq, limit=most, load=False)
    ahead(
        store,
        read("session", session),
        read("entries", session, *newest, "calls", "tags", limit=newest or None),
        *[way_back][:is_short],
    )
    if is_short:
        return _plan(store, target).rewound
    way = _Way(store, target, head)
    query = CallQuery(session=session, statuses=DONE, after=way.low)
    page = store.calls(query, cursor=(head.seq + 1,), limit=CALLS_LOOKED_AT)
    touched_last = store.entries(session, *RESET, limit=newest)
    since = [entry for entry in touched_last if entry.seq > target.seq]
    return way.rewound(
        [call_item(row) for row in reversed(page.rows)], records=len(since), is_whole=False
    )


def rewind(store: StorePort, context: Context, session: str, to: str, *, by: str = "") -> Rewound:
    """Take a session back to a position, holding it for a moment; `Busy` while it is driven."""
    target = _target(store, session, to)
    with held(store, context, session) as hold:
        left = hold.paused_after()
        if left:
            store.append(session, left)

        def append(drafts: list[Draft], **how: Any) -> list[Commit]:
            return store.append(session, drafts, barrier=True, **how)

        return _go_back(store, target, hold.draft, append, by or context.principal)


def refuse_recorded(record: SessionRecord) -> None:
    """Refuse to rewind what another program drives: its agent would not know, and continue as before."""
    if record.mode != "recorded":
        return
    agent = record.agent or "its agent"
    name = short(record.id)
    raise WrongState(
        f"{record.name} is recorded: {agent} keeps its own conversation, and a rewind here would not change it",
        hint=f"rewind it in {agent}; or branch: stator fork {name}:t1;"
        f" or put files back: stator restore --everything --at {name}:t1",
    )


def rewind_driven(driver: Driver, to: str) -> Rewound:
    """The same by the driver of the session, between turns."""
    check_between_turns(driver)
    target = _target(driver.store, driver.id, to)
    done = _go_back(driver.store, target, driver.draft, driver.append, driver.principal)
    driver.forget_view()
    return done


def check_between_turns(driver: Driver) -> None:
    turn = driver.current
    if turn is not None and not turn.ended:
        raise BadTurn(
            f"turn {turn.number} of session {driver.id} is open",
            hint="end it first: a rewind is possible only between turns",
            session=driver.id,
        )


def _target(store: StorePort, session: str, to: str) -> Point:
    point = SessionReader(store, session).at(to)
    if point.session != session:
        raise InvalidInput(
            "a rewind cannot go to another session",
            path="$.to",
            hint="fork there instead, or adopt that session",
        )
    return point


def _go_back(
    store: StorePort,
    target: Point,
    draft: MakeDraft,
    append: Callable[..., list[Commit]],
    by: str,
) -> Rewound:
    for attempt in range(ATTEMPTS):
        made = _plan(store, target)
        found = made.rewound
        if found.start == found.end:
            raise InvalidInput(
                f"{target.shown} is already the current position",
                path="$.to",
                session=target.session,
            )
        tag = TagRecord(name=found.tag, seq=found.start, hash=made.head.hash)
        said = {"actor": "user", "principal": by}
        drafts = [
            draft("tag", changes=(Upsert("tags", tag),), **said),
            draft(
                "rewind",
                input={"to": found.end, "from": found.start},
                inputs=(found.end, found.start),  # where it went is known also once that is erased
                changes=made.changes,
                **said,
            ),
        ]
        try:
            return msgspec.structs.replace(
                found, seq=append(drafts, if_head=made.head.hash)[-1].seq
            )
        except HeadMoved:  # a contribution came in between: it is part of what is left
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def _plan(store: StorePort, target: Point) -> _Plan:
    session = target.session
    head = store.head(session)
    changes = resets(touched(store, session, head.seq, target.seq, RESET))
    way = _Way(store, target, head)
    records = len({(change.collection, change.key) for change in changes})
    calls = calls_in(store, session, way.low, head.seq)
    return _Plan(head, changes, way.rewound(calls, records=records))


class _Way:
    """The way from the head of a session back to a position."""

    def __init__(self, store: StorePort, target: Point, head: Head) -> None:
        self._store, self._target, self._head = store, target, head
        self._known = reflog.rewinds(store, target.session)
        self._before = visible(self._known, head.seq)
        self._after = visible(self._known, target.seq)
        self.low = agree_upto(self._before, self._after)
        """The seq up to which both ends are the same."""

    def rewound(self, calls: Sequence[CallItem], *, records: int, is_whole: bool = True) -> Rewound:
        """What going it does; `calls` are those on the way."""
        store, session, ends = self._store, self._target.session, (self._head.seq, self._target.seq)
        return Rewound(
            session=session,
            name=store.session(session).record.name,
            start=ends[0],
            end=ends[1],
            shown=self._target.shown,
            tag=_free_tag(store, session),
            turns=reflog.undone(store, session, self._known, *ends),
            again=reflog.undone(store, session, self._known, *ends[::-1]),
            effects=self._crossed(calls),
            records=records,
            is_whole=is_whole,
        )

    def _crossed(self, calls: Sequence[CallItem]) -> list[CallItem]:
        """Those that changed something, or may have, and that are not undone."""
        waiting = {
            record.call
            for entry in self._store.entries(self._target.session, "calls")
            if isinstance(record := entry.record, CallRecord)
            and record.status == "awaiting approval"
        }
        return [
            call
            for call in calls
            if call.effect in ("", "write")
            and call.status in DONE
            and call.call not in waiting
            and stands(self._before, call.seq)
            and not stands(self._after, call.seq)
        ]


def _free_tag(store: StorePort, session: str) -> str:
    taken = {entry.key for entry in store.entries(session, "tags")}
    number = sum(name.startswith(TAG) for name in taken) + 1
    while f"{TAG}{number}" in taken:
        number += 1
    return f"{TAG}{number}"
