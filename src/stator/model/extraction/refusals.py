"""Finds what a person wrote when refusing a call: a candidate for a preference, with the words as they are.

The words are those that the refusal itself holds, or else the next prompt, if nothing succeeded in between. A refusal
by a rule, a hook or a sandbox is no person's.
"""

from __future__ import annotations

import re

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    Found,
    plain_text,
)
from stator.model.log.commit import Upsert
from stator.model.log.shown_text import cut_short, legible
from stator.model.records.text import prompt_text
from stator.model.records.types import CandidateRecord
from stator.model.values.late_pattern import late

QUOTE_MAX = 1_000
_BY_A_PERSON = late(
    r"the user (?:doesn't want to proceed|rejected|denied|declined)|rejected by (?:the )?user"
    r"|user (?:rejected|denied|declined)",
    re.IGNORECASE,
)
_WORDS = late(
    r"the user said:\s*(?P<said>.+)"
    r"|with the following feedback:\s*(?P<feedback>.+)"
    r"|<feedback>\s*(?P<tagged>.+?)\s*</feedback>"
    r"|provided the following reason for the rejection:\s*(?P<reason>.+)",
    re.DOTALL | re.IGNORECASE,
)
"""How Claude Code, opencode and Cline pass on what a person wrote with a refusal."""
_OURS = "Note: The user's next message may contain a correction or preference."
"""What Claude Code adds after the words."""


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if one.kind in ENDS:
        if one.status == "ok":
            state.refused = []
        return _refused(state, one, held) if one.status == "denied" else None
    if one.kind == "approval":
        denied = any(getattr(record, "verdict", "") == "denied" for record in one.records)
        return _candidate(held.about, one.why, (held.intent,)) if denied and held else None
    if one.kind == "turn" and state.refused and one.provenance.source == "user":
        outcome, intent, about = state.refused
        state.refused = []
        return _candidate(about, prompt_text(one.input), (outcome, intent))
    return None


def _refused(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if held is None or not held.about:
        return None
    text = plain_text(one.output) or one.cause
    if not _BY_A_PERSON.search(cut_short(text, QUOTE_MAX)) and not _BY_A_PERSON.search(one.cause):
        return None
    match = _WORDS.search(text)
    words = next((part for part in match.groups() if part), "") if match else ""
    words = words.partition(_OURS)[0].strip()
    if words:
        return _candidate(held.about, words, (held.intent,))
    # of several calls that were asked for at once, the first is the one that was refused
    state.refused = state.refused or [one.id, held.intent, held.about]
    return None


def _candidate(about: str, words: str, also: tuple[str, ...]) -> Found | None:
    if not words.strip():
        return None
    quote = cut_short(words.strip(), QUOTE_MAX)
    record = CandidateRecord(
        name=legible(f"refused: {about}"),
        collection="preferences",
        quote=legible(quote),
        rule=RULE_NAME,
    )
    return Found(changes=(Upsert("candidates", record),), source="user", also=also)


RULE_NAME = "refusal"
RULE = ExtractionRule(
    name=RULE_NAME, version=1, kind="candidate", sees=ENDS | {"approval", "turn"}, find=_find
)
