"""Checks what a command of the user proposes: candidates, each with a quote of the text it was found in. Pure.

The command reads prose, so it may be wrong, and what it reads may have been written to mislead it. So nothing that it
proposes is in force, and what does not quote its evidence word for word is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stator.model.exchange.items import text_id
from stator.model.extraction.evidence import EXTRACT, as_json, string
from stator.model.log.commit import Draft, Provenance, Upsert
from stator.model.log.shown_text import legible
from stator.model.records.types import CandidateRecord
from stator.model.values.ids import derived

COMMAND = "extract-command"
"""The origin of what a command proposed."""
WOULD_BE = ("preferences", "decisions", "facts", "dead_ends")
QUOTE_MAX = 1_000
NAME_MAX = 300
VALUE_MAX = 2_000
"""Characters of a value."""
PROPOSALS_MAX = 500
"""Candidates for one session."""


class SpokenText(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt or an answer, as the command is given it."""

    commit: str
    source: str
    turn: int
    text: str


class Evidenced(msgspec.Struct, frozen=True):
    """A text, and what is recorded of the commit that holds it."""

    spoken: SpokenText
    happened: int
    provenance: Provenance


class Proposed(msgspec.Struct, frozen=True):
    """The drafts of what was accepted, and how many lines were refused."""

    drafts: list[Draft]
    refused: int


def proposed(session: str, lines: Iterable[str], given: Mapping[str, Evidenced]) -> Proposed:
    """The drafts of the lines that hold a candidate. `given`: the texts that the command got, by their commits."""
    drafts: dict[str, Draft] = {}
    refused = 0
    for line in lines:
        if not line.strip():
            continue
        draft = _draft(session, as_json(line), given) if len(drafts) < PROPOSALS_MAX else None
        if draft is None:
            refused += 1
        else:
            drafts.setdefault(draft.id, draft)
    return Proposed(list(drafts.values()), refused)


def _draft(session: str, line: Any, given: Mapping[str, Evidenced]) -> Draft | None:
    """The candidate in a line; None if it is not one, or does not quote its evidence."""
    if not isinstance(line, dict):
        return None
    name, quote = string(line.get("name")).strip(), string(line.get("quote"))
    collection, value = string(line.get("collection")) or "preferences", line.get("value")
    evidence = given.get(string(line.get("commit")))
    if evidence is None or not quote.strip() or quote not in evidence.spoken.text:
        return None
    if not name or len(name) > NAME_MAX or len(quote) > QUOTE_MAX or collection not in WOULD_BE:
        return None
    if not isinstance(value, str | int | bool | None) or len(str(value)) > VALUE_MAX:
        return None
    record = CandidateRecord(
        name=legible(name),
        collection=collection,
        quote=legible(quote),
        rule=COMMAND,
        value=legible(value) if isinstance(value, str) else value,
    )
    commit = evidence.spoken.commit
    named = text_id(collection, name, quote, repr(value))
    return Draft(
        id=derived("commit", COMMAND, commit, named),
        session=session,
        kind="candidate",
        actor="system",
        happened=evidence.happened,
        origin=(COMMAND, f"{named}:{commit}"),
        principal=EXTRACT,
        provenance=Provenance(evidence.provenance.source, "unverified"),
        inputs=(commit,),
        changes=(Upsert("candidates", record),),
    )
