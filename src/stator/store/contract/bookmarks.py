"""Bookmarks: how far a source was read is kept with the commits, and nothing depends on it."""

from __future__ import annotations

import pytest

from stator.errors import HeadMoved
from stator.model.exchange.bookmark import Bookmark
from stator.model.log.commit import Erase
from stator.store.contract.drive import Story

SECRET = "ghp_" + "a1B2" * 9


def noted(story: Story, name: str = "transcript") -> Bookmark | None:
    return story.store.bookmark(story.session, name)


class TestBookmarks:
    def test_a_session_has_none_at_first(self, story: Story) -> None:
        assert noted(story) is None

    def test_a_bookmark_is_kept_with_the_commits(self, story: Story) -> None:
        kept = Bookmark("transcript", 1, {"offset": 12, "held": [1.5, "é", None]})
        story.store.append(story.session, [story.drafts.fact("x")], bookmark=kept)
        assert noted(story) == kept

    def test_a_bookmark_needs_no_commit(self, story: Story) -> None:
        before = len(story.log)
        assert story.store.append(story.session, [], bookmark=Bookmark("transcript", 1, 7)) == []
        assert noted(story) == Bookmark("transcript", 1, 7)
        assert len(story.log) == before

    def test_a_later_bookmark_replaces_an_earlier_one(self, story: Story) -> None:
        for number in (1, 2, 3):
            story.store.append(story.session, [], bookmark=Bookmark("transcript", number, number))
        assert noted(story) == Bookmark("transcript", 3, 3)

    @pytest.mark.parametrize("number", [1, 3, 0])
    def test_a_bookmark_that_does_not_follow_the_last_one_refuses_the_append(
        self, story: Story, number: int
    ) -> None:
        story.store.append(story.session, [], bookmark=Bookmark("transcript", 1, "first"))
        before = len(story.log)
        with pytest.raises(HeadMoved):
            story.store.append(
                story.session,
                [story.drafts.fact("x")],
                bookmark=Bookmark("transcript", number, "late"),
            )
        assert len(story.log) == before
        assert noted(story) == Bookmark("transcript", 1, "first")

    def test_bookmarks_of_several_names_do_not_know_each_other(self, story: Story) -> None:
        story.store.append(story.session, [], bookmark=Bookmark("transcript", 1, "a"))
        story.store.append(story.session, [], bookmark=Bookmark("hooks", 1, "b"))
        assert noted(story) == Bookmark("transcript", 1, "a")
        assert noted(story, "hooks") == Bookmark("hooks", 1, "b")

    def test_secrets_in_a_bookmark_are_replaced(self, story: Story) -> None:
        story.store.append(story.session, [], bookmark=Bookmark("hooks", 1, {"x": [SECRET]}))
        kept = noted(story, "hooks")
        assert kept is not None
        assert SECRET not in str(kept.value)

    def test_an_erasure_drops_the_bookmarks_of_its_session(self, story: Story) -> None:
        commit = story.entry("something private")
        story.store.append(story.session, [], bookmark=Bookmark("hooks", 1, "private"))
        story.add(story.drafts.make("erasure", Erase(seq=commit.seq, fields=("output",))))
        assert noted(story, "hooks") is None

    def test_the_log_does_not_show_a_bookmark(self, story: Story) -> None:
        head = story.store.head(story.session)
        story.store.append(story.session, [], bookmark=Bookmark("hooks", 1, "x"))
        assert story.store.head(story.session) == head
        assert list(story.store.audit()) == []
