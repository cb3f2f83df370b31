"""Reads from a store which checks the plan of a session names, for rules that did not see all of its commits.

Other processes may add steps to a plan, and a driver that opens a session has seen nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction.checks import CHECKS_MAX, named_check
from stator.model.extraction.extractor import Extractor
from stator.model.log.commit import Draft
from stator.model.records.types import CheckRecord, Entry, Record
from stator.runtime.base.one_answer import one_answer
from stator.runtime.base.pages import commit_at, commits_at
from stator.store.port import StorePort


def learn(store: StorePort, extractor: Extractor) -> list[Draft]:
    """Have the rules remember the checks of a session that they do not know; the drafts of what they find."""
    drafts: list[Draft] = []
    store, session = one_answer(store), extractor.session
    named = [one for one in store.entries(session, "checks", "plan") if named_check(one.record)]
    commits_at(store, session, {one.seq for one in named if _is_new(one.record, extractor.state)})
    for entry in _unknown(store, session, extractor.state):
        drafts += extractor.found_in(commit_at(store, extractor.session, entry.seq))
    return [draft for draft in drafts if not store.locate(draft.id, extractor.session)]


def _unknown(store: StorePort, session: str, state: ExtractionState) -> Iterator[Entry]:
    # Every run of a check that has a record is looked for, or that record would grow old unnoticed.
    for entry in store.entries(session, "checks"):
        check = entry.record
        if isinstance(check, CheckRecord) and check.ended != "unknown" and _is_new(check, state):
            yield entry
    for entry in store.entries(session, "plan"):
        if len(state.checks) < CHECKS_MAX and _is_new(entry.record, state):
            yield entry


def _is_new(record: Record, state: ExtractionState) -> bool:
    check = named_check(record)
    return bool(check) and check not in state.checks
