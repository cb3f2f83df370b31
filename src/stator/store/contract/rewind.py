"""Rewinds: records are restored as they were, under their own ids."""

from __future__ import annotations

from typing import Any

import pytest

from stator.errors import BadDelta, InvalidInput, LeaseLost
from stator.model.log.commit import (
    Change,
    Commit,
    Reset,
    Upsert,
)
from stator.model.records.types import FactRecord, TagRecord
from stator.store.contract.drive import Story, find


def rewind(story: Story, *changes: Change) -> Commit:
    return story.add(story.drafts.make("rewind", *changes, inputs=(1, 2)))


def values(story: Story, at: int | None = None) -> dict[str, object]:
    found = story.store.entries(story.session, "facts", at=at)
    return {entry.key: getattr(entry.record, "value", None) for entry in found}


class TestRewind:
    def test_a_rewind_restores_a_changed_record(self, story: Story) -> None:
        """It keeps its id, and the op names the version it replaced."""
        one, two = story.fact("x", 1), story.fact("x", 2)
        (put,) = one.delta
        done = rewind(story, Reset("facts", put.id, "x", FactRecord(name="x", value=1)))
        assert values(story) == {"x": 1}
        assert [(op.id, op.was) for op in done.delta] == [(put.id, two.seq)]

    def test_a_rewind_removes_a_newer_record(self, story: Story) -> None:
        """The record still exists at earlier seqs."""
        made = story.fact("x", 1)
        rewind(story, Reset("facts", made.delta[0].id, "x"))
        assert values(story) == {}
        assert values(story, made.seq) == {"x": 1}

    def test_a_rewind_restores_a_dropped_record_under_its_id(self, story: Story) -> None:
        """The id stays unique, and the record is found by its key and its id."""
        made = story.fact("x", 1)
        dropped = story.add(story.drafts.forget("x"))
        rewind(story, Reset("facts", made.delta[0].id, "x", FactRecord(name="x", value=1)))
        entry = find(story.store, story.session, "facts", "x")
        assert entry is not None
        assert entry.id == made.delta[0].id
        assert values(story, dropped.seq) == {}

    def test_a_rewind_restores_a_superseded_decision(self, story: Story) -> None:
        """The one that superseded it is removed first."""
        old, new = story.decision("a", "auth"), story.decision("b", "auth")
        put = old.delta[-1]
        record = getattr(put, "record", None)
        rewind(
            story,
            Reset("decisions", new.delta[-1].id, "auth"),
            Reset("decisions", put.id, "auth", record),
        )
        (entry,) = story.store.entries(story.session, "decisions")
        assert (entry.id, entry.key, entry.record) == (put.id, "auth", record)

    def test_a_change_after_a_rewind_builds_on_it(self, story: Story) -> None:
        """A later change replaces what the rewind put."""
        one = story.fact("x", 1)
        story.fact("x", 2)
        done = rewind(story, Reset("facts", one.delta[0].id, "x", FactRecord(name="x", value=1)))
        (op,) = story.fact("x", 3).delta
        assert (op.id, op.was) == (one.delta[0].id, done.seq)

    def test_a_fork_of_a_rewound_session_has_the_rewound_state(self, story: Story) -> None:
        """A fork from before the rewind has the state from before it."""
        made = story.fact("x", 1)
        rewind(story, Reset("facts", made.delta[0].id, "x"))
        assert values(story.fork("after")) == {}
        assert values(story.fork("before", made.seq)) == {"x": 1}

    def test_erasing_a_record_erases_the_copy_a_rewind_restored(self, story: Story) -> None:
        """Every put of the record is erased, in any commit."""
        one = story.fact("x", "marker")
        story.fact("x", 2)
        put = one.delta[0]
        rewind(story, Reset("facts", put.id, "x", FactRecord(name="x", value="marker")))
        story.add(story.drafts.erase_record("facts", put.id))
        assert "marker" not in repr(story.log)

    def test_a_rewind_needs_the_lease(self, story: Story) -> None:
        """It is not a contribution."""
        made = story.fact("x", 1)
        story.drafts.epoch = 0
        with pytest.raises(LeaseLost):
            rewind(story, Reset("facts", made.delta[0].id, "x"))

    def test_a_rewind_with_other_changes_is_refused(self, story: Story) -> None:
        """It cannot reset history collections or missing records either."""
        fact = FactRecord(name="x", value=1)
        tag = TagRecord(name="x", hash="", seq=1)
        with pytest.raises(InvalidInput):
            rewind(story, Upsert("facts", fact))
        with pytest.raises(InvalidInput):
            rewind(story, Reset("tags", "t", "x", tag))
        with pytest.raises(BadDelta):
            rewind(story, Reset("facts", "nobody", "x"))

    def test_projections_agree_with_the_log_after_a_rewind(self, story: Story) -> None:
        """They also agree after a rebuild."""
        one = story.fact("x", 1)
        story.add(story.drafts.forget("x"))
        rewind(story, Reset("facts", one.delta[0].id, "x", FactRecord(name="x", value=1)))
        for _ in range(2):
            assert values(story) == {"x": 1}
            assert list(story.store.audit()) == []
            story.store.rebuild()


def go_back(story: Story, to: int) -> Commit:
    """A rewind with its tag."""
    head = story.log[-1]
    name = f"rewind/{head.seq}"
    tag = TagRecord(name=name, hash=head.hash, seq=head.seq)
    story.add(story.drafts.make("tag", Upsert("tags", tag)))
    return story.add(story.drafts.make("rewind", inputs=(to, head.seq)))


class TestRewoundTurns:
    def three_turns(self, story: Story) -> tuple[list[Commit], Commit]:
        """Three turns, of which the second and the third were rewound, and one after them."""
        ends = []
        for name in "abc":
            story.turn()
            story.fact(name)
            ends.append(story.turn_end())
        back = go_back(story, ends[0].seq)
        story.turn()
        story.turn_end()
        return ends, back

    def test_rewinds_are_found_by_their_tags(self, story: Story) -> None:
        """Those up to a seq; a rewind without its tag is none."""
        _, back = self.three_turns(story)
        rewind(story)
        fork = story.fork("fork").drive()
        for _ in range(2):
            for one in (story, fork):
                found = story.store.commits(one.session, rewinds=True)
                assert [commit.seq for commit in found] == [back.seq]
                assert story.store.commits(one.session, rewinds=True, upto=back.seq - 1) == []
                both = story.store.commits(one.session, rewinds=True, seqs=[2])
                assert [commit.seq for commit in both] == [2, back.seq]
            story.store.rebuild()

    def test_a_turn_ends_before_the_rewind_that_followed_it(self, story: Story) -> None:
        """Nor is the tag of the rewind part of it."""
        ends, back = self.three_turns(story)
        for _ in range(2):
            rows = story.store.turns(story.session, ends=True)
            assert [row.end for row in rows[:3]] == [commit.seq for commit in ends]
            assert (rows[2].last, rows[3].end) == (back.seq, rows[3].last)
            assert {row.end for row in story.store.turns(story.session)} == {0}
            story.store.rebuild()

    def test_standing_turns_are_those_that_were_not_rewound(self, story: Story) -> None:
        """The limit holds for what is found, from either end."""
        self.three_turns(story)
        turns = story.store.turns

        def standing(**fields: Any) -> list[int]:
            return [row.turn for row in turns(story.session, standing=True, **fields)]

        for _ in range(2):
            assert standing() == [1, 4]
            assert standing(newest_first=True, limit=2, ends=True) == [4, 1]
            assert standing(newest_first=True, limit=1) == [4]
            assert standing(after=1, upto=3) == []
            story.store.rebuild()
