"""The lease: one driver, many contributors."""

from __future__ import annotations

import pytest

from stator.errors import Busy, LeaseLost, NotFound, WrongState
from stator.model.log.query import Holder
from stator.model.sessions.lifecycle import AFTER_CLOSE
from stator.store.contract.drive import Drafts, Ids, Story, begin
from stator.store.port import StorePort

SOMEONE = Holder(epoch=0, program="someone", host="here", pid=7)


class TestLease:
    def test_a_driver_needs_the_lease(self, store: StorePort) -> None:
        """A turn without one is refused, and nothing is written."""
        story = begin(store)
        with pytest.raises(LeaseLost):
            story.turn()
        assert len(story.log) == 1

    def test_a_contribution_needs_no_lease(self, store: StorePort) -> None:
        """A decision is appended to a session that another process drives."""
        story = begin(store).drive()
        guest = Drafts(Ids("guest"), story.session)
        store.append(story.session, [guest.decision("use JWT", "auth")])
        story.turn()
        assert len(store.entries(story.session, "decisions")) == 1

    def test_a_recorded_session_has_no_driver(self, store: StorePort) -> None:
        """Hooks and importers append turns without a lease."""
        story = begin(store, mode="recorded")
        assert story.turn().turn == 1

    def test_epochs_grow_over_the_whole_store(self, store: StorePort) -> None:
        """No two leases have the same epoch."""
        a, b = begin(store, "a"), begin(store, "b")
        epochs = []
        for story in (a, b, a):
            lease = store.acquire(story.session, SOMEONE)
            store.release(lease)
            epochs.append(lease.epoch)
        assert epochs == sorted(set(epochs))

    def test_the_row_names_a_live_holder(self, store: StorePort) -> None:
        """Until the lease is released."""
        story = begin(store)
        lease = store.acquire(story.session, SOMEONE)
        holder = story.row.holder
        assert holder is not None
        assert (holder.program, holder.live, holder.epoch) == ("someone", True, lease.epoch)
        store.release(lease)
        assert story.row.holder is None

    def test_acquiring_a_held_lease_is_busy(self, store: StorePort) -> None:
        """The error names the holder."""
        story = begin(store)
        store.acquire(story.session, SOMEONE)
        with pytest.raises(Busy) as caught:
            store.acquire(story.session, SOMEONE)
        assert caught.value.holder.program == "someone"

    def test_taking_the_lease_fences_the_previous_driver(self, store: StorePort) -> None:
        """Its next append is refused; the new lease names the displaced driver."""
        story = begin(store).drive("first")
        lease = store.acquire(story.session, SOMEONE, take=True)
        assert lease.displaced is not None
        assert lease.displaced.program == "first"
        with pytest.raises(LeaseLost):
            story.turn()

    def test_a_lease_is_taken_over_from_the_driver_that_was_seen_to_be_silent(
        self, store: StorePort
    ) -> None:
        """That one is fenced, and the new lease names it."""
        story = begin(store).drive("first")
        lease = store.acquire(story.session, SOMEONE, over=story.drafts.epoch)
        assert lease.displaced is not None
        assert lease.displaced.program == "first"
        with pytest.raises(LeaseLost):
            story.turn()

    def test_a_lease_is_not_taken_over_from_another_driver_than_the_silent_one(
        self, store: StorePort
    ) -> None:
        """Of two that saw it silent, the first takes over."""
        story = begin(store).drive("first")
        silent = story.drafts.epoch
        store.acquire(story.session, SOMEONE, over=silent)
        with pytest.raises(Busy):
            store.acquire(story.session, SOMEONE, over=silent)

    def test_a_fenced_driver_cannot_contribute(self, store: StorePort) -> None:
        """A commit that names an epoch must come from its holder."""
        story = begin(store).drive()
        store.acquire(story.session, SOMEONE, take=True)
        with pytest.raises(LeaseLost):
            story.fact("x")

    def test_releasing_a_displaced_lease_keeps_the_new_one(self, store: StorePort) -> None:
        """The new driver continues."""
        story = begin(store)
        old = store.acquire(story.session, SOMEONE)
        story.drafts.epoch = store.acquire(story.session, SOMEONE, take=True).epoch
        store.release(old)
        assert story.turn().turn == 1
        assert story.row.holder is not None

    def test_a_released_lease_can_no_longer_drive(self, store: StorePort) -> None:
        """Even while no other driver holds it."""
        story = begin(store)
        lease = store.acquire(story.session, SOMEONE)
        story.drafts.epoch = lease.epoch
        story.turn()
        store.release(lease)
        with pytest.raises(LeaseLost):
            story.turn_end()

    def test_releasing_twice_is_harmless(self, store: StorePort) -> None:
        """The second time does nothing."""
        story = begin(store)
        lease = store.acquire(story.session, SOMEONE)
        store.release(lease)
        store.release(lease)
        assert store.acquire(story.session, SOMEONE).displaced is None

    def test_acquiring_the_lease_of_a_missing_session_is_not_found(self, store: StorePort) -> None:
        """The error is NotFound."""
        with pytest.raises(NotFound):
            store.acquire(Ids("nobody")("session"), SOMEONE)

    def test_an_active_session_without_a_driver_shows_as_interrupted(
        self, store: StorePort
    ) -> None:
        """Its status is still active."""
        story = begin(store)
        lease = store.acquire(story.session, SOMEONE)
        story.drafts.epoch = lease.epoch
        story.add(story.drafts.run())
        assert story.row.shown == "active"
        store.release(lease)
        assert (story.row.record.status, story.row.shown) == ("active", "interrupted")


class TestLifecycle:
    def test_a_closed_session_refuses_turns(self, story: Story) -> None:
        """It also refuses facts but accepts a score."""
        story.add(story.drafts.make("close", cause="done"))
        for draft in (story.drafts.turn(), story.drafts.fact("x")):
            with pytest.raises(WrongState):
                story.add(draft)
        assert story.add(story.drafts.make("score")).kind == "score"

    def test_resuming_a_closed_session_makes_it_active(self, story: Story) -> None:
        """It accepts turns again."""
        story.add(story.drafts.make("close", cause="done"))
        story.add(story.drafts.make("resume"))
        assert story.row.record.status == "active"
        assert story.turn().turn == 1

    def test_an_archived_session_cannot_be_resumed(self, story: Story) -> None:
        """The error is WrongState."""
        story.add(story.drafts.make("close"), story.drafts.make("archive"))
        with pytest.raises(WrongState):
            story.add(story.drafts.make("resume"))

    @pytest.mark.parametrize("ending", [("close",), ("close", "archive")])
    def test_what_a_witness_saw_is_recorded_after_close(
        self, store: StorePort, ending: tuple[str, ...]
    ) -> None:
        """With a cause that says so; the session keeps its status, also if the agent ended or began."""
        story = begin(store, mode="recorded")
        intent = story.call("pay", origin=("hook", "c1"))
        story.add(*(story.drafts.make(kind) for kind in ending))
        status = story.row.record.status
        seen = [story.outcome(intent, origin=("hook", "c1"))]
        seen.append(story.turn("more", origin=("hook", "p2")))
        seen.append(story.add(story.drafts.make("pause", cause="user", origin=("hook", "end"))))
        seen.append(story.add(story.drafts.make("run", origin=("hook", "start"))))
        assert [commit.cause for commit in seen] == [
            AFTER_CLOSE, AFTER_CLOSE, f"{AFTER_CLOSE}: user", AFTER_CLOSE,
        ]  # fmt: skip
        assert (story.row.record.status, story.store.entries(story.session, "calls")) == (
            status,
            [],
        )

    def test_what_a_witness_saw_lands_once_before_and_after_close(self, store: StorePort) -> None:
        """Reported again after close, it is the commit from before."""
        story = begin(store, mode="recorded")
        before = story.entry("a", origin=("hook", "1"))
        story.add(story.drafts.make("close"))
        assert story.entry("a", origin=("hook", "1")) == before
        after = story.entry("b", origin=("hook", "2"))
        story.add(story.drafts.make("resume"))
        assert story.entry("b", origin=("hook", "2")) == after

    def test_an_archived_session_stays_archived_when_its_agent_starts_again(
        self, store: StorePort
    ) -> None:
        """The start is on record, the status is the same."""
        story = begin(store, mode="recorded")
        story.add(story.drafts.make("close"), story.drafts.make("archive"))
        seen = story.add(story.drafts.make("resume", origin=("hook", "again")))
        assert (seen.cause, story.row.record.status) == (AFTER_CLOSE, "archived")

    @pytest.mark.parametrize("kind", ["fact", "turn", "call"])
    def test_an_origin_lets_nobody_write_to_a_driven_session_that_is_closed(
        self, store: StorePort, kind: str
    ) -> None:
        """A driver sets one too, so there it proves nothing."""
        story = begin(store).drive()
        story.add(story.drafts.make("close", cause="done"))
        for epoch in (story.drafts.epoch, 0):
            story.drafts.epoch = epoch
            with pytest.raises((WrongState, LeaseLost)):
                story.add(story.drafts.make(kind, origin=("hook", "1")))
        assert story.log[-1].kind == "close"

    def test_the_session_record_has_the_reason_of_its_end(self, story: Story) -> None:
        """Both in the row and in the state."""
        story.add(story.drafts.make("pause", cause="budget"))
        (entry,) = story.store.entries(story.session, "session")
        assert entry.record == story.row.record
        assert (story.row.record.status, story.row.record.reason) == ("paused", "budget")
