"""Ways to remove something from a store, and a store to remove it from; used by tests and by their workers."""

from __future__ import annotations

from collections.abc import Callable

import stator
from reliability.support import incompressible
from stator.model.sessions.retention import Action, Plan, parse
from stator.runtime.base import project_flags
from stator.runtime.retention import erase as erasing
from stator.runtime.retention import policies
from stator.runtime.retention.subjects import subjects

MARK = "q7Zx-marker-"


def fill(store: stator.Store, sessions: int = 3, turns: int = 4) -> None:
    """Sessions with prompts, calls, answers, large payloads and state."""
    for n in range(sessions):
        with store.open(f"s{n}") as s:
            for turn in range(turns):
                with s.turn(f"{MARK}{n} {turn}") as t:
                    t.call(lambda text: incompressible(30_000, text), text=f"{n} {turn}")
                    t.call(lambda: incompressible(30_000, "shared"))
                    t.decide(f"choice {turn}", topic="auth")
                    t.fact("n", turn)
                    t.say(f"{MARK}answer")


def purge(store: stator.Store) -> None:
    """Purge the first session, unless it is already purged."""
    rows = [row for row in store.sessions().rows if row.record.name == "s0"]
    for row in rows:
        if not project_flags.has(store.port, row, project_flags.TRASH):
            project_flags.put(store.port, store.context, row, project_flags.TRASH, by="me", why="")
    _apply(store, "purge", [row.id for row in rows])


def expire(store: stator.Store) -> None:
    """Expire what is left of the transcript of the first session."""
    _apply(store, "expire", [store.read("s0").id])


def erase(store: stator.Store) -> None:
    """Erase every payload of the first session."""
    made = erasing.of_session(store.port, store.read("s0").id)
    erasing.erase(store.port, store.context, made, by="local:ann")


def _apply(store: stator.Store, what: str, sessions: list[str]) -> None:
    policies.set_policies(store.port, store.context, parse(["keep=2"]), project="test", by="me")
    known = {one.session: one for one in subjects(store.port)}
    actions = [
        Action(
            what=what,  # type: ignore[arg-type]
            session=session,
            name="s0",
            active=known[session].active,
            bytes=0,
            why="a test",
            trashed=known[session].trashed,
        )
        for session in sessions
    ]
    for done in policies.apply(store.port, store.context, Plan(actions=actions), by="local:ann"):
        assert not done.failed, done.failed


REMOVALS: dict[str, Callable[[stator.Store], None]] = {
    "purge": purge,
    "expire": expire,
    "erase": erase,
}
