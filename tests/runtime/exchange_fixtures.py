"""Shared by the tests of copy, push and pull: what stores hold, and a session that is purged."""

from __future__ import annotations

from typing import Any

from stator.model.log.commit import Draft, Purge, Upsert
from stator.model.log.query import SessionQuery
from stator.model.records.types import FlagRecord
from stator.model.sessions.lifecycle import COPIES
from stator.runtime.base import project_flags, project_session
from stator.runtime.base.pages import commits, matching
from stator.runtime.facade.store import Store

SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def purge(store: Store, session: str) -> None:
    """Purge a session as a policy would, and leave its tombstone."""
    own = project_session.own(store.port, store.context, store.port.session(session).record)
    flag = FlagRecord(name=project_flags.PURGED, on=session, why="asked to", by="local:test")
    draft = Draft(
        id=store.context.mint("commit"),
        session=own.id,
        kind="purge",
        actor="system",
        principal="local:test",
        input={"name": "gone"},
        changes=(Purge(session, 0), Upsert("flags", flag)),
    )
    store.port.append(own.id, [draft])


def heads(store: Store) -> dict[str, tuple[int, str]]:
    """Every session with its head; without the notes about copies, which each store has for itself."""
    return {
        row.id: (head.seq, head.hash)
        for row in matching(store.port, SessionQuery())
        if row.record.project != COPIES
        for head in [store.port.head(row.id)]
    }


def logs(store: Store) -> dict[str, list[Any]]:
    """Every commit of every session, with its content."""
    return {session: list(commits(store.port, session)) for session in heads(store)}


def fates(report: Any) -> dict[str, str]:
    return {one.name: one.fate for one in report.sessions}


def turn(store: Store, name: str, fact: Any, prompt: str = "more") -> str:
    with store.open(name) as s, s.turn(prompt) as t:
        t.fact("value", fact)
        t.say(f"noted {fact}")
    return s.id
