"""Finds the handover that a model wrote when it was asked for one: a document called `handover`, in its words.

Structure decides, not prose: the first answer after our request that has the six headings, each on a line of its own
and in order; or the summary of a compaction that has them. It is never the user's word.
"""

from __future__ import annotations

import re

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.extraction.evidence import Evidence, ExtractionRule, Found, plain_text, string
from stator.model.log.commit import Upsert
from stator.model.records.types import ArtifactRecord, DeliveryRecord
from stator.model.values import canon
from stator.model.values.digest import sha256

HEADINGS = ("Goal", "Decisions", "Constraints", "State", "Next", "Dead ends")
NAME = "handover"
TEXT_MAX = 20_000
"""Characters of a handover."""
_LINE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+|\*\*)?([A-Za-z][A-Za-z ]{2,20})(?:\*\*)?:?(?:\*\*)?[ \t]*$"
)


def handover_in(text: str) -> str:
    """The part of a text from the first of the six headings on; empty if they are not all there, in order."""
    if len(text) > TEXT_MAX:
        return ""
    wanted = [heading.lower() for heading in HEADINGS]
    start, place = -1, 0
    for line in text.splitlines(keepends=True):
        found = _LINE.match(line.rstrip("\r\n"))
        name = found[1].strip().lower() if found else ""
        if wanted and name == wanted[0]:
            start = place if start < 0 else start
            wanted.pop(0)
        place += len(line)
    return "" if wanted else text[start:].strip()


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if one.kind == "delivery":
        asked = any(
            isinstance(record, DeliveryRecord) and record.kind == NAME for record in one.records
        )
        state.handover = one.id if asked else state.handover
        return None
    if one.kind == "compaction":
        summary = one.input.get("summary") if isinstance(one.input, dict) else ""
        return _kept(handover_in(string(summary)))
    if one.kind == "turn":
        state.handover = ""
        return None
    if one.actor != "model" or not state.handover or one.status == "partial":
        return None
    text = handover_in(plain_text(one.output))
    if not text:
        return None
    asked_in, state.handover = state.handover, ""
    return _kept(text, asked_in)


def _kept(text: str, *also: str) -> Found | None:
    if not text:
        return None
    data = canon.dumps(text)
    record = ArtifactRecord(
        name=NAME, digest=sha256(data).hexdigest(), size=len(data), media_type="text/markdown"
    )
    return Found(changes=(Upsert("artifacts", record),), source="model", content=text, also=also)


RULE = ExtractionRule(
    name="handover", version=1, kind="artifact", find=_find,
    sees=frozenset({"delivery", "compaction", "turn", "entry"}),
)  # fmt: skip
