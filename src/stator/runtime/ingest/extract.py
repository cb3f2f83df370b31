"""Finds in the logs of sessions what the rules of extraction give, and appends what is missing there.

Recorded and driven sessions get their findings while they are recorded. This is for logs of earlier releases, and,
with `again`, for findings that another version of the rules made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stator.errors import HeadMoved, WrongState
from stator.model.extraction.evidence import ExtractionRule
from stator.model.extraction.extractor import RULES
from stator.model.extraction.reconcile import Lacking, LogExtraction, What
from stator.model.log.commit import Draft
from stator.model.log.query import SessionRow
from stator.model.log.rewinds import stands, visible
from stator.model.records.tables import record_text
from stator.runtime.base.pages import commits
from stator.runtime.views.reflog import rewinds
from stator.store.port import StorePort

ATTEMPTS = 20
"""How often a log is read again because it has grown in between."""


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found and recorded, or would be."""

    session: str
    rule: str
    what: What
    commit: str
    """The commit that records it."""
    evidence: str
    """The commit that it was found in."""
    says: list[str]
    """Its records, each as one text; what was removed has none."""


class MemoryConflict(msgspec.Struct, frozen=True, kw_only=True):
    """A note of an agent that has the name of something the project knows, and says something else."""

    memory: str
    collection: str
    key: str
    value: str
    """What the project knows."""
    session: str
    seq: int


class Extraction(msgspec.Struct, kw_only=True):
    """What an extraction recorded, or would record."""

    sessions: int = 0
    """Sessions that were looked at."""
    found: list[Extracted] = []
    conflicts: list[MemoryConflict] = []
    """Notes of agents that contradict what the project knows."""
    refused: int = 0
    """Lines of the user's own command that hold no candidate, or do not quote their evidence."""
    closed: dict[str, int] = {}
    """Closed sessions, which take no more records, and how many findings each of them lacks."""

    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each rule."""
        counts: dict[str, int] = {}
        for one in self.found:
            counts[one.rule] = counts.get(one.rule, 0) + 1
        return counts


def extract(
    store: StorePort,
    rows: Iterable[SessionRow],
    *,
    again: bool = False,
    dry_run: bool = False,
    rules: Sequence[ExtractionRule] = RULES,
) -> Extraction:
    """Append to each session what the rules find in its log and the log lacks."""
    done = Extraction()
    for row in rows:
        if row.record.mode == "project":
            continue
        done.sessions += 1
        _extract_one(store, row, done, again=again, dry_run=dry_run, rules=rules)
    return done


def _extract_one(
    store: StorePort,
    row: SessionRow,
    done: Extraction,
    *,
    again: bool,
    dry_run: bool,
    rules: Sequence[ExtractionRule],
) -> None:
    for attempt in range(ATTEMPTS):
        head = store.head(row.id)
        steps = missing(store, row.id, head.seq, again=again, rules=rules)
        if not steps:
            return
        try:
            if not dry_run:
                drafts = [step.draft for step in steps]
                store.append(row.id, drafts, if_head=head.hash)
        except HeadMoved:
            if attempt + 1 == ATTEMPTS:
                raise
            continue
        except WrongState:
            done.closed[row.id] = len(steps)
            return
        done.found += [extracted(step.draft, step.rule, step.what) for step in steps]
        return


def missing(
    store: StorePort,
    session: str,
    upto: int,
    *,
    again: bool = False,
    rules: Sequence[ExtractionRule] = RULES,
) -> list[Lacking]:
    """What the log of a session lacks of what the rules find in it."""
    in_force = visible(rewinds(store, session), upto)
    walk = LogExtraction(session, rules=rules, in_force=lambda seq: stands(in_force, seq))
    for commit in commits(store, session, upto=upto):
        walk.see(commit)
    return list(walk.steps(again=again))


def extracted(draft: Draft, rule: str, what: What) -> Extracted:
    """A draft as the report has it."""
    records = [getattr(change, "record", None) for change in draft.changes]
    return Extracted(
        session=draft.session,
        rule=rule,
        what=what,
        commit=draft.id,
        evidence=str(draft.inputs[0]),
        says=[record_text(record) for record in records if record is not None],
    )
