"""Tasks of the campaign's worker processes: drive a session, and report every acknowledged commit.

Reports go over a pipe to the test as they are received, so that what a worker was promised is known after its death.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import Any

import stator
from campaigns.postgres import programs
from campaigns.postgres.ledger import Ledger
from campaigns.postgres.stores import open_store
from stator.model.log.commit import Commit, Draft
from stator.model.log.query import Holder, Lease, SessionRow

PAY_S = 0.01
"""How long a payment takes, before and after it happens."""


class Witness:
    """A store that reports to the test what it acknowledged."""

    def __init__(self, below: Any, talk: Any) -> None:
        self.__dict__.update(_below=below, _talk=talk)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._below, name, value)

    def create(self, drafts: Sequence[Draft], **options: Any) -> tuple[SessionRow, bool]:
        row, made = self._below.create(drafts, **options)
        self._talk.say({"session": row.id})
        return row, made

    def append(self, session: str, drafts: Sequence[Draft], **options: Any) -> list[Commit]:
        commits: list[Commit] = self._below.append(session, drafts, **options)
        self._talk.say({"acks": [[session, c.seq, c.id, c.hash] for c in commits]})
        return commits

    def acquire(self, session: str, holder: Holder, **options: Any) -> Lease:
        lease: Lease = self._below.acquire(session, holder, **options)
        head = lease.newest[0].seq if lease.newest else 0
        displaced = lease.displaced.epoch if lease.displaced else 0
        self._talk.say({"lease": [session, lease.epoch, head, displaced]})
        return lease


def drive(
    talk: Any, kind: str, url: str, ledger: str, name: str, turns: int, pays: int, busy: str,
    namespace: str = "",
) -> str:  # fmt: skip
    """Run the program: turns with payments, each of which must happen once. Returns how it ended."""
    if namespace:
        programs.enter_namespace(namespace)
    world = Ledger(ledger)

    @stator.tool()
    def pay(what: str) -> str:
        time.sleep(PAY_S)
        world.pay(what)
        time.sleep(PAY_S)
        return what

    try:
        with (
            open_store(kind, url, around=lambda port: Witness(port, talk)) as store,
            store.open(name, agent="campaign", busy=busy) as s,  # type: ignore[arg-type]
        ):
            talk.say({"open": s.id})
            for n in range(turns):
                # With a key: a driver may die after its last commit, and the next begins from the start.
                with s.turn(f"turn {n}", key=f"turn {n}") as t:
                    for k in range(pays):
                        t.call(pay, what=f"{name}/{n}/{k}")
                    t.fact(f"turn {n}", n)
                    t.say(f"paid {n}")
    except stator.StatorError as error:
        talk.say({"what": f"{str(error)[:300]} [{_way(error)}]"})
        return error.code
    return "ok"


def _way(error: BaseException) -> str:
    """The functions that an error came through, for a report."""
    return " > ".join(frame.name for frame in traceback.extract_tb(error.__traceback__)[1:])
