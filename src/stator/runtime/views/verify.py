"""Verifies a store: every log, commit by commit, then whatever else is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from stator.errors import StatorError
from stator.model.log.commit import Commit
from stator.model.log.log_walk import SessionLog, Unreadable, Walked, walk
from stator.model.log.query import Finding, SessionRow, VerifyReport
from stator.model.sessions.lifecycle import lent_upto
from stator.runtime.base.arrivals import arrivals
from stator.runtime.base.provenance import imported_upto
from stator.store.port import StorePort

Progress = Callable[[str, int], None]
"""(session, commits checked so far)."""
RESTORE = (
    "restore a backup, or import a bundle of the session into a new store; "
    "sessions without a finding can be exported: stator export"
)
LOG_INTACT = "the log is intact"
LOG_DAMAGED = "the log is damaged too: repair that first"


def verify(
    store: StorePort, session: str | None = None, *, progress: Progress | None = None
) -> Iterator[Finding]:
    """Everything wrong with the store and with the logs of one session or all."""
    yield from examine(store, session, progress=progress).damages


def examine(
    store: StorePort, session: str | None = None, *, progress: Progress | None = None
) -> VerifyReport:
    """Check the logs of one session (and of those it was forked from) or of all, then the rest of the store."""
    walked = [walk(log, progress) for log in store.logs(session)]
    arrived = {session: one.upto for session, one in arrivals(store).items()}
    logs = [*_logs(store, walked, arrived)]
    damaged = {each.log.session for each in walked if each.damages}
    names = {each.log.session: each.log.name for each in walked}
    rest = [*_rows(walked), *_epochs(store, walked, arrived)]
    for finding in store.audit(skip=damaged):
        named = msgspec.structs.replace(finding, name=names.get(finding.session, ""))
        rest.append(_honest(named, not logs))
    good = sorted((e for e in walked if not e.damages), key=lambda e: e.used, reverse=True)
    return VerifyReport(
        sessions=len(walked),
        commits=sum(each.verified for each in walked),
        log_ok=not logs,
        damages=logs + rest,
        heads={each.log.session: each.head for each in good if each.head},
        names=names,
    )


def examine_newest(store: StorePort, sessions: Iterable[SessionRow], *, most: int) -> VerifyReport:
    """Check the newest commits of these sessions, `most` in all, each against its hash and the commit before it: what
    takes a bounded time in a store of any size."""
    walked: list[Walked] = []
    left = most
    for row in sessions:
        if left <= 0:
            break
        walked.append(one := walk(_newest(store, row, left)))
        left -= max(1, one.verified)
    return VerifyReport(
        sessions=len(walked),
        commits=sum(each.verified for each in walked),
        log_ok=not any(each.damages for each in walked),
        damages=[_damage(each, damage) for each in walked for damage in each.damages],
        names={each.log.session: each.log.name for each in walked},
    )


def _newest(store: StorePort, row: SessionRow, most: int) -> SessionLog:
    """The end of a session's log, as other readers see it; or that it cannot be read."""
    rows: list[Commit | Unreadable]
    own = lent_upto(row.record.lineage)
    try:
        found = store.commits(row.id, after=own, newest_first=True, limit=most)[::-1]
    except StatorError as error:
        seq = int(error.ids.get("seq", row.head))
        found, rows = [], [Unreadable(seq, seq, error.what)]
    else:
        rows = list(found)
    first = found[0] if found else None
    return SessionLog(
        session=row.id,
        name=row.record.name,
        place="",
        rows=iter(rows),
        low=first.seq - 1 if first else own,
        prev=first.prev if first else "",
    )


def _logs(store: StorePort, walked: list[Walked], arrived: Mapping[str, int]) -> Iterator[Finding]:
    """Every damaged range of every log, and what forks inherit of them."""
    first_bad = {each.log.session: each.first_bad for each in walked if each.damages}
    for each in walked:
        for damage in each.damages:
            yield _damage(each, damage)
        for part in each.log.lineage:
            bad = first_bad.get(part.session, 0)
            if part.after < bad <= part.upto:
                yield _damage(
                    each, Unreadable(bad, bad, f"damaged in session {part.session}, its parent")
                )
        if each.left_out:
            yield from _left_out(store, each, arrived)


def _damage(walked: Walked, damage: Unreadable) -> Finding:
    log = walked.log
    return Finding(
        what=damage.what
        if log.session
        else f"{damage.what} (a session whose id cannot be read, {log.place})",
        check="chain",
        session=log.session,
        name=log.name,
        seq=damage.first,
        last=damage.last if damage.last > damage.first else 0,
        held=log.held(damage.first, damage.last),
        hint=RESTORE,
    )


def _left_out(store: StorePort, walked: Walked, arrived: Mapping[str, int]) -> Iterator[Finding]:
    """Commits without some content that no erasure took, though no bundle brought them so."""
    row = _row_of(store, walked, arrived)
    for seq in walked.left_out:
        if row is not None and seq > row[1]:
            what = "content is not there, and no bundle brought it so"
            yield _damage(walked, Unreadable(seq, seq, what))
            return


def _row_of(store: StorePort, walked: Walked, arrived: Mapping[str, int]) -> tuple[int, int] | None:
    """A session's epoch, and up to which seq it came from another store; None if that cannot be read: then its row or
    the indexes have a finding of their own.
    """
    try:
        row = store.session(walked.log.session)
        upto = max(imported_upto(store, row.record), arrived.get(row.id, 0))
    except StatorError:
        return None
    epoch: object = row.epoch  # in a damaged row it may be anything
    return (epoch, upto) if isinstance(epoch, int) else None


def _epochs(
    store: StorePort, walked: list[Walked], arrived: Mapping[str, int]
) -> Iterator[Finding]:
    """Sessions whose row has an epoch that they cannot have: an epoch is given to one session, once."""
    owners: dict[int, str] = {}
    rows: list[tuple[Walked, int, list[int]]] = []
    for each in walked:
        row = _row_of(store, each, arrived)
        if row is not None:
            epoch, upto = row
            local = [one for one, seq in each.epochs.items() if seq > upto]
            owners.update(dict.fromkeys(local, each.log.session))
            rows.append((each, epoch, local))
    for each, epoch, local in rows:
        session = each.log.session
        if epoch < max(local, default=0) or owners.get(epoch, session) != session:
            yield Finding(
                what=f"its row has the epoch {epoch}, which its log and those of others contradict",
                check="session",
                session=session,
                name=each.log.name,
                hint="restore a backup; what is recorded is not affected",
            )


def _rows(walked: list[Walked]) -> Iterator[Finding]:
    """Sessions whose row is damaged though their log tells who they are."""
    for each in walked:
        if each.log.row:
            yield Finding(
                what=each.log.row,
                check="session",
                session=each.log.session,
                name=each.log.name,
                hint="restore a backup; its log can still be read",
            )


def _honest(finding: Finding, log_ok: bool) -> Finding:
    """A finding about an index, with what the walk of the logs found: only an intact log can be rebuilt from."""
    if "--rebuild" not in finding.hint:
        return finding
    hint = f"{LOG_INTACT}; {finding.hint}" if log_ok else LOG_DAMAGED
    return msgspec.structs.replace(finding, hint=hint)


def holds_head(store: StorePort, session: str, head: str) -> bool:
    """Whether a head noted earlier is still in the log: if not, it was cut off, rolled back or rewritten."""
    found = store.locate(head, session)
    return any(
        store.commits(session, after=seq - 1, upto=seq, limit=1, load=False)[0].hash == head
        for _, seq in found
    )
