"""Rewinds a session to a position by appending the difference.

Nothing leaves the log. One transaction holds a tag on the head that is left and the rewind itself,
whose delta makes the state what it was. What happened in the world since then is listed, not undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stator.errors import BadTurn, HeadMoved, InvalidInput, WrongState
from stator.model.log.commit import (
    Commit,
    Draft,
    Reset,
    Upsert,
)
from stator.model.log.query import Head
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
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.lifecycle import MakeDraft, held
from stator.runtime.views import reflog
from stator.runtime.views.ranges import calls_in, touched
from stator.runtime.views.refs import Point
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

ATTEMPTS = 20
"""How often a rewind is computed again because another writer appended in between."""
DONE = ("ok", "in doubt", "started")
"""Statuses of calls that changed something, or may have."""


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


class _Plan(msgspec.Struct, frozen=True):
    head: Head
    changes: tuple[Reset, ...]
    rewound: Rewound


def plan(store: StorePort, session: str, to: str) -> Rewound:
    """What a rewind would do, without doing it."""
    return _plan(store, _target(store, session, to)).rewound


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
    known = reflog.rewinds(store, session)
    changes = resets(touched(store, session, head.seq, target.seq, RESET))
    before, after = visible(known, head.seq), visible(known, target.seq)
    low = agree_upto(before, after)
    calls = calls_in(store, session, low, head.seq)
    waiting = {
        record.call
        for entry in store.entries(session, "calls")
        if isinstance(record := entry.record, CallRecord) and record.status == "awaiting approval"
    }
    crossed = [
        call
        for call in calls
        if call.effect in ("", "write")
        and call.status in DONE
        and call.call not in waiting
        and stands(before, call.seq)
        and not stands(after, call.seq)
    ]
    ends = (head.seq, target.seq)
    rewound = Rewound(
        session=session,
        name=store.session(session).record.name,
        start=head.seq,
        end=target.seq,
        shown=target.shown,
        tag=_free_tag(store, session),
        turns=reflog.undone(store, session, known, *ends),
        again=reflog.undone(store, session, known, *ends[::-1]),
        effects=crossed,
        records=len({(change.collection, change.key) for change in changes}),
    )
    return _Plan(head, changes, rewound)


def _free_tag(store: StorePort, session: str) -> str:
    taken = {entry.key for entry in store.entries(session, "tags")}
    number = sum(name.startswith(TAG) for name in taken) + 1
    while f"{TAG}{number}" in taken:
        number += 1
    return f"{TAG}{number}"
