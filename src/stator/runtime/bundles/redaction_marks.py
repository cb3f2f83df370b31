"""Keeps the user's word that a log holds no secrets beside the log, and gives it along with a bundle.

A store moves the mark of a session while it writes with redaction. An export scans what lies behind it; an import takes
over the mark of a bundle that the same user exported. No mark is needed for anything but speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.model.exchange import redaction_mark
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.bundle import Bundled
from stator.model.exchange.redaction_mark import RedactionMark
from stator.runtime.bundles.reconcile import ReconcilePlan
from stator.store.port import StorePort


def redacted_upto(store: StorePort, session: str) -> int:
    """The last seq of a session up to which nothing needs to be scanned again; 0 if there is no such."""
    note = store.bookmark(session, redaction_mark.NOTE)
    mark = None if note is None else redaction_mark.from_note(note.value)
    if mark is None or not redaction_mark.is_believed(mark, store.ownership, session):
        return 0
    found = store.commits(session, after=mark.seq - 1, upto=mark.seq, limit=1, load=False)
    return mark.seq if found and found[0].hash == mark.hash else 0


def marked(store: StorePort, one: Bundled) -> RedactionMark | None:
    """The mark of a session that was scanned, or did not need to be, up to where it is exported."""
    return redaction_mark.made(store.ownership, one.id, one.seq, one.hash)


def keep_marks(
    store: StorePort, plans: Sequence[ReconcilePlan], marks: Sequence[RedactionMark | None]
) -> None:
    """Keep this user's marks of the logs that came in as they are. Their hashes were checked."""
    for plan, mark in zip(plans, marks, strict=False):
        if mark is None or plan.graft is not None or plan.fate not in ("new", "fast-forward"):
            continue
        is_here = (mark.seq, mark.hash) == (plan.one.seq, plan.one.hash)
        if is_here and redaction_mark.is_believed(mark, store.ownership, plan.one.id):
            known = store.bookmark(plan.into, redaction_mark.NOTE)
            number = 1 if known is None else known.number + 1
            note = Bookmark(redaction_mark.NOTE, number, msgspec.to_builtins(mark))
            store.append(plan.into, [], bookmark=note)
