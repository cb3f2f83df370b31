"""Erasure removes content and keeps the chain."""

from __future__ import annotations

import pytest

from stator.errors import BadDelta, Erased, NotFound, StatorError
from stator.model.log import chain
from stator.model.log.commit import Commit, Erase, Gone
from stator.model.log.query import Lease
from stator.model.records.types import ErasedRecord
from stator.store.contract.drive import Story, counts, find
from stator.store.contract.fixtures import Capabilities, MakeStore, skip_unless_durable

NEEDLE = "f00dfeed5eed"


def must_verify(log: list[Commit]) -> None:
    prev = chain.GENESIS
    for n, commit in enumerate(log):
        assert chain.check(commit, prev, n + 1) is None
        prev = commit.hash


class TestErasure:
    def test_an_erased_field_is_gone_and_names_its_erasure(self, story: Story) -> None:
        """Reading it is a typed error that names the erasure."""
        target = story.entry(NEEDLE, why="stays")
        by = story.erase(target.seq, "output")
        found = story.log[target.seq - 1]
        assert isinstance(found.content["output"], Gone)
        assert found.content["output"].by == by.seq
        assert found.value("why") == "stays"
        with pytest.raises(Erased):
            found.value("output")
        assert NEEDLE not in repr(story.log)

    def test_erasing_an_output_erases_its_summary(self, story: Story) -> None:
        """A long output has a summary, which quotes it."""
        call = story.call("sh", "ls")
        story.outcome(call, NEEDLE * 300)
        assert "output_summary" in story.log[call.seq].content
        story.erase(call.seq + 1, "output")
        assert NEEDLE not in repr(story.log)
        must_verify(story.log)

    def test_the_chain_verifies_after_any_erasure(self, story: Story) -> None:
        """Of fields, of whole commits, of records, and twice."""
        call = story.call("sh", NEEDLE)
        story.outcome(call, NEEDLE * 30)
        fact = story.fact("x", NEEDLE)
        story.fact("x", 2)
        story.erase(call.seq, "input")
        story.erase(call.seq + 1)
        story.erase(call.seq + 1)
        story.add(story.drafts.erase_record("facts", fact.delta[0].id))
        assert NEEDLE not in repr(story.log)
        must_verify(story.log)

    def test_erasing_without_a_field_erases_all_content_of_a_commit(self, story: Story) -> None:
        """The salts are erased too."""
        target = story.fact("x", NEEDLE, why=NEEDLE, principal="me")
        story.erase(target.seq)
        found = story.log[target.seq - 1]
        assert all(isinstance(item, Gone) for item in found.content.values())
        assert found.salts == {}
        assert found.hash == target.hash

    def test_an_erased_record_is_erased_in_the_state(self, story: Story) -> None:
        """Every version of it is erased, and no key finds it."""
        identifier = story.fact(NEEDLE, 1).delta[0].id
        story.fact(NEEDLE, 2)
        by = story.add(story.drafts.erase_record("facts", identifier))
        store, session = story.store, story.session
        (entry,) = store.entries(session, "facts")
        assert entry.record == ErasedRecord(erased=by.seq)
        assert find(store, session, "facts", NEEDLE) is None
        assert store.touches("facts", NEEDLE) == []
        found = store.versions(session, after=0, upto=by.seq, collections=["facts"])
        assert NEEDLE not in repr(found)

    def test_erasing_the_newest_version_does_not_restore_the_previous_one(
        self, story: Story
    ) -> None:
        """The record is shown as erased."""
        story.fact("x", 1)
        target = story.fact("x", 2)
        story.erase(target.seq)
        assert find(story.store, story.session, "facts", "x") is None
        (entry,) = story.store.entries(story.session, "facts")
        assert isinstance(entry.record, ErasedRecord)

    def test_erasing_an_old_version_keeps_the_newest(self, story: Story) -> None:
        """It is still found by its key."""
        target = story.fact("x", 1)
        story.fact("x", 2)
        story.erase(target.seq)
        entry = find(story.store, story.session, "facts", "x")
        assert entry is not None
        assert getattr(entry.record, "value", None) == 2

    def test_a_draft_after_an_erasure_in_the_same_append_sees_the_erased_state(
        self, story: Story
    ) -> None:
        """The record under that key is a new one."""
        old = story.fact("x", 1).delta[0].id
        again = story.add(story.drafts.erase_record("facts", old), story.drafts.fact("x", 2))
        assert (again.delta[0].id != old, again.delta[0].was) == (True, 0)

    def test_erasing_a_dropped_record_erases_its_key(self, story: Story) -> None:
        """The drop no longer names the key."""
        identifier = story.fact(NEEDLE).delta[0].id
        story.add(story.drafts.forget(NEEDLE))
        story.add(story.drafts.erase_record("facts", identifier))
        found = story.store.versions(story.session, after=0, upto=99)
        assert NEEDLE not in repr(found)
        assert story.store.touches("facts", NEEDLE) == []

    def test_content_erased_in_the_parent_is_gone_in_the_fork(self, story: Story) -> None:
        """From the fork's log, state, drops and later commits."""
        story.fact("dropped" + NEEDLE)
        kept = story.fact(NEEDLE, 1)
        fork = story.fork("fork")
        fork.add(fork.drafts.forget("dropped" + NEEDLE))
        fork.fact("other")
        story.erase(kept.seq - 1)
        story.erase(kept.seq)
        store, session = story.store, fork.session
        assert NEEDLE not in repr(fork.log)
        assert NEEDLE not in repr(store.versions(session, after=0, upto=99))
        assert store.touches("facts", "dropped" + NEEDLE) == []
        assert find(store, session, "facts", NEEDLE) is None
        assert fork.fact(NEEDLE, 2).delta[0].id != kept.delta[0].id
        must_verify(fork.log)

    def test_a_key_erased_in_the_parent_is_not_indexed_later_by_the_fork(
        self, story: Story
    ) -> None:
        """A recent drop in the fork is indexed without the key."""
        kept = story.fact(NEEDLE, 1)
        fork = story.fork("fork")
        fork.add(fork.drafts.forget(NEEDLE))
        story.erase(kept.seq)
        fork.drive()
        story.store.release(Lease(fork.session, fork.drafts.epoch))
        assert story.store.touches("facts", NEEDLE) == []
        assert list(story.store.audit()) == []

    def test_a_fork_cannot_erase_what_its_parent_wrote(self, story: Story) -> None:
        """Only the session that wrote a commit can erase it."""
        target = story.fact("x")
        fork = story.fork("fork")
        for draft in (
            fork.drafts.erase(target.seq),
            fork.drafts.erase_record("facts", target.delta[0].id),
        ):
            with pytest.raises(BadDelta):
                fork.add(draft)

    def test_erasing_missing_content_is_an_error_and_changes_nothing(self, story: Story) -> None:
        """A later seq, a missing field, a record that was never put, or no target."""
        story.fact("x")
        length = len(story.log)
        with pytest.raises(NotFound):
            story.erase(99)
        with pytest.raises(NotFound):
            story.add(story.drafts.erase_record("facts", "nobody"))
        with pytest.raises(BadDelta):
            story.erase(1, "nonsense")
        for wish in (Erase(), Erase(seq=-1), Erase(collection="nonsense", id="x")):
            with pytest.raises(StatorError):
                story.add(story.drafts.make("erasure", wish))
        assert len(story.log) == length

    def test_counts_exclude_erased_content(self, story: Story) -> None:
        """Before and after a rebuild."""
        target = story.entry("x" * 1000)
        before = counts(story.store, story.session).content_bytes
        story.erase(target.seq, "output")
        after = counts(story.store, story.session)
        assert after.content_bytes < before - 900
        story.store.rebuild()
        assert counts(story.store, story.session) == after

    def test_erasing_one_of_two_equal_large_items_keeps_the_other(self, story: Story) -> None:
        """In one commit, and in two."""
        text = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(20_000))
        both = story.add(story.drafts.make("entry", input=text, output=text))
        other = story.entry(text)
        story.erase(both.seq, "input")
        assert story.log[both.seq - 1].value("output") == text
        story.erase(both.seq, "output")
        assert story.log[other.seq - 1].value("output") == text

    def test_a_session_works_after_the_content_of_its_first_commit_was_erased(
        self, story: Story
    ) -> None:
        """Its redaction key and its record are content; erasing them must not break it."""
        story.erase(1, "key")
        story.turn()
        story.turn_end()
        assert story.row.head == len(story.log)
        must_verify(story.log)

    def test_the_record_of_a_session_cannot_be_erased(self, story: Story) -> None:
        """Finding, driving and ending the session depend on it."""
        story.erase(1)
        for wish in (Erase(seq=1, fields=("put0",)), Erase(collection="session", id="x")):
            with pytest.raises(StatorError):
                story.add(story.drafts.make("erasure", wish))
        head = story.add(story.drafts.make("pause"))
        story.erase(head.seq)
        assert story.row.record.status == "paused"
        assert story.add(story.drafts.make("resume")).seq == head.seq + 2
        must_verify(story.log)

    def test_the_store_verifies_after_an_erasure(self, story: Story) -> None:
        """Its projections agree with the log."""
        target = story.fact("x", 1)
        story.fact("x", 2)
        story.add(story.drafts.forget("x"))
        story.erase(target.seq)
        story.erase(target.seq)
        assert list(story.store.audit()) == []

    def test_erased_content_stays_erased_after_reopening(
        self, story: Story, make_store: MakeStore, capabilities: Capabilities
    ) -> None:
        """A rebuild does not restore it."""
        skip_unless_durable(capabilities)
        target = story.fact(NEEDLE, 1)
        story.erase(target.seq)
        other = make_store()
        try:
            other.rebuild()
            assert NEEDLE not in repr(other.commits(story.session))
            assert find(other, story.session, "facts", NEEDLE) is None
        finally:
            other.close()
