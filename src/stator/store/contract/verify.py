"""Verifying: the chain is valid, and every projection agrees with the log."""

from __future__ import annotations

from stator.model.log import chain
from stator.model.records.tables import COLLECTIONS
from stator.store.contract.drive import Clock, Ids, Story, begin, counts, salts, still
from stator.store.contract.erasure import must_verify
from stator.store.contract.fixtures import MakeStore
from stator.store.contract.state import busy
from stator.store.port import StorePort


def answers(store: StorePort, session: str) -> list[object]:
    """Every answer of a store about a session."""
    head = store.head(session)
    return [
        head,
        store.commits(session),
        store.turns(session),
        counts(store, session),
        still(store.session(session)),
        store.versions(session, after=0, upto=head.seq),
        *(store.entries(session, name) for name in COLLECTIONS),
        *(store.entries(session, name, at=head.seq // 2) for name in COLLECTIONS),
        store.touches("files", "1.py", session=session),
    ]


class TestVerify:
    def test_the_chain_is_valid_from_the_first_commit_to_the_head(self, story: Story) -> None:
        """Also across a fork point."""
        busy(story)
        fork = story.fork("fork").drive()
        busy(fork)
        must_verify(story.log)
        must_verify(fork.log)

    def test_the_head_is_the_last_commit(self, story: Story) -> None:
        """Its seq and its hash."""
        last = story.fact("x")
        head = story.store.head(story.session)
        assert (head.seq, head.hash) == (last.seq, last.hash)

    def test_the_first_commit_has_no_predecessor(self, story: Story) -> None:
        """Its prev is all zeros."""
        assert story.log[0].prev == chain.GENESIS

    def test_a_valid_store_has_no_findings(self, story: Story) -> None:
        """For every kind of history."""
        busy(story)
        busy(story.fork("fork").drive())
        assert list(story.store.audit()) == []

    def test_a_rebuild_changes_no_answer(self, story: Story) -> None:
        """Projections are caches."""
        busy(story)
        fork = story.fork("fork").drive()
        busy(fork)
        before = [answers(story.store, s.session) for s in (story, fork)]
        story.store.rebuild()
        assert [answers(story.store, s.session) for s in (story, fork)] == before
        assert list(story.store.audit()) == []

    def test_reading_changes_nothing(self, story: Story) -> None:
        """Asking twice gives the same answers."""
        busy(story)
        assert answers(story.store, story.session) == answers(story.store, story.session)

    def test_a_session_continues_after_a_rebuild(self, story: Story) -> None:
        """It keeps its lease."""
        story.turn()
        story.store.rebuild()
        story.turn_end()
        assert story.turn().turn == 2

    def test_the_same_clock_ids_and_salts_make_the_same_hashes(self, make_store: MakeStore) -> None:
        """Sealing is a pure function of its inputs."""
        store = make_store(clock=Clock(), salts=salts("a"))
        try:
            story = begin(store, ids=Ids("same")).drive()
            busy(story)
            assert story.log[-1].hash == HASH
        finally:
            store.close()


HASH = "44f3dff3ced651a9b922670ab12afba6bde3602db05fd570a63f8e1cfc1e59ee"
"""The last hash of that story: a change of it is a change of the format."""
