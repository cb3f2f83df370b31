"""Ingest: sealed commits that come from another store."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from stator.errors import BrokenChain, Conflict, StatorError
from stator.model.delta import Put
from stator.model.state import FactRecord
from stator.store.contract.drive import Clock, Ids, Story, begin
from stator.store.contract.state import busy
from stator.store.memory import MemoryStore
from stator.store.port import Store


@pytest.fixture
def elsewhere() -> Iterator[Story]:
    """A session in another store, with a turn in which much happened."""
    with MemoryStore(clock=Clock()) as other:
        story = begin(other, ids=Ids("elsewhere")).drive()
        busy(story)
        yield story


class TestIngest:
    def test_an_ingested_session_is_the_same_session(self, store: Store, elsewhere: Story) -> None:
        """Commit by commit, and in everything made from them."""
        log = elsewhere.log
        assert store.ingest(log) == len(log)
        there, session = elsewhere.store, elsewhere.session
        assert store.commits(session) == log
        assert store.head(session) == there.head(session)
        assert store.turns(session) == there.turns(session)
        assert store.counts(session) == there.counts(session)
        assert store.session(session).record == there.session(session).record
        for name in ("facts", "files", "decisions", "calls", "tools", "session"):
            assert store.entries(session, name) == there.entries(session, name)

    def test_ingesting_again_adds_only_what_is_new(self, store: Store, elsewhere: Story) -> None:
        """A longer bundle of a session that is here continues it."""
        log = elsewhere.log
        assert store.ingest(log[:5]) == 5
        assert store.ingest(log[:5]) == 0
        assert store.ingest(log) == len(log) - 5
        assert store.ingest(log[3:]) == 0
        assert store.commits(elsewhere.session) == log

    def test_ingesting_nothing_is_nothing(self, store: Store) -> None:
        """And no error."""
        assert store.ingest([]) == 0

    def test_a_changed_commit_breaks_the_chain_and_nothing_is_written(
        self, store: Store, elsewhere: Story
    ) -> None:
        """The error names the first bad one."""
        log = elsewhere.log
        log[4] = msgspec.structs.replace(log[4], cause="changed")
        with pytest.raises(BrokenChain) as caught:
            store.ingest(log)
        assert caught.value.ids["commit"] == log[4].id
        with pytest.raises(StatorError):
            store.session(elsewhere.session)

    def test_records_are_read_from_what_the_hash_covers(
        self, store: Store, elsewhere: Story
    ) -> None:
        """Not from a delta beside it that somebody changed."""
        elsewhere.fact("x", 1)
        log = elsewhere.log
        op = log[-1].delta[0]
        assert isinstance(op, Put)
        lie = msgspec.structs.replace(op, record=FactRecord(name="x", value=2))
        store.ingest([*log[:-1], msgspec.structs.replace(log[-1], delta=[lie])])
        assert store.commits(elsewhere.session)[-1] == log[-1]

    def test_a_gap_is_refused(self, store: Store, elsewhere: Story) -> None:
        """They must continue what is there."""
        log = elsewhere.log
        store.ingest(log[:3])
        with pytest.raises(BrokenChain):
            store.ingest(log[4:])
        with pytest.raises(StatorError):
            begin(store, "other").store.ingest(log[4:])

    def test_a_log_that_went_another_way_is_refused(self, store: Store, elsewhere: Story) -> None:
        """Two that have diverged are not merged."""
        log = elsewhere.log
        store.ingest(log[:3])
        mine = Story(store, elsewhere.drafts)
        mine.drafts.epoch = 0
        mine.fact("mine")
        with pytest.raises(BrokenChain):
            store.ingest(log)
        assert len(mine.log) == 4

    def test_a_session_that_does_not_begin_is_refused(self, store: Store, elsewhere: Story) -> None:
        """Its open or fork commit comes first."""
        with pytest.raises(StatorError):
            store.ingest(elsewhere.log[1:])

    def test_commits_of_two_sessions_are_refused(self, store: Store, elsewhere: Story) -> None:
        """One session at a time; nothing is written."""
        other = begin(elsewhere.store, "other")
        with pytest.raises(StatorError):
            store.ingest([*elsewhere.log, *other.log])
        with pytest.raises(StatorError):
            store.session(elsewhere.session)

    def test_a_name_that_is_taken_is_a_conflict(self, store: Store, elsewhere: Story) -> None:
        """Ingest renames nothing by itself."""
        begin(store, "story", ids=Ids("here"))
        with pytest.raises(Conflict):
            store.ingest(elsewhere.log)

    def test_a_fork_is_ingested_after_its_parent(self, store: Store, elsewhere: Story) -> None:
        """Its own commits only; it then reads across the border."""
        fork = elsewhere.fork("fork")
        fork.fact("x")
        own = [c for c in fork.log if c.session == fork.session]
        with pytest.raises(StatorError):
            store.ingest(own)
        store.ingest(elsewhere.log)
        assert store.ingest(own) == 2
        assert store.commits(fork.session) == fork.log
        assert store.entries(fork.session, "files") == fork.store.entries(fork.session, "files")

    def test_a_fork_is_ingested_while_its_parent_is_written_to(
        self, store: Store, elsewhere: Story
    ) -> None:
        """What the parent appended a moment ago is part of the lineage."""
        store.ingest(elsewhere.log)
        here = Story(store, elsewhere.drafts)
        here.drafts.epoch = 0
        late = here.fact("late")
        elsewhere.store.ingest([late])
        fork = elsewhere.fork("fork")
        store.ingest([c for c in fork.log if c.session == fork.session])
        found = store.find(fork.session, "facts", "late")
        assert found is not None
        assert found.seq == late.seq

    def test_erased_content_is_ingested_as_erased(self, store: Store, elsewhere: Story) -> None:
        """And verifies."""
        elsewhere.erase(4)
        fact = elsewhere.fact("x")
        elsewhere.erase(fact.seq)
        log = elsewhere.log
        store.ingest(log)
        assert store.commits(elsewhere.session) == log
        assert list(store.audit()) == []

    def test_an_erased_change_of_the_session_itself_is_ingested(
        self, store: Store, elsewhere: Story
    ) -> None:
        """The row keeps what is still known."""
        pause = elsewhere.add(elsewhere.drafts.make("pause", cause="user"))
        elsewhere.erase(pause.seq)
        log = elsewhere.log
        assert store.ingest(log) == len(log)
        assert store.commits(elsewhere.session) == log

    def test_an_ingested_session_goes_on(self, store: Store, elsewhere: Story) -> None:
        """It is driven and its old ids are known."""
        draft = elsewhere.drafts.fact("known")
        elsewhere.add(draft)
        log = elsewhere.log
        store.ingest(log)
        here = Story(store, elsewhere.drafts)
        assert here.add(draft) == log[-1]
        here.drive()
        assert here.turn().turn == 2
        assert _facts(here) >= {"known"}


def _facts(story: Story) -> set[str]:
    return {entry.key for entry in story.store.entries(story.session, "facts")}
