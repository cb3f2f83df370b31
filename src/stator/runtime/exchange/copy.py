"""Copies everything of one store into another: the same ids, the same hashes.

What holds for whole projects goes first and carries the marks of imported sessions. Where the other store has such a
session of its own for a project, the marks are written there instead. A copy is no import: what it carries counts as it
did where it comes from, except for approvals, which are valid in the store in which they were given.
"""

from __future__ import annotations

from stator.runtime.base.arrivals import Arrival, note_arrivals
from stator.runtime.base.context import Context
from stator.runtime.exchange.carried_purges import carry_purges
from stator.runtime.exchange.choice import SessionToSend, everything
from stator.runtime.exchange.heads import hashes
from stator.runtime.exchange.import_marks import Placed, carry_marks
from stator.runtime.exchange.send import Progress, Sender, left_there
from stator.runtime.exchange.sent import SentReport
from stator.runtime.views.project_state import forget_in_indexes
from stator.store.port import StorePort


def copy(
    source: StorePort,
    target: StorePort,
    context: Context,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> SentReport:
    """Copy every session that the other store lacks, and what it lacks of the others; purge there what was purged here
    since it was copied. Nothing there is changed otherwise. Killed at any point, the next copy continues."""
    sender = Sender(source, target, dry_run=dry_run, progress=progress)
    chosen = everything(source)
    own = [one for one in chosen if one.record.mode == "project"]
    others = [one for one in chosen if one.record.mode != "project"]
    done = sender.send(own, lambda going: _note(source, target, context, going))
    carried = {one.session for one in done if one.fate in ("new", "continued", "same")}
    brought = {_scope(one) for one in own if one.id in carried}

    def mark(going: list[Placed]) -> None:
        _note(source, target, context, going)
        unmarked = [placed for placed in going if _scope(placed[0]) not in brought]
        carry_marks(source, target, context, unmarked)

    sessions = [*done, *sender.send(others, mark)]
    left = left_there(source, target)
    purged_there, purged = carry_purges(source, target, context, left, dry_run=dry_run)
    erased = [one.session for one in sessions if one.erasures]
    forget_in_indexes(target, context, [*erased, *(one.session for one in purged_there)])
    return SentReport(
        source=source.info().url,
        target=target.info().url,
        sessions=sessions,
        commits=sum(one.commits for one in sessions),
        verified=sender.verified,
        purged=purged,
        purged_there=purged_there,
        dry_run=dry_run,
    )


def _scope(one: SessionToSend) -> tuple[str, str]:
    return one.record.tenant, one.record.project


def _note(source: StorePort, target: StorePort, context: Context, going: list[Placed]) -> None:
    sent = hashes(source, {one.id: one.seq for one, _ in going})
    name = source.info().id
    for tenant in dict.fromkeys(one.record.tenant for one, _ in going):
        arriving = {
            one.id: Arrival(one.seq, sent[one.id], name)
            for one, _ in going
            if one.record.tenant == tenant and one.id in sent
        }
        note_arrivals(target, context, tenant, arriving)
