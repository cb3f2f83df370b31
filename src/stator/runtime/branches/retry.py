"""Tries a turn again beside its session, and adopts a retry in place of the original.

A retry is a fork of the end of the turn before. The original is not touched: its driver may continue.
What a retry writes would happen a second time, so a person is asked first, until it is adopted.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

import msgspec

from stator.errors import Conflict, InvalidInput, NotFound, WrongState
from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction.extractor import Extractor
from stator.model.log.commit import Upsert
from stator.model.log.query import SessionRow
from stator.model.records.types import SessionRecord
from stator.model.sessions.lifecycle import NAME_MAX
from stator.model.values.position import AtTurn, parse_ref
from stator.runtime.base.context import Context
from stator.runtime.branches import fork
from stator.runtime.branches.open_driver import EFFECTS, drive_existing
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.lifecycle import held
from stator.runtime.views.refs import (
    Point,
    Siblings,
    retries_turn,
    session_of,
    sibling,
    siblings,
    span,
)
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

RetryEffects = Literal["ask", "run"]
NAMES = 1000
"""How many names are tried."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A retry that was made, or found: whose turn it retries, and which one it is."""

    row: SessionRow
    original: str
    turn: int
    number: int
    made: bool
    prompt: Any = None


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """Which session now continues another."""

    original: str
    name: str
    by: str
    """The session that continues; the original itself where an adoption was taken back."""
    by_name: str


def make(
    store: StorePort,
    context: Context,
    session: str,
    turn: str,
    *,
    effects: RetryEffects = "ask",
    name: str = "",
) -> Retry:
    """A session in which a turn can be tried again: a new one, or the retry that has that name."""
    if effects not in ("ask", "run"):
        raise InvalidInput(f"unknown effects {effects!r:.40}", path="$.effects", hint="ask or run")
    owner, number = _turn_of(store, session, turn)
    found = siblings(store, owner, number)
    begun = SessionReader(store, owner).beginning(number)
    known = {row.record.name: place for place, row in enumerate(found.retries, 2)}
    fields: dict[str, Any] = {
        "original": found.original,
        "turn": number,
        "prompt": None if begun is None else begun.known("input"),
    }
    if name and name in known:
        row = found.retries[known[name] - 2]
        return Retry(row=row, number=known[name], made=False, **fields)
    row = _fork(store, context, found, number, effects=effects, name=name)
    return Retry(row=row, number=len(found.retries) + 2, made=True, **fields)


def _turn_of(store: StorePort, session: str, ref: str) -> tuple[str, int]:
    """The session and number of the turn that is meant."""
    parsed = parse_ref(ref)
    if not isinstance(parsed.position, AtTurn) or parsed.position.turn == 0:
        raise InvalidInput(f"only a turn can be retried, not {ref!r:.60}", path="$.turn", hint="t5")
    session = session_of(store, session, parsed)
    try:
        point = span(store, session, parsed.position)[1]
    except NotFound:
        parent = store.session(session).record.parent
        if parent is None or not retries_turn(store, parent, parsed.position.turn):
            raise
        return parent.session, parsed.position.turn  # a retry that has not begun yet
    return point.session, int(point.shown[1:])


def _fork(
    store: StorePort,
    context: Context,
    found: Siblings,
    turn: int,
    *,
    effects: RetryEffects,
    name: str,
) -> SessionRow:
    source = store.session(found.original).record
    labels = labels_of(source, effects)
    point = Point(found.original, found.before, f"t{turn - 1}")
    if name:
        return fork.fork(store, context, point, name=name, kind="retry", labels=labels)
    for number in count(len(found.retries) + 2):
        end = f"~t{turn}.{number}"
        free = source.name[: NAME_MAX - len(end)] + end
        try:
            return fork.fork(store, context, point, name=free, kind="retry", labels=labels)
        except Conflict:
            if number > len(found.retries) + NAMES:
                raise
    raise AssertionError


def labels_of(source: SessionRecord, effects: RetryEffects) -> dict[str, str]:
    """The labels of a retry: its original's, and whether it may write without asking."""
    labels = {key: value for key, value in source.labels.items() if key != EFFECTS}
    return labels | {EFFECTS: effects} if effects == "run" else labels


def begin(
    driver: Driver, turn: str, *, effects: RetryEffects, prompt: Any, name: str
) -> tuple[Driver, Any, str]:
    """Drive a retry of a turn, on the terms of the session that asks for it; its prompt and its key.

    Under the same key: once the retry is adopted, the program must find the turn that replaced the
    other.
    """
    store, context = driver.store, driver.context
    owner, number = _turn_of(store, driver.id, turn)
    begun = SessionReader(store, owner).beginning(number)
    key = ""
    if begun is not None:
        key = begun.known("key", "")
        prompt = begun.value("input") if prompt is None else prompt
    retry = make(store, context, driver.id, turn, effects=effects, name=name)
    return drive_existing(store, context, retry.row, driver.terms), prompt, key


# -- adopting -------------------------------------------------------------------------------------


def adopt(
    store: StorePort,
    context: Context,
    session: str,
    ref: str,
    by: str,
    *,
    driver: Driver | None = None,
) -> Adopted:
    """Let a retry or a fork continue the session it came from; `t5.1` takes that back.

    Needs the lease of the original: `driver` has it, or the session is held for a moment.
    """
    original, adopted = _adoption(store, session, ref)
    record = store.session(original).record
    change = Upsert("session", msgspec.structs.replace(record, adopted=adopted))
    fields: dict[str, Any] = {"changes": (change,), "actor": "user", "principal": by}
    if driver is not None and driver.id == original:
        adopting = driver.draft("adopt", **fields)
        driver.append([adopting, *driver.extract(adopting)])
    else:
        _adopt_held(store, context, original, fields)
    going_on = store.session(adopted or original).record
    return Adopted(original=original, name=record.name, by=going_on.id, by_name=going_on.name)


def _adopt_held(store: StorePort, context: Context, session: str, fields: dict[str, Any]) -> None:
    with held(store, context, session) as hold:
        adopting = hold.draft("adopt", **fields)
        found = Extractor(session, ExtractionState()).drafts(adopting)
        store.append(session, [*hold.paused_after(), adopting, *found], barrier=True)


def _adoption(store: StorePort, session: str, ref: str) -> tuple[str, str]:
    """The original session, and the one to adopt for it; "" for itself."""
    parsed = parse_ref(ref)
    if isinstance(parsed.position, AtTurn) and parsed.position.retry:
        # A retry that has not begun yet can be gone on with as well.
        target = sibling(store, session_of(store, session, parsed), parsed.position)
    else:
        target = SessionReader(store, session).at(ref).session
    if isinstance(parsed.position, AtTurn) and parsed.position.retry == 1:
        return _adopted_from(store, target, parsed.position.turn), ""
    record = store.session(target).record
    parent = record.parent
    if parent is None or parent.kind not in ("retry", "fork"):
        raise WrongState(
            f"session {record.name!r:.80} is neither a retry nor a fork, so it cannot be adopted",
            hint="t5.2 names a retry; t5.1 undoes an adoption",
            session=target,
        )
    return parent.session, target


def _adopted_from(store: StorePort, session: str, turn: int) -> str:
    """The session whose adoption is to be undone: that one, or the one it was adopted for, by a retry of that
    turn or by a fork."""
    row = store.session(session)
    if row.record.adopted:
        return session
    seen = {session}
    forked = ""
    while (parent := row.record.parent) is not None and parent.session not in seen:
        seen.add(parent.session)
        try:
            above = store.session(parent.session)
        except NotFound:
            break
        if above.record.adopted == row.id:
            if retries_turn(store, parent, turn):
                return above.id
            if parent.kind == "fork":
                forked = forked or above.id
        row = above
    if not forked:
        name = store.session(session).record.name
        raise WrongState(
            f"nothing was adopted for t{turn} of session {name!r:.80}: there is nothing to undo",
            hint="stator tree shows what was adopted",
            session=session,
        )
    return forked
