"""Forks: a session that continues another's log by reference."""

from __future__ import annotations

import msgspec
import pytest

from stator.errors import NotFound, StatorError
from stator.model.log import chain
from stator.model.log.commit import Upsert
from stator.model.records.types import (
    ApprovalRecord,
    CallRecord,
    FactRecord,
    Parent,
    Segment,
    SessionRecord,
)
from stator.store.contract.drive import Drafts, Ids, Story, begin
from stator.store.port import StorePort


def facts(story: Story, at: int | None = None) -> dict[str, object]:
    found: dict[str, object] = {}
    for entry in story.store.entries(story.session, "facts", at=at):
        assert isinstance(entry.record, FactRecord)
        found[entry.record.name] = entry.record.value
    return found


class TestFork:
    def test_a_fork_continues_the_seqs_and_the_chain(self, story: Story) -> None:
        """The fork's first commit follows the parent's at the fork point."""
        point = story.fact("x")
        story.fact("y")
        fork = story.fork("fork", point.seq)
        first = fork.log[-1]
        assert (first.kind, first.seq, first.prev) == ("fork", point.seq + 1, point.hash)

    def test_the_log_of_a_fork_is_its_lineage_and_its_own_commits(self, story: Story) -> None:
        """Later commits of the parent are not in it."""
        point = story.fact("x")
        story.fact("y")
        fork = story.fork("fork", point.seq)
        fork.fact("z")
        assert [c.seq for c in fork.log] == [1, 2, 3, 4, 5]
        assert fork.log[:3] == story.log[:3]
        assert fork.log[3].session == fork.session

    def test_the_state_of_a_new_fork_is_that_of_the_fork_point(self, story: Story) -> None:
        """Later changes on either side do not reach the other."""
        story.fact("x", 1)
        point = story.fact("y", 1)
        fork = story.fork("fork", point.seq)
        story.fact("x", 2)
        fork.fact("y", 3)
        assert facts(fork) == {"x": 1, "y": 3}
        assert facts(story) == {"x": 2, "y": 1}

    def test_a_fork_has_the_earlier_states_of_its_parent(self, story: Story) -> None:
        """The state at a seq before the fork point is read from the parent."""
        one = story.fact("x", 1)
        story.fact("x", 2)
        fork = story.fork("fork")
        fork.fact("x", 3)
        assert facts(fork, one.seq) == {"x": 1}

    def test_a_record_keeps_its_id_in_a_fork(self, story: Story) -> None:
        """Its `was` names the seq in the parent's log."""
        one = story.fact("x", 1)
        fork = story.fork("fork")
        (op,) = fork.fact("x", 2).delta
        assert (op.id, op.was) == (one.delta[0].id, one.seq)

    def test_a_fork_can_drop_an_inherited_record(self, story: Story) -> None:
        """The parent keeps it."""
        story.fact("x", 1)
        fork = story.fork("fork")
        fork.add(fork.drafts.forget("x"))
        assert facts(fork) == {}
        assert facts(story) == {"x": 1}

    def test_a_fork_can_be_forked(self, story: Story) -> None:
        """Each fork sees only its own lineage."""
        story.fact("x", 1)
        fork = story.fork("fork")
        fork.fact("x", 2)
        second = fork.fork("second")
        second.fact("x", 3)
        fork.fact("x", 4)
        sixth = second.fork("sixth")
        assert [facts(s)["x"] for s in (story, fork, second, sixth)] == [1, 4, 3, 3]
        assert [c.seq for c in sixth.log] == list(range(1, len(sixth.log) + 1))

    def test_a_fork_point_before_the_parents_own_fork_is_in_the_grandparent(
        self, story: Story
    ) -> None:
        """Such a fork continues the grandparent's log."""
        story.fact("x", 1)
        story.fact("x", 2)
        fork = story.fork("fork")
        fork.fact("x", 3)
        early = fork.fork("early", 3)
        assert facts(early) == {"x": 1}
        assert [c.session for c in early.log] == [story.session] * 3 + [early.session]

    def test_a_fork_starts_without_approvals_and_spend(self, story: Story) -> None:
        """Its inherited open calls are marked as elsewhere."""
        story.add(story.drafts.make("approval", Upsert("approvals", ApprovalRecord(tool="pay"))))
        story.entry("x", usage={"tokens": 5})
        story.call("pay")
        fork = story.fork("fork")
        assert story.store.entries(fork.session, "approvals") == []
        assert story.store.entries(fork.session, "spend") == []
        (call,) = story.store.entries(fork.session, "calls")
        assert isinstance(call.record, CallRecord)
        assert call.record.elsewhere
        assert len(story.store.entries(story.session, "approvals")) == 1

    def test_a_fork_continues_the_turn_numbers(self, story: Story) -> None:
        """Even from within a turn, which the fork can end."""
        story.turn()
        story.turn_end()
        story.turn()
        fork = story.fork("fork").drive()
        assert story.store.head(fork.session).turn_open
        fork.turn_end("interrupted")
        assert fork.turn().turn == 3

    def test_a_fork_of_an_ended_turn_has_no_open_turn(self, story: Story) -> None:
        """Even if the turn got more commits after its end, and after the fork."""
        story.turn()
        story.turn_end()
        point = story.fact("x")
        story.fact("y")
        fork = story.fork("fork", point.seq).drive()
        assert not story.store.head(fork.session).turn_open
        assert story.store.turns(fork.session)[0].status == "ok"
        assert fork.turn().turn == 2

    def test_the_row_of_a_fork_names_its_parent(self, story: Story) -> None:
        """Session, seq, hash and kind."""
        head = story.store.head(story.session)
        fork = story.fork("fork")
        assert fork.row.record.parent == Parent(
            session=story.session, seq=head.seq, hash=head.hash, kind="fork"
        )

    def test_a_fork_of_a_missing_parent_is_not_found(self, story: Story) -> None:
        """Its parent must be in the store."""
        nobody = SessionRecord(id=Ids("nobody")("session"), name="nobody")
        drafts = Drafts(Ids("x"), Ids("x")("session"))
        with pytest.raises(NotFound):
            story.store.create([drafts.fork("fork", nobody, story.log[-1])])

    def test_a_fork_that_does_not_follow_its_parent_is_refused(self, story: Story) -> None:
        """With a wrong hash, a missing seq or a gap in its lineage, nothing is created."""
        last = story.log[-1]
        wrong = msgspec.structs.replace(last, hash=chain.GENESIS)
        beyond = msgspec.structs.replace(last, seq=last.seq + 5)
        for commit in (wrong, beyond):
            drafts = Drafts(Ids("x"), Ids("x")("session"))
            with pytest.raises(StatorError):
                story.store.create([drafts.fork("fork", story.row.record, commit)])
        hole = [Segment(session=story.session, after=1, upto=last.seq)]
        drafts = Drafts(Ids("x"), Ids("x")("session"))
        draft = drafts.fork("fork", story.row.record, last)
        (change,) = draft.changes
        assert isinstance(change, Upsert)
        record = msgspec.structs.replace(change.record, lineage=hole)
        with pytest.raises(StatorError):
            story.store.create(
                [msgspec.structs.replace(draft, changes=(Upsert("session", record),))]
            )
        with pytest.raises(NotFound):
            story.store.session(drafts.session)

    def test_a_child_has_a_parent_and_its_own_log(self, store: StorePort) -> None:
        """Only a session with a lineage reads the commits of its parent."""
        story = begin(store)
        parent = Parent(session=story.session, seq=1, hash=story.log[0].hash, kind="child")
        child = begin(store, "child", parent=parent)
        assert [c.seq for c in child.log] == [1]
        assert child.log[0].prev == chain.GENESIS
