"""Makes the commit that gives the model of a driven session what of its project bears on the first prompt.

It is made once, before the first answer, so it has the same bytes in every later request. It is made from the commits
that its lines quote: what rests on one of them that nobody vouches for, rests on it here too.
"""

from __future__ import annotations

from typing import Any

from stator.errors import NotFound
from stator.model.brief.doses import Dose
from stator.model.brief.envelope import notes_in
from stator.model.log.commit import Commit, Upsert
from stator.model.log.delta import Put
from stator.model.records.types import DeliveryRecord
from stator.model.views.why import words_of
from stator.runtime.base.context import Context
from stator.runtime.base.pages import commit_at
from stator.runtime.brief.doses import prompt_dose
from stator.runtime.views.as_read import as_read
from stator.store.port import StorePort

KIND = "prompt"
LOOKED = 50
"""Commits after the first prompt among which an answer or the text itself is looked for."""


def due(store: StorePort, context: Context, session: str) -> dict[str, Any] | None:
    """The fields of the commit with what bears on the session's first prompt; None if there is nothing, or that was
    done, or the model has answered before."""
    first = _first_prompt(store, session)
    if first is None:
        return None
    dose = prompt_dose(
        store, context, words_of(first, "input"), seen=as_read(store, context), own=session
    )
    if not dose:
        return None
    records = [DeliveryRecord(note=note.id, kind=KIND) for note in notes_in(dose.text)]
    return {
        "actor": "system",
        "output": dose.text,
        "changes": tuple(Upsert("deliveries", record) for record in records),
        "inputs": tuple(_sources(store, dose)),
    }


def _first_prompt(store: StorePort, session: str) -> Commit | None:
    """The commit of the first prompt, if the model has neither answered it nor received anything."""
    turns = store.turns(session, limit=1)
    if not turns:
        return None
    for commit in store.commits(session, after=turns[0].first, limit=LOOKED, load=False):
        if commit.kind == "entry" and commit.actor == "model":
            return None
        puts = [op.record for op in commit.delta if isinstance(op, Put)]
        if any(isinstance(one, DeliveryRecord) and one.kind == KIND for one in puts):
            return None
    return commit_at(store, session, turns[0].first)


def _sources(store: StorePort, dose: Dose) -> list[str]:
    """The commits that a dose quotes."""
    found: dict[str, None] = {}
    for line in dose.lines:
        if line.seq:
            try:
                found[commit_at(store, line.session, line.seq, load=False).id] = None
            except NotFound:  # it is true of the user, and in another store
                continue
    return list(found)
