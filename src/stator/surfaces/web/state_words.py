"""Says what an entry of a project's state is called and what it says, in words for a page."""

from __future__ import annotations

from stator.model.records.types import (
    DeadEndRecord,
    DecisionRecord,
    FactRecord,
    PlanRecord,
    PreferenceRecord,
    Record,
)
from stator.model.views.project_state import StateEntry
from stator.surfaces.cli.render.record_line import of_record, recorded


def name_of(entry: StateEntry) -> str:
    """What an entry is about: the topic of a decision, the name of a fact."""
    record = entry.record
    if isinstance(record, DecisionRecord):
        return record.topic or record.what
    if isinstance(record, (FactRecord, PreferenceRecord)):
        return record.name
    return words_of(record)


def words_of(record: Record) -> str:
    """What a record says, without its name."""
    if isinstance(record, (DecisionRecord, DeadEndRecord)):
        return record.what
    if isinstance(record, (FactRecord, PreferenceRecord)):
        return recorded(record.value)
    if isinstance(record, PlanRecord):
        return record.step
    return "".join(text for text, _ in of_record(record).pieces)
