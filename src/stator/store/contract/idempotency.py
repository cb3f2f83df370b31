"""Idempotency: a repeated append is recorded once."""

from __future__ import annotations

import msgspec
import pytest

from stator.errors import IdReused, NotFound
from stator.model.log.commit import Draft, Provenance, Upsert
from stator.model.log.query import Holder
from stator.model.records.types import FactRecord
from stator.model.values import canon
from stator.store.contract.drive import Drafts, Ids, Story, begin
from stator.store.port import StorePort


def twice(story: Story, draft: Draft) -> None:
    """Append a draft, then something else, then the draft again: the answer must be the same."""
    first = story.add(draft)
    story.entry("something else")
    length = len(story.log)
    assert story.add(draft) == first
    assert len(story.log) == length


class TestIdempotency:
    def test_appending_a_commit_again_returns_it(self, story: Story) -> None:
        """The log does not grow."""
        twice(story, story.drafts.fact("x", 1))

    def test_a_repeated_append_is_recognised_after_the_state_changed(self, story: Story) -> None:
        """A superseded decision, a changed fact and a settled call are recognised."""
        drafts = [
            story.drafts.decision("a", "topic"),
            story.drafts.decision("b", "topic"),
            story.drafts.fact("x", 1),
            story.drafts.fact("x", 2),
            story.drafts.file("a.py", "created", after="d1"),
            story.drafts.file("b.py", "renamed", from_path="a.py"),
        ]
        call = story.drafts.call("pay")
        drafts += [call, story.drafts.in_doubt(call), story.drafts.settle(call)]
        commits = [story.add(draft) for draft in drafts]
        assert [story.add(draft) for draft in drafts] == commits

    def test_a_repeated_append_returns_known_drafts_and_adds_the_rest(self, story: Story) -> None:
        """Known drafts return their commits, the rest is appended."""
        a, b, c = (story.drafts.fact(name) for name in "abc")
        first = story.store.append(story.session, [a, b])
        again = story.store.append(story.session, [a, b, c])
        assert again[:2] == first
        assert again[2].seq == first[1].seq + 1

    def test_a_draft_repeated_in_one_append_is_recorded_once(self, story: Story) -> None:
        """Both results are the same commit."""
        draft = story.drafts.fact("a")
        one, two = story.store.append(story.session, [draft, draft])
        assert one == two

    @pytest.mark.parametrize(
        "other",
        [
            {"actor": "user"},
            {"why": "another"},
            {"input": 2},
            {"principal": "me"},
            {"cause": "x"},
            {"tool": "x"},
            {"trace": "x"},
            {"happened": 12345},
            {"provenance": Provenance("web", "unverified")},
            {"usage": {"tokens": 1}},
            {"inputs": (1,)},
            {"changes": (Upsert("facts", FactRecord(name="x", value=2)),)},
            {"changes": ()},
            {"kind": "preference"},
        ],
        ids=lambda other: "-".join(other),
    )
    def test_the_same_id_with_another_body_is_an_error(
        self, story: Story, other: dict[str, object]
    ) -> None:
        """This holds for every field that the caller sets."""
        draft = story.drafts.fact("x", 1, input=1)
        story.add(draft)
        with pytest.raises(IdReused):
            story.add(msgspec.structs.replace(draft, **other))

    def test_a_commit_id_cannot_be_reused_in_another_session(self, store: StorePort) -> None:
        """Even if it was used a moment ago."""
        a, b = begin(store, "a"), begin(store, "b")
        draft = a.drafts.fact("x")
        a.add(draft)
        with pytest.raises(IdReused):
            b.add(msgspec.structs.replace(draft, session=b.session))

    def test_a_fork_cannot_reuse_a_commit_id_of_its_parent(self, story: Story) -> None:
        """It names a commit the fork cannot see."""
        fork = story.fork("fork")
        draft = story.drafts.fact("x")
        story.add(draft)
        fork.fact("y")
        with pytest.raises(IdReused):
            fork.add(msgspec.structs.replace(draft, session=fork.session, epoch=0))

    def test_an_event_seen_by_two_recorders_is_recorded_once(self, story: Story) -> None:
        """With the same kind, origin and attempt, the first commit is returned even if the body differs."""
        first = story.entry("as the hook saw it", origin=("claude", "msg_1"))
        again = story.entry("as the transcript has it", origin=("claude", "msg_1"))
        assert again == first

    def test_a_value_recorded_twice_under_one_origin_is_unchanged(self, story: Story) -> None:
        """What JSON cannot express is tagged once; recording it again gives the same bytes."""
        draft = story.drafts.fact("ratio", 0.5, origin=("mcp", "1"))
        twice(story, draft)
        record = story.store.entries(story.session, "facts")[0].record
        assert isinstance(record, FactRecord)
        assert canon.from_plain(record.value) == 0.5

    def test_a_different_kind_attempt_source_or_origin_id_is_a_separate_commit(
        self, story: Story
    ) -> None:
        """All four identify the commit."""
        story.entry("a", origin=("claude", "1"))
        seqs = {
            story.entry("a", origin=("claude", "2")).seq,
            story.entry("a", origin=("codex", "1")).seq,
            story.entry("a", origin=("claude", "1"), attempt=2).seq,
            story.fact("a", origin=("claude", "1")).seq,
        }
        assert len(seqs) == 4

    def test_an_origin_is_per_session(self, store: StorePort) -> None:
        """Two sessions can record the same event."""
        a, b = (begin(store, name, mode="recorded") for name in "ab")
        a.entry("x", origin=("claude", "1"))
        assert b.entry("x", origin=("claude", "1")).session == b.session

    def test_a_fork_recognises_origins_recorded_by_its_lineage(self, story: Story) -> None:
        """Only up to the fork point."""
        before = story.entry("a", origin=("claude", "1"))
        fork = story.fork("fork").drive()
        story.entry("b", origin=("claude", "2"))
        assert fork.entry("a", origin=("claude", "1")) == before
        assert fork.entry("b", origin=("claude", "2")).session == fork.session

    def test_a_fenced_driver_can_still_confirm_its_earlier_append(self, story: Story) -> None:
        """Repeating a recorded append returns it; only new commits are refused."""
        draft = story.drafts.turn()
        first = story.add(draft)
        story.store.acquire(story.session, Holder(epoch=0), take=True)
        assert story.add(draft) == first

    def test_a_draft_repeated_in_one_creation_is_recorded_once(self, store: StorePort) -> None:
        """By its id, and by its origin under another id; as often as it comes."""
        drafts = Drafts(Ids("new"), Ids("new")("session"))
        opening = drafts.open("new", mode="recorded")
        fact = drafts.fact("a", origin=("claude", "1"))
        other = drafts.fact("a", origin=("claude", "1"))
        store.create([opening, fact, fact, drafts.fact("b"), other, fact])
        assert [commit.kind for commit in store.commits(drafts.session)] == ["open", "fact", "fact"]

    def test_an_id_with_two_bodies_in_one_creation_is_refused(self, store: StorePort) -> None:
        """Nothing is created."""
        drafts = Drafts(Ids("new"), Ids("new")("session"))
        opening, fact = drafts.open("new", mode="recorded"), drafts.fact("a")
        other = msgspec.structs.replace(drafts.fact("b"), id=fact.id)
        with pytest.raises(IdReused):
            store.create([opening, fact, other])
        with pytest.raises(NotFound):
            store.session(drafts.session)

    def test_creating_again_with_another_commit_id_changes_nothing(self, store: StorePort) -> None:
        """The name identifies the session."""
        story = begin(store)
        story.store.create([story.drafts.open("story")])
        assert len(story.log) == 1
        assert Ids("story")("session") == story.session
