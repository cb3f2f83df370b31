"""Turns: numbered from one, one open at a time."""

from __future__ import annotations

from typing import Any

import pytest

from stator.errors import BadTurn
from stator.model.log import turn_keys
from stator.model.log.commit import Erase
from stator.model.log.query import TurnRow
from stator.model.values import canon
from stator.store.contract.drive import Story, counts, large_text


class TestTurns:
    def test_turns_are_numbered_from_one(self, story: Story) -> None:
        """Commits before the first turn belong to no turn."""
        assert story.fact("a").turn == 0
        assert story.turn().turn == 1
        assert story.fact("b").turn == 1
        story.turn_end()
        assert story.turn().turn == 2

    def test_a_second_turn_is_refused_while_the_first_is_open(self, story: Story) -> None:
        """One turn is open at a time."""
        story.turn()
        with pytest.raises(BadTurn):
            story.turn()

    def test_only_an_open_turn_can_end(self, story: Story) -> None:
        """Neither before the first turn nor twice."""
        with pytest.raises(BadTurn):
            story.turn_end()
        story.turn()
        story.turn_end()
        with pytest.raises(BadTurn):
            story.turn_end()

    def test_the_head_shows_whether_a_turn_is_open(self, story: Story) -> None:
        """The head also has the number of the turn."""
        seen = []
        for step in (story.turn, story.turn_end):
            step()
            head = story.store.head(story.session)
            seen.append((head.turn, head.turn_open))
        assert seen == [(1, True), (1, False)]

    def test_a_turn_row_has_its_seqs_and_its_status(self, story: Story) -> None:
        """Open turns have no status."""
        first = story.turn()
        last = story.turn_end("aborted")
        second = story.turn()
        assert story.store.turns(story.session) == [
            TurnRow(turn=1, first=first.seq, last=last.seq, at=first.at, status="aborted"),
            TurnRow(turn=2, first=second.seq, last=second.seq, at=second.at),
        ]

    def test_a_commit_after_the_end_of_a_turn_belongs_to_that_turn(self, story: Story) -> None:
        """Until the next turn starts."""
        story.turn()
        story.turn_end()
        late = story.fact("a")
        (row,) = story.store.turns(story.session)
        assert (late.turn, row.last, row.status) == (1, late.seq, "ok")

    def test_a_continued_turn_is_the_same_turn(self, story: Story) -> None:
        """It keeps its number and its first seq, is open again, and is counted once."""
        first = story.turn()
        story.turn_end("interrupted")
        assert story.continued().turn == 1
        (row,) = story.store.turns(story.session)
        assert (row.first, row.status) == (first.seq, "")
        assert story.store.head(story.session).turn_open
        end = story.turn_end()
        (row,) = story.store.turns(story.session)
        assert (row.last, row.status) == (end.seq, "ok")
        assert counts(story.store, story.session).turns == 1
        assert story.turn().turn == 2

    def test_only_an_ended_turn_can_be_continued(self, story: Story) -> None:
        """Continuing an open turn is refused."""
        story.turn()
        with pytest.raises(BadTurn):
            story.continued()

    def test_turns_are_read_in_ranges_from_either_end(self, story: Story) -> None:
        """`after` and `upto` are turn numbers, and may exceed the last."""
        for _ in range(5):
            story.turn()
            story.turn_end()

        def numbers(**fields: Any) -> list[int]:
            return [row.turn for row in story.store.turns(story.session, **fields)]

        assert numbers() == [1, 2, 3, 4, 5]
        assert numbers(after=2, upto=4) == [3, 4]
        assert numbers(limit=2) == [1, 2]
        assert numbers(limit=2, newest_first=True) == [5, 4]
        assert numbers(upto=3, limit=2, newest_first=True) == [3, 2]
        assert numbers(upto=100, limit=2, newest_first=True) == [5, 4]
        assert numbers(after=4, newest_first=True) == [5]
        assert numbers(after=9) == []

    def test_a_fork_keeps_the_turns_of_its_lineage(self, story: Story) -> None:
        """Its own turns follow those up to the fork point."""
        story.turn()
        end = story.turn_end()
        story.turn()
        fork = story.fork("fork", end.seq).drive()
        own = fork.turn()
        rows = story.store.turns(fork.session)
        assert [(row.turn, row.status) for row in rows] == [(1, "ok"), (2, "")]
        assert rows[1].first == own.seq

    def test_the_session_row_counts_the_last_turn(self, story: Story) -> None:
        """In a fork the numbers of the lineage continue."""
        story.turn()
        story.turn_end()
        assert (story.row.turns, story.fork("fork").row.turns) == (1, 1)

    def test_turns_are_found_by_their_keys(self, story: Story) -> None:
        """Oldest first, each as `turns` has it."""
        for key in ("a", "b", "", "a"):
            story.turn(key=key)
            story.turn_end()
        found = story.store.turns(story.session, keys=["a", "c"])
        assert found == [row for row in story.store.turns(story.session) if row.turn in (1, 4)]

    def test_keys_choose_among_the_turns_of_a_range(self, story: Story) -> None:
        """From either end, and no more than asked for."""
        for key in ("a", "b", "a", "a", "b"):
            story.turn(key=key)
            story.turn_end()

        def numbers(*keys: str, **fields: Any) -> list[int]:
            return [row.turn for row in story.store.turns(story.session, keys=keys, **fields)]

        assert numbers("a") == [1, 3, 4]
        assert numbers("a", newest_first=True, limit=2) == [4, 3]
        assert numbers("a", "b", after=1, upto=4) == [2, 3, 4]
        assert numbers() == []

    def test_turns_bring_the_commits_that_began_them_when_asked(self, story: Story) -> None:
        """With their content, also where that is large and across a fork."""
        texts = ["first", large_text(), "third"]
        for text in texts:
            story.turn(text)
            end = story.turn_end()
        fork = story.fork("fork", end.seq).drive()
        fork.turn("fourth")
        rows = story.store.turns(fork.session, prompts=True)
        began = [row.began for row in rows]
        assert [commit and commit.value("input") for commit in began] == [*texts, "fourth"]
        assert began == [fork.log[row.first - 1] for row in rows]
        (last,) = story.store.turns(fork.session, prompts=True, newest_first=True, limit=1)
        assert last.began == began[-1]
        assert all(row.began is None for row in story.store.turns(fork.session))

    def test_a_turn_is_found_by_the_digest_that_an_erasure_kept_of_its_key(
        self, story: Story
    ) -> None:
        """The key itself is gone by then."""
        begun = story.turn(key="a")
        kept = turn_keys.keep("salt of one erasure", {begun.seq: canon.dumps("a")})
        story.add(story.drafts.make("erasure", Erase(seq=begun.seq), input=kept))
        found = [story.store.turns(story.session, keys=[key]) for key in ("a", "b")]
        assert [[row.turn for row in rows] for rows in found] == [[1], []]

    def test_a_turn_whose_key_was_erased_without_a_digest_is_not_found(self, story: Story) -> None:
        """As erasures of releases before 0.6 were."""
        begun = story.turn(key="a")
        story.erase(begun.seq)
        assert story.store.turns(story.session, keys=["a"]) == []

    def test_a_fork_finds_the_keys_up_to_its_point(self, story: Story) -> None:
        """And its own after it."""
        story.turn(key="a")
        end = story.turn_end()
        story.turn(key="b")
        fork = story.fork("fork", end.seq).drive()
        fork.turn(key="c")
        found = story.store.turns(fork.session, keys=["a", "b", "c"])
        assert [row.turn for row in found] == [1, 2]
        assert story.store.turns(story.session, keys=["c"]) == []
