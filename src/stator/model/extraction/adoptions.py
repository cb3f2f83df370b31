"""Finds which try was adopted for a session, over which: a decision of the user."""

from __future__ import annotations

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.extraction.evidence import Evidence, ExtractionRule, Found
from stator.model.log.commit import Upsert
from stator.model.log.shown_text import legible
from stator.model.records.types import DecisionRecord, SessionRecord
from stator.model.values.ids import short


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    for session in one.records:
        if isinstance(session, SessionRecord):
            original = f"the original {short(session.id)}"
            adopted = f"the try {short(session.adopted)}" if session.adopted else ""
            record = DecisionRecord(
                topic=legible(f"which try continues {session.name}"),
                what=adopted or original,
                over=[original] if adopted else [],
                by="user",
                how="inferred",
            )
            return Found(changes=(Upsert("decisions", record),), source="user")
    return None


RULE = ExtractionRule(
    name="adoption", version=1, kind="decision", sees=frozenset({"adopt"}), find=_find
)
