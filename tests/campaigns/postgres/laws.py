"""The laws of a failover, checked against what workers were promised and what happened outside.

    acknowledged   every acknowledged commit is in the log, with its id and hash
    fenced         a displaced driver writes nothing after its displacement
    once           every payment happens once
    said           a payment that happened is recorded as done or listed as in doubt
    true           a payment that is recorded as done happened
    chained        every log verifies
    equal          both servers hold the same

Each function returns the violations that it finds, as sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from campaigns.postgres.pair import Pair
from stator.model.log.commit import Commit
from stator.runtime.facade.store import Store
from stator.runtime.views.attention import unresolved
from stator.runtime.views.verify import verify
from stator.store.port import StorePort


@dataclass
class Promises:
    """What the workers of one session reported."""

    session: str = ""
    acks: list[tuple[str, int, str, str]] = field(default_factory=list)
    """(session, seq, id, hash)."""
    leases: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(session, epoch, head when it was given, epoch that it displaced)."""
    ends: Counter[str] = field(default_factory=Counter)
    """How drivers ended, by their code."""
    errors: list[str] = field(default_factory=list)
    doubts: int = 0
    """Doubts that were listed, before a person settled them."""

    def take(self, report: dict[str, Any]) -> None:
        self.session = report.get("session") or report.get("open") or self.session
        self.acks += [tuple(ack) for ack in report.get("acks", [])]
        self.leases += [tuple(report["lease"])] if "lease" in report else []
        self.errors += [report["what"]] if "what" in report else []


def log_of(port: StorePort, session: str) -> list[Commit]:
    log: list[Commit] = []
    while page := port.commits(session, after=log[-1].seq if log else 0):
        log += page
    return log


def broken_in(store: Store, promises: Promises, paid: Counter[str]) -> Iterator[str]:
    """What is wrong with a session that nobody drives now."""
    session = promises.session
    if not session:
        return
    log = log_of(store.port, session)
    yield from lost(log, promises.acks)
    yield from unfenced(log, promises.leases)
    yield from unsaid(store, session, log, paid)
    yield from (f"{session}: {finding.what}" for finding in verify(store.port, session))


def lost(log: Iterable[Commit], acks: Iterable[tuple[str, int, str, str]]) -> Iterator[str]:
    there = {(commit.seq, commit.id, commit.hash) for commit in log}
    for session, seq, identifier, hash_ in acks:
        if (seq, identifier, hash_) not in there:
            yield f"acknowledged, and lost: @{seq} {identifier} of {session}"


def unfenced(log: Iterable[Commit], leases: Iterable[tuple[str, int, int, int]]) -> Iterator[str]:
    leases = list(leases)
    newest = 0
    for commit in log:
        late = any(
            commit.epoch < epoch and commit.seq > head for _, epoch, head, _ in leases if head
        )
        if commit.epoch and (late or commit.epoch < newest):
            yield f"written after its displacement: @{commit.seq} {commit.id} of epoch {commit.epoch}"
        newest = max(newest, commit.epoch)


def payments(log: Iterable[Commit]) -> tuple[dict[str, list[str]], set[str]]:
    """The calls of each payment, and the calls that are recorded as done."""
    calls: dict[str, list[str]] = {}
    done = set()
    for commit in log:
        if commit.kind == "call":
            calls.setdefault(commit.value("input")["what"], []).append(commit.call)
        if commit.kind in ("outcome", "settlement") and commit.status == "ok":
            done.add(commit.call)
    return calls, done


def unsaid(store: Store, session: str, log: list[Commit], paid: Counter[str]) -> Iterator[str]:
    calls, done = payments(log)
    doubts = {doubt.call for doubt in store.doubts.open(session)}
    attended = {row.call for row in unresolved(store.as_read, most=10_000).doubtful}
    if doubts - attended:
        yield f"in doubt, and not among what needs attention: {sorted(doubts - attended)}"
    # A driver that may still run has its open calls, as far as anyone can know, until it is silent or displaced.
    is_held = store.port.session(session).holder is not None
    for what, made in calls.items():
        if paid[what] and not is_held and not set(made) & (done | doubts):
            yield f"paid, and neither recorded nor in doubt: {what}"
        if not paid[what] and set(made) & done:
            yield f"recorded as paid, and not paid: {what}"


def doubled(paid: Counter[str]) -> Iterator[str]:
    for what, times in paid.items():
        if times > 1:
            yield f"paid {times} times: {what}"


def unequal(pair: Pair) -> Iterator[str]:
    """After the standby has caught up, while nothing is written."""
    pair.catch_up()
    here, there = pair.primary.tables(), pair.standby.tables()
    yield from (
        f"{name} differs between the servers" for name in here if here[name] != there.get(name)
    )
