"""Inputs: the commits that a draft was made from, named by seq, by id, or as a range of ids."""

from __future__ import annotations

import msgspec
import pytest

from stator.errors import IdReused, InvalidInput
from stator.model.log.commit import Draft, Named
from stator.model.values.ids import retype
from stator.store.contract.drive import Story, begin
from stator.store.port import StorePort


def sealed(story: Story, *inputs: Named) -> list[int | str]:
    """The inputs of a new commit, as the log holds them."""
    made = story.fact("made of these", inputs=inputs)
    assert story.store.commits(story.session, newest_first=True, limit=1) == [made]
    return made.inputs


class TestInputs:
    def test_an_id_becomes_a_seq(self, story: Story) -> None:
        """Of a commit of the same session."""
        first, second = story.fact("a"), story.fact("b")
        assert sealed(story, second.id, first.id) == [second.seq, first.seq]

    def test_a_call_and_a_turn_are_named_by_their_own_ids(self, story: Story) -> None:
        """They have the digits of the commit that began them."""
        turn = story.turn()
        call = story.call()
        assert sealed(story, call.call, retype(turn.id, "turn")) == [call.seq, turn.seq]

    def test_a_pair_of_ids_becomes_a_range(self, story: Story) -> None:
        """Its end is a negative seq, and its ends are in order."""
        first = story.turn()
        story.fact("a")
        last = story.entry("b")
        assert sealed(story, (first.id, last.id)) == [first.seq, -last.seq]
        assert sealed(story, (last.id, first.id)) == [first.seq, -last.seq]

    def test_a_range_of_one_commit_is_that_commit(self, story: Story) -> None:
        """One number is enough for it."""
        only = story.turn()
        assert sealed(story, (only.id, only.id)) == [only.seq]

    def test_seqs_are_kept_as_given(self, story: Story) -> None:
        """Ranges of seqs too."""
        story.fact("a")
        story.fact("b")
        assert sealed(story, 3, 1, -2) == [3, 1, -2]

    def test_an_id_that_is_not_here_stays_text(self, store: StorePort) -> None:
        """Also one of another session, and a pair of which one end is missing."""
        story, other = begin(store, "a"), begin(store, "b")
        mine, theirs = story.fact("a"), other.fact("x")
        later = story.drafts.ids("commit")
        assert sealed(story, later, theirs.id) == [later, theirs.id]
        assert sealed(story, (mine.id, later)) == [mine.id, later]
        assert sealed(story, "not an id") == ["not an id"]

    def test_drafts_of_one_append_may_name_each_other(self, story: Story) -> None:
        """The earlier one has its seq when the later one is sealed."""
        a = story.drafts.fact("a")
        b = story.drafts.fact("b")
        made = story.add(a, b, story.drafts.entry("c", inputs=((a.id, b.id),)))
        assert made.inputs == [made.seq - 2, -(made.seq - 1)]

    def test_a_fork_names_commits_of_its_lineage(self, story: Story) -> None:
        """Up to the fork point; later ones of the parent are elsewhere."""
        before = story.fact("a")
        fork = story.fork("fork")
        after = story.fact("b")
        assert sealed(fork, before.id, after.id) == [before.seq, after.id]

    def test_an_id_is_found_however_long_ago_it_was(self, story: Story) -> None:
        """More commits than any store leaves without an index."""
        first = story.fact("first")
        for n in range(4):
            story.add(*(story.drafts.fact(f"f{n}.{m}") for m in range(100)))
        assert sealed(story, first.id) == [first.seq]

    def test_nothing_is_made_from_what_comes_later(self, story: Story) -> None:
        """A seq that is not there yet is refused, also as the end of a range."""
        head = story.log[-1].seq
        for inputs in ((head + 1,), (1, -(head + 1)), (2**52,)):
            with pytest.raises(InvalidInput):
                story.entry("x", inputs=inputs)
        assert story.log[-1].seq == head

    @pytest.mark.parametrize(
        "inputs", [(-2,), (2, -1), (1, -2, -3), ("x", -2), (("a",),), (("a", 1),), (1.5,)]
    )
    def test_what_is_no_input_is_refused(self, story: Story, inputs: tuple[Named, ...]) -> None:
        """A range has a beginning before its end; a pair holds two texts."""
        story.fact("a")
        story.fact("b")
        with pytest.raises(InvalidInput):
            story.entry("x", inputs=inputs)

    def test_a_draft_that_names_ids_is_recognised_when_it_comes_again(self, story: Story) -> None:
        """Also if an id it names has arrived since: what counts is what was there then."""
        a, b = story.fact("a"), story.fact("b")
        later = story.drafts.fact("later")
        draft: Draft = story.drafts.entry("c", inputs=((a.id, b.id), later.id, a.id))
        first = story.add(draft)
        story.add(later)
        assert story.add(draft) == first
        assert first.inputs == [a.seq, -b.seq, later.id, a.seq]

    def test_a_draft_that_names_other_commits_is_another_draft(self, story: Story) -> None:
        """The same id with other inputs is refused."""
        a, b = story.fact("a"), story.fact("b")
        draft = story.drafts.entry("c", inputs=(a.id,))
        story.add(draft)
        with pytest.raises(IdReused):
            story.add(msgspec.structs.replace(draft, inputs=(b.id,)))
