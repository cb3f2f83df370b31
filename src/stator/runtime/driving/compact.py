"""Compacts a session, or takes its last compaction back: as its driver, or from outside."""

from __future__ import annotations

import msgspec

from stator.runtime.base.context import Context
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.lifecycle import held
from stator.runtime.window.compaction import (
    Compaction,
    CompactionOptions,
    propose,
    refuse_recorded,
    undoing,
)
from stator.runtime.window.transcript import Rendering
from stator.store.port import StorePort


def compact(driver: Driver, options: CompactionOptions) -> Compaction:
    """Compact a session that this program drives."""
    store, session = driver.store, driver.id
    turn = driver.current
    if turn is not None and not turn.ended and turn.is_ahead:
        # The program is still where an earlier run was: the compaction it made then is recorded,
        # and compacting again here would shorten the view a second time.
        return Compaction(session=session)
    refuse_recorded(store, session)
    proposal = propose(store, session, driver.transcript(), options)
    if not proposal.found.levels:
        return proposal.found
    with driver.lock:
        draft = driver.draft("compaction", actor="system", **proposal.fields(store))
        (commit,) = driver.append([draft])
    return msgspec.structs.replace(proposal.found, seq=commit.seq)


def undo(driver: Driver) -> Compaction:
    """Take back the last compaction of a session that this program drives."""
    store, session = driver.store, driver.id
    refuse_recorded(store, session)
    with driver.lock:
        found, fields = undoing(store, session)
        (commit,) = driver.append([driver.draft("compaction", actor="system", **fields)])
    return msgspec.structs.replace(found, seq=commit.seq)


def compact_from_outside(
    store: StorePort,
    context: Context,
    session: str,
    options: CompactionOptions,
    *,
    record: bool = True,
) -> Compaction:
    """Compact a session that nobody drives; without `record`, only report what that would do."""
    refuse_recorded(store, session)
    if not record:
        return propose(store, session, Rendering(store, session).current(), options).found
    with held(store, context, session) as hold:
        proposal = propose(store, session, Rendering(store, session).current(), options)
        if not proposal.found.levels:
            return proposal.found
        draft = hold.draft("compaction", **proposal.fields(store))
        commits = store.append(session, [*hold.left_behind(), draft], barrier=True)
    return msgspec.structs.replace(proposal.found, seq=commits[-1].seq)


def undo_from_outside(store: StorePort, context: Context, session: str) -> Compaction:
    """Undo the last compaction of a session without a driver."""
    refuse_recorded(store, session)
    with held(store, context, session) as hold:
        found, fields = undoing(store, session)
        draft = hold.draft("compaction", **fields)
        commits = store.append(session, [*hold.left_behind(), draft], barrier=True)
    return msgspec.structs.replace(found, seq=commits[-1].seq)
