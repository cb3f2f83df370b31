"""Reading the log: ranges, both directions, and finding a commit by part of its id or hash."""

from __future__ import annotations

from typing import Any

import pytest

from stator.errors import BadQuery
from stator.store.contract.drive import Story, begin, large_text
from stator.store.contract.fixtures import Capabilities
from stator.store.port import StorePort


def seqs(story: Story, **fields: Any) -> list[int]:
    return [commit.seq for commit in story.store.commits(story.session, **fields)]


class TestPaging:
    def test_commits_are_read_in_ranges_from_either_end(self, story: Story) -> None:
        """`after < seq <= upto`, at most `limit`."""
        for name in "abcdef":
            story.fact(name)
        assert seqs(story) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert seqs(story, after=2, upto=5) == [3, 4, 5]
        assert seqs(story, limit=3) == [1, 2, 3]
        assert seqs(story, newest_first=True, limit=3) == [8, 7, 6]
        assert seqs(story, upto=5, newest_first=True, limit=2) == [5, 4]
        assert seqs(story, after=3, upto=100, newest_first=True) == [8, 7, 6, 5, 4]
        assert seqs(story, after=8) == []
        assert seqs(story, upto=0) == []

    def test_ranges_read_across_a_fork_point(self, story: Story) -> None:
        """The caller does not have to know about the fork."""
        for name in "abc":
            story.fact(name)
        fork = story.fork("fork", 4).fork("second")
        fork.fact("x")
        assert seqs(fork) == [1, 2, 3, 4, 5, 6, 7]
        assert seqs(fork, after=3, upto=6) == [4, 5, 6]
        assert seqs(fork, newest_first=True, limit=4) == [7, 6, 5, 4]
        assert seqs(fork, after=2, limit=3) == [3, 4, 5]
        assert seqs(fork, upto=3, newest_first=True, limit=2) == [3, 2]

    def test_without_load_only_large_content_is_missing(self, story: Story) -> None:
        """Structure and records are always loaded."""
        story.fact("a", "x" * 100)
        story.fact("a", large_text())
        story.entry(large_text())
        whole = story.store.commits(story.session)
        lean = story.store.commits(story.session, load=False)
        assert [(c.hash, c.delta) for c in lean] == [(c.hash, c.delta) for c in whole]

    def test_large_content_is_read_back_whole(self, story: Story) -> None:
        """Independently of how the store keeps it."""
        text = large_text()
        story.entry(text)
        assert story.log[-1].value("output") == text

    def test_an_invalid_limit_is_refused(self, story: Story) -> None:
        """Zero, negative and very large limits."""
        for limit in (0, -1, 10**9):
            with pytest.raises(BadQuery):
                story.store.commits(story.session, limit=limit)
            with pytest.raises(BadQuery):
                story.store.turns(story.session, limit=limit)

    def test_a_commit_is_located_by_the_end_of_its_id_or_the_start_of_its_hash(
        self, story: Story
    ) -> None:
        """In one session or in the whole store."""
        commit = story.fact("a")
        place = [(story.session, commit.seq)]
        ends = (commit.id[-8:], commit.id[-9:], commit.hash[:12], commit.hash[:7])
        for text in (commit.id, commit.hash, *ends):
            assert story.store.locate(text) == place
            assert story.store.locate(text, story.session) == place

    def test_a_fork_locates_commits_of_its_lineage(self, story: Story) -> None:
        """Up to the fork point, under the session that wrote it."""
        inside = story.fact("a")
        fork = story.fork("fork")
        outside = story.fact("b")
        assert story.store.locate(inside.hash, fork.session) == [(story.session, inside.seq)]
        assert story.store.locate(outside.hash, fork.session) == []

    def test_text_that_is_too_short_or_not_hex_locates_nothing(self, story: Story) -> None:
        """Not everything."""
        for text in ("", "abc", "k_", "xyz12345", "%", story.log[0].hash + "0"):
            assert story.store.locate(text) == []

    def test_sql_reads_the_views_or_is_refused(
        self, store: StorePort, capabilities: Capabilities
    ) -> None:
        """A store declares whether it supports SQL."""
        begin(store, "one")
        if capabilities.sql:
            assert store.sql("SELECT name FROM sessions") == (["name"], [("one",)])
        else:
            with pytest.raises(BadQuery):
                store.sql("SELECT 1")
