"""Logs of releases before 0.8 are continued: never reordered, and what they lack is appended."""

from __future__ import annotations

import msgspec
import pytest

import stator
from stator.model.exchange.item_commits import Drafter, DraftingState
from stator.model.exchange.items import Answered, Called, Conversation, Prompted, Returned
from stator.model.log.commit import Draft
from stator.model.records.types import SessionRecord
from stator.runtime.base.first_commit import opening
from stator.runtime.facade.view import SessionView
from stator.runtime.ingest.recorder import Recorder

TALK = Conversation(source="claude-code", id="9d4f", name="write hello")
FIRST = [
    Prompted(id="p1", at=10, content="write hello"),
    Answered(id="m1", at=20, reply="I will"),
    Called(id="t1", at=30, tool="Write", input={}),
]
RESULT = Returned(id="t1", at=40, output="done")
NEXT = [Prompted(id="p2", at=50, content="go on"), Answered(id="m2", at=60, reply="so")]


@pytest.fixture(params=["memory:", "file"])
def store(request, tmp_path):
    url = "memory:" if request.param == "memory:" else tmp_path / "a.db"
    with stator.connect(url, project="demo") as opened:
        yield opened


def drafts_of(items):
    drafter = Drafter(TALK.session, TALK.source, DraftingState(), via="hook")
    return [draft for item in items for draft in drafter.draft(item)]


def written_by_07(store, drafts):
    """A session as 0.7 recorded it: nothing says what ordered it."""
    record = SessionRecord(
        id=TALK.session, name=TALK.name, agent=TALK.source, mode="recorded", project="demo",
        aliases=[[TALK.source, TALK.id]], created=1,
    )  # fmt: skip
    store.port.create([opening(store.context, record), *drafts])


def guessed(draft: Draft, status: str) -> Draft:
    """The outcome that 0.7 wrote for a call where an import ended."""
    made: Draft = drafts_of([*FIRST, RESULT])[-1]
    return msgspec.structs.replace(
        made, actor="system", status=status, cause="no result was recorded", output=msgspec.UNSET
    )


def read_again(store, items):
    recorder = Recorder(store.port, store.context, TALK)
    for item in items:
        recorder.take(item)
    recorder.flush()
    return SessionView(store.port, recorder.session)


def kinds(view):
    return [commit.kind for commit in view.log()]


def test_what_the_log_lacks_is_appended(store):
    written_by_07(store, drafts_of(FIRST))
    view = read_again(store, [*FIRST, RESULT, *NEXT])
    assert kinds(view) == ["open", "turn", "entry", "call", "outcome", "turn_end", "turn", "entry"]


def test_nothing_is_appended_twice(store):
    written_by_07(store, drafts_of([*FIRST, RESULT, *NEXT]))
    before = kinds(SessionView(store.port, TALK.session))
    assert kinds(read_again(store, [*FIRST, RESULT, *NEXT])) == before


@pytest.mark.parametrize("status", ["in doubt", "cancelled"])
def test_a_result_settles_what_was_a_guess(store, status):
    call = drafts_of(FIRST)
    written_by_07(store, [*call, guessed(call[-1], status)])
    view = read_again(store, [*FIRST, RESULT])
    assert kinds(view)[-1] == "settlement"
    assert [one.status for one in view.calls()] == ["ok"]
    assert kinds(read_again(store, [*FIRST, RESULT])).count("settlement") == 1


def test_a_turn_that_only_the_log_has_ends_before_the_next_one(store):
    """Up to 0.7, the report of a sub-agent could become a turn."""
    extra = Prompted(id="p-extra", at=45, content="<task-notification>")
    written_by_07(store, drafts_of([*FIRST, RESULT, extra]))
    view = read_again(store, [*FIRST, RESULT, *NEXT])
    assert [c.turn for c in view.log() if c.kind == "turn"] == [1, 2, 3]
    assert [c.turn for c in view.log() if c.kind == "turn_end"] == [1, 2]


def test_the_log_verifies_and_stays_as_it_was(store):
    written_by_07(store, drafts_of(FIRST))
    before = [(c.seq, c.hash) for c in SessionView(store.port, TALK.session).log()]
    view = read_again(store, [*FIRST, RESULT, *NEXT])
    assert [(c.seq, c.hash) for c in view.log()][: len(before)] == before
    assert list(store.port.audit()) == []


def test_it_is_not_described_as_one_of_this_release(store):
    written_by_07(store, drafts_of(FIRST))
    view = read_again(store, [*FIRST, RESULT, *NEXT])
    assert (view.record.orderer, view.record.mapper) == ("", "")
    assert "describe" not in kinds(view)
