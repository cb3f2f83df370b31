"""Lost answers: a write that is asked again with the same ids is answered as if it had been asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from stator.errors import Busy, HeadMoved, LeaseLost, StoreUnreachable
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.query import Holder, Lease
from stator.store.contract.distance.faulty_store import FaultPlan, When, faulty
from stator.store.contract.drive import Drafts, Ids, Story, begin
from stator.store.port import StorePort

Answer = TypeVar("Answer")
WHEN: tuple[When, ...] = ("before", "after", "late")
US = Holder(epoch=0, program="us", run=Ids("us")("run"))


def asked(store: StorePort, when: When, ask: Callable[[StorePort], Answer]) -> Answer:
    """The answer to a question that was asked twice, because the first answer was lost."""
    connection = faulty(store, FaultPlan(at=1, when=when))
    with pytest.raises(StoreUnreachable):
        ask(connection)
    return ask(connection)


@pytest.mark.parametrize("when", WHEN)
class TestLostAnswers:
    def test_an_append_asked_again_lands_once(self, story: Story, when: When) -> None:
        """All of its drafts, in order, with the same commits."""
        drafts = [story.drafts.turn(), story.drafts.fact("x"), story.drafts.turn_end()]
        commits = asked(story.store, when, lambda s: s.append(story.session, drafts))
        assert [commit.id for commit in commits] == [draft.id for draft in drafts]
        assert story.log[-3:] == commits
        assert [commit.kind for commit in story.log].count("turn") == 1

    def test_an_append_with_if_head_asked_again_does_not_find_its_own_commit_in_the_way(
        self, story: Story, when: When
    ) -> None:
        """Only another writer's commit moves the head."""
        head = story.store.head(story.session).hash
        draft = story.drafts.fact("x")
        asked(story.store, when, lambda s: s.append(story.session, [draft], if_head=head))
        with pytest.raises(HeadMoved):
            story.store.append(story.session, [story.drafts.fact("y")], if_head=head)

    def test_the_commit_that_closes_a_session_can_be_asked_again(
        self, story: Story, when: When
    ) -> None:
        """Its own lifecycle change does not refuse it."""
        draft = story.drafts.make("close", cause="done")
        asked(story.store, when, lambda s: s.append(story.session, [draft]))
        assert [commit.kind for commit in story.log].count("close") == 1

    def test_an_intent_asked_again_together_with_its_end_is_one_call(
        self, story: Story, when: When
    ) -> None:
        """That is what a driver sends that did not run the tool."""
        story.turn()
        intent = story.drafts.call("pay")
        end = story.drafts.outcome(intent, status="cancelled")
        connection = faulty(story.store, FaultPlan(at=1, when=when))
        with pytest.raises(StoreUnreachable):
            connection.append(story.session, [intent])
        connection.append(story.session, [intent, end])
        kinds = [commit.kind for commit in story.log]
        assert (kinds.count("call"), kinds.count("outcome")) == (1, 1)

    def test_an_append_with_a_bookmark_asked_again_keeps_one_of_them(
        self, store: StorePort, when: When
    ) -> None:
        """Where it landed, the reader is sent back to the bookmark that is there: it is its own."""
        story = begin(store, mode="recorded")
        draft = story.drafts.entry("a", origin=("hook", "1"))
        mark = Bookmark(name="log", number=1, value={"offset": 10})
        try:
            asked(store, when, lambda s: s.append(story.session, [draft], bookmark=mark))
        except HeadMoved:
            assert when != "before"
        found = store.bookmark(story.session, "log")
        assert found is not None
        assert (found.number, len(story.log)) == (1, 2)

    def test_a_session_created_again_is_the_same_session(
        self, store: StorePort, when: When
    ) -> None:
        """With one first commit."""
        drafts = Drafts(Ids("new"), Ids("new")("session"))
        opening = drafts.open("new")
        row, _ = asked(store, when, lambda s: s.create([opening]))
        assert row.id == drafts.session
        assert len(store.commits(row.id)) == 1

    def test_a_lease_whose_answer_was_lost_shows_in_the_row(
        self, store: StorePort, when: When
    ) -> None:
        """With the name that its holder gave, so that it is known whose it is; given back, it is free."""
        story = begin(store)
        connection = faulty(store, FaultPlan(at=1, when=when))
        with pytest.raises(StoreUnreachable):
            connection.acquire(story.session, US)
        try:
            lease = connection.acquire(story.session, US)
        except Busy as busy:
            ours = busy.holder if busy.holder.run == US.run else Holder(epoch=0)
            connection.release(Lease(story.session, ours.epoch))
            lease = connection.acquire(story.session, US)
        story.drafts.epoch = lease.epoch
        assert story.turn().turn == 1

    def test_a_lease_released_again_is_free(self, store: StorePort, when: When) -> None:
        """A release that arrives late does not end the lease that came after it."""
        story = begin(store)
        first = store.acquire(story.session, US)
        connection = faulty(store, FaultPlan(at=1, when=when))
        with pytest.raises(StoreUnreachable):
            connection.release(first)
        connection.release(first)
        story.drafts.epoch = store.acquire(story.session, US).epoch
        connection.release(first)
        assert story.turn().turn == 1

    def test_commits_ingested_again_are_there_once(
        self, store: StorePort, elsewhere: Story, when: When
    ) -> None:
        """And in order."""
        log = elsewhere.log
        asked(store, when, lambda s: s.ingest(log))
        assert store.commits(elsewhere.session) == log

    def test_an_append_that_was_fenced_before_it_arrived_lands_never(
        self, story: Story, when: When
    ) -> None:
        """Asked again after another driver took the lease, it is answered only if it landed before."""
        draft = story.drafts.turn()
        connection = faulty(story.store, FaultPlan(at=1, when=when))
        with pytest.raises(StoreUnreachable):
            connection.append(story.session, [draft])
        story.store.acquire(story.session, US, take=True)
        if when == "after":
            assert connection.append(story.session, [draft])[0].id == draft.id
        else:
            with pytest.raises(LeaseLost):
                connection.append(story.session, [draft])

    def test_a_read_without_an_answer_changes_nothing(self, story: Story, when: When) -> None:
        """It can be asked again."""
        plan = FaultPlan(at=1, when=when, methods=frozenset({"commits"}))
        connection, log = faulty(story.store, plan), story.log
        with pytest.raises(StoreUnreachable):
            connection.commits(story.session)
        assert connection.commits(story.session) == log
