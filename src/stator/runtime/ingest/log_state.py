"""Works out from a log what drafting must remember, for a source that cannot be read again: hooks or a proxy."""

from __future__ import annotations

from stator.model.exchange.item_commits import DraftingState, UnsettledCall, step_digest
from stator.model.exchange.items import text_id
from stator.model.exchange.settings import fingerprint
from stator.model.records.types import CallRecord, PlanRecord, SettingRecord
from stator.model.values import canon
from stator.runtime.base.pages import commit_at
from stator.store.port import StorePort

SHOWN = ("turn", "entry", "call", "outcome")
"""Kinds of commits that an agent sees."""
VIEWED = 200
"""The newest commits from which what an agent sees is taken up."""


def state_of_log(store: StorePort, session: str) -> DraftingState:
    """How drafting stands after a log, for a source that cannot be read again: hooks or a proxy."""
    state = DraftingState(turn_open=store.head(session).turn_open)
    turns = store.turns(session, newest_first=True, limit=1)
    if turns:
        first = commit_at(store, session, turns[0].first, load=False)
        state.prompt = first.origin[1] if first.origin else ""
        state.begun = [state.prompt]
    for entry in store.entries(session, "calls"):
        commit, record = commit_at(store, session, entry.seq, load=False), entry.record
        if commit.origin is None or not isinstance(record, CallRecord):
            continue
        state.calls[commit.origin[1]] = UnsettledCall(
            record.call, record.tool, record.effect, record.status == "in doubt",
            record.since, record.attempt, commit.id,
        )  # fmt: skip
    state.plan = {
        text_id(entry.record.step): step_digest(entry.record)
        for entry in store.entries(session, "plan")
        if isinstance(entry.record, PlanRecord)
    }
    state.settings = {
        entry.record.name: fingerprint(canon.from_plain(entry.record.value))
        for entry in store.entries(session, "settings")
        if isinstance(entry.record, SettingRecord)
    }
    page = store.commits(session, newest_first=True, limit=VIEWED, load=False)
    shown = [commit for commit in page if commit.kind in SHOWN]
    answers = [commit.id for commit in shown if commit.actor == "model"]
    if shown:
        state.first, state.last = shown[-1].id, shown[0].id
        state.answer = answers[0] if answers else ""
    return state
