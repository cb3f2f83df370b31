"""Ingest: sealed commits that come from another store."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from stator.errors import BrokenChain, Busy, Conflict, IdReused, StatorError
from stator.model.exchange.packed import pack
from stator.model.log import chain
from stator.model.log.commit import Commit, Gone
from stator.model.log.delta import Put
from stator.model.log.query import Holder, Lease, SessionQuery
from stator.model.records.types import FactRecord
from stator.store.contract.drive import Clock, Ids, Story, begin, counts, find, large_text
from stator.store.contract.state import busy
from stator.store.memory import MemoryStore
from stator.store.port import StorePort


@pytest.fixture
def elsewhere() -> Iterator[Story]:
    """A session in another store, with a turn of many kinds of commits."""
    with MemoryStore(clock=Clock()) as other:
        story = begin(other, ids=Ids("elsewhere")).drive()
        busy(story)
        yield story


class TestIngest:
    def test_an_ingested_session_gives_the_same_answers(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """The commits and everything derived from them are equal."""
        log = elsewhere.log
        assert store.ingest(log) == len(log)
        there, session = elsewhere.store, elsewhere.session
        assert store.commits(session) == log
        assert store.head(session) == there.head(session)
        assert store.turns(session) == there.turns(session)
        assert counts(store, session) == counts(there, session)
        assert store.session(session).record == there.session(session).record
        for name in ("facts", "files", "decisions", "calls", "tools", "session"):
            assert store.entries(session, name) == there.entries(session, name)

    def test_ingesting_again_adds_only_what_is_new(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """A longer log of an existing session extends it."""
        log = elsewhere.log
        assert store.ingest(log[:5]) == 5
        assert store.ingest(log[:5]) == 0
        assert store.ingest(log) == len(log) - 5
        assert store.ingest(log[3:]) == 0
        assert store.commits(elsewhere.session) == log

    def test_packed_commits_are_those_of_the_log(self, store: StorePort, elsewhere: Story) -> None:
        elsewhere.entry(large_text())
        elsewhere.erase(3)
        store.ingest(elsewhere.log)
        session, log = elsewhere.session, store.commits(elsewhere.session)
        assert store.packed(session) == [pack(commit) for commit in log]
        assert store.packed(session, after=2, upto=7, limit=3) == [pack(c) for c in log[2:5]]

    def test_ingesting_no_commits_changes_nothing(self, store: StorePort) -> None:
        """It is not an error."""
        assert store.ingest([]) == 0

    def test_a_changed_commit_breaks_the_chain_and_nothing_is_written(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """The error names the first bad one."""
        log = elsewhere.log
        log[4] = msgspec.structs.replace(log[4], cause="changed")
        with pytest.raises(BrokenChain) as caught:
            store.ingest(log)
        assert caught.value.ids["commit"] == log[4].id
        with pytest.raises(StatorError):
            store.session(elsewhere.session)

    def test_records_are_read_from_the_hashed_content(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """A changed delta beside the content is ignored."""
        elsewhere.fact("x", 1)
        log = elsewhere.log
        op = log[-1].delta[0]
        assert isinstance(op, Put)
        lie = msgspec.structs.replace(op, record=FactRecord(name="x", value=2))
        store.ingest([*log[:-1], msgspec.structs.replace(log[-1], delta=[lie])])
        assert store.commits(elsewhere.session)[-1] == log[-1]

    def test_a_gap_is_refused(self, store: StorePort, elsewhere: Story) -> None:
        """Ingested commits must continue the existing log."""
        log = elsewhere.log
        store.ingest(log[:3])
        with pytest.raises(BrokenChain):
            store.ingest(log[4:])
        with pytest.raises(StatorError):
            begin(store, "other").store.ingest(log[4:])

    def test_a_diverged_log_is_refused(self, store: StorePort, elsewhere: Story) -> None:
        """Diverged logs are not merged."""
        log = elsewhere.log
        store.ingest(log[:3])
        mine = Story(store, elsewhere.drafts)
        mine.drafts.epoch = 0
        mine.fact("mine")
        with pytest.raises(BrokenChain):
            store.ingest(log)
        assert len(mine.log) == 4

    def test_a_log_without_its_first_commit_is_refused(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Its open or fork commit comes first."""
        with pytest.raises(StatorError):
            store.ingest(elsewhere.log[1:])

    def test_several_sessions_can_be_ingested_in_one_call(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """A fork directly follows its parent."""
        fork = elsewhere.fork("fork")
        fork.fact("x")
        log = elsewhere.log
        assert store.ingest(iter([*log, *fork.log[len(log) :]])) == len(log) + 2
        assert store.commits(fork.session) == fork.log
        assert list(store.audit()) == []

    def test_several_sessions_are_ingested_together_or_not_at_all(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Everything before the first bad commit is undone, also in an existing session."""
        log = elsewhere.log
        store.ingest(log[:5])
        other = begin(elsewhere.store, "other")
        other.fact("x")
        bad = msgspec.structs.replace(other.log[1], cause="changed")
        with pytest.raises(BrokenChain):
            store.ingest([*log, other.log[0], bad])
        assert store.commits(elsewhere.session) == log[:5]
        with pytest.raises(StatorError):
            store.session(other.session)
        assert store.ingest([*log, *other.log]) == len(log) - 5 + 2

    def test_an_error_while_reading_commits_leaves_nothing(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """It is handled like a bad commit."""

        def broken() -> Iterator[Commit]:
            yield from elsewhere.log[:6]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.ingest(broken())
        with pytest.raises(StatorError):
            store.session(elsewhere.session)
        assert store.ingest(elsewhere.log) == len(elsewhere.log)

    def test_a_commit_id_used_by_another_session_is_refused(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """A commit is found by its id, so each id exists once."""
        store.ingest(elsewhere.log)
        with MemoryStore(clock=Clock()) as third:
            copy = begin(third, "copy", ids=Ids("copy"))
            draft = elsewhere.drafts.fact("x")
            copy.add(msgspec.structs.replace(draft, session=copy.session, epoch=0))
            elsewhere.add(draft)
            store.ingest(elsewhere.log)
            with pytest.raises(IdReused):
                store.ingest(copy.log)

    def test_an_ingested_session_is_found_in_its_new_project(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Its log and head are those of the source, also after a second ingest."""
        log, session = elsewhere.log, elsewhere.session
        store.ingest(log[:5], projects={session: "/here"})
        store.ingest(log)
        assert store.session(session).record.project == "/here"
        assert store.head(session) == elsewhere.store.head(session)
        assert [r.id for r in store.sessions(SessionQuery(project="/here")).rows] == [session]
        assert store.sessions(SessionQuery(project=elsewhere.row.record.project)).rows == []
        store.rebuild()
        assert store.session(session).record.project == "/here"
        assert list(store.audit()) == []
        here = Story(store, elsewhere.drafts).drive()
        assert here.row.record.project == "/here"
        assert here.fork("fork").row.record.project == "/here"

    def test_two_sessions_with_one_name_can_be_ingested_into_two_projects(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Only the same name in the same project is a conflict."""
        begin(store, "story", ids=Ids("here"))
        store.ingest(elsewhere.log, projects={elsewhere.session: "/other"})
        assert len(store.sessions(SessionQuery(name="story")).rows) == 2

    def test_an_ingested_erasure_erases_local_content(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """In all earlier commits, both records and texts."""
        elsewhere.entry(large_text())
        fact = elsewhere.fact("x", "private")
        store.ingest(elsewhere.log)
        elsewhere.erase(fact.seq - 1)
        elsewhere.erase(fact.seq)
        store.ingest(elsewhere.log)
        assert store.commits(elsewhere.session) == elsewhere.log
        assert counts(store, elsewhere.session) == counts(elsewhere.store, elsewhere.session)
        assert find(store, elsewhere.session, "facts", "x") is None
        assert list(store.audit()) == []

    def test_content_erased_locally_is_not_restored_by_an_ingest(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """The ingested copy is from before the erasure."""
        log = elsewhere.log
        store.ingest(log)
        here = Story(store, elsewhere.drafts)
        here.drafts.epoch = 0
        here.erase(4)
        assert store.ingest(log) == 0
        assert isinstance(store.commits(elsewhere.session)[3].content["input"], Gone)

    def test_content_missing_from_an_ingest_is_kept_locally(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Missing content is not erased content."""
        log = elsewhere.log
        store.ingest(log)
        bare = [chain.without(commit, set(commit.content), 0) for commit in log[1:]]
        assert store.ingest([log[0], *bare]) == 0
        assert store.commits(elsewhere.session) == log

    def test_ingesting_a_session_with_a_used_name_is_a_conflict(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Ingest renames nothing by itself."""
        begin(store, "story", ids=Ids("here"))
        with pytest.raises(Conflict):
            store.ingest(elsewhere.log)

    def test_a_fork_is_ingested_after_its_parent(self, store: StorePort, elsewhere: Story) -> None:
        """Only its own commits are ingested; it reads the others from its parent."""
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
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Recent commits of the parent are part of the lineage."""
        store.ingest(elsewhere.log)
        elsewhere.store.release(Lease(elsewhere.session, elsewhere.drafts.epoch))
        here = Story(store, elsewhere.drafts)
        here.drafts.epoch = 0
        late = here.fact("late")
        elsewhere.store.ingest([late])
        fork = elsewhere.fork("fork")
        store.ingest([c for c in fork.log if c.session == fork.session])
        found = find(store, fork.session, "facts", "late")
        assert found is not None
        assert found.seq == late.seq

    def test_a_driven_session_cannot_be_extended_by_an_ingest(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        log = elsewhere.log
        store.ingest(log[:-1])
        lease = store.acquire(elsewhere.session, Holder(epoch=0, program="agent.py"))
        with pytest.raises(Busy, match=r"agent\.py"):
            store.ingest(log)
        assert store.ingest(log[:-1]) == 0
        store.release(lease)
        assert store.ingest(log) == 1

    def test_erased_content_is_ingested_as_erased(self, store: StorePort, elsewhere: Story) -> None:
        """The log verifies."""
        elsewhere.erase(4)
        fact = elsewhere.fact("x")
        elsewhere.erase(fact.seq)
        log = elsewhere.log
        store.ingest(log)
        assert store.commits(elsewhere.session) == log
        assert list(store.audit()) == []

    def test_an_erased_change_of_the_session_record_is_ingested(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """The row keeps the fields that are not erased."""
        pause = elsewhere.add(elsewhere.drafts.make("pause", cause="user"))
        elsewhere.erase(pause.seq)
        log = elsewhere.log
        assert store.ingest(log) == len(log)
        assert store.commits(elsewhere.session) == log

    def test_an_ingested_session_can_be_driven(self, store: StorePort, elsewhere: Story) -> None:
        """Its earlier commit ids are recognised."""
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
