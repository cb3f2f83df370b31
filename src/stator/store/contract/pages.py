"""Reading the log: ranges, both directions, and finding a commit by part of its id or hash."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from stator.errors import BadQuery, NotFound
from stator.model.log.query import NEWEST, CallQuery, SessionQuery, read
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

    def test_a_set_of_seqs_returns_just_those_commits(self, story: Story) -> None:
        """In log order or newest first, across forks; a seq that is not there is left out."""
        for name in "abc":
            story.fact(name)
        fork = story.fork("fork", 4).fork("second")
        fork.fact("x", large_text())
        log = fork.log
        everything = range(-1, len(log) + 3)
        assert story.store.commits(fork.session, seqs=everything) == log
        assert seqs(fork, seqs=[7, 2, 2, 5, 99]) == [2, 5, 7]
        assert seqs(fork, seqs=[7, 2, 5], newest_first=True, limit=2) == [7, 5]
        assert seqs(fork, seqs=[7, 2, 5, 3], after=2, upto=6) == [3, 5]
        assert seqs(fork, seqs=[99, 7, 98, 5], limit=1, newest_first=True) == [7]
        assert seqs(fork, seqs=[]) == []
        lean = story.store.commits(fork.session, seqs=everything, load=False)
        assert [(c.hash, c.prev, c.delta) for c in lean] == [(c.hash, c.prev, c.delta) for c in log]

    def test_commits_are_found_by_their_ids(self, story: Story) -> None:
        """In the session and its lineage, together with seqs and the newest; also when the indexes hold them."""
        one, two = story.fact("a"), story.fact("b")
        fork = story.fork("fork").drive()
        late, own = story.fact("late"), fork.fact("c")
        for _ in range(2):
            assert seqs(fork, ids=[own.id, one.id, late.id]) == [one.seq, own.seq]
            assert seqs(fork, ids=[one.id], seqs=[two.seq]) == [one.seq, two.seq]
            assert seqs(fork, ids=[one.id, own.id], upto=two.seq) == [one.seq]
            assert seqs(fork, ids=[one.id[2:], "k_1", ""]) == []
            assert seqs(fork, ids=[]) == []
            assert seqs(fork, seqs=[NEWEST, 1]) == [1, own.seq]
            assert seqs(story, seqs=[NEWEST], upto=two.seq) == [two.seq]
            story.store.rebuild()

    def test_commits_are_found_by_their_origins(self, story: Story) -> None:
        """Of every kind and attempt, in the session and its lineage; also when the indexes hold them."""
        one = story.add(story.drafts.entry("a", origin=("hook", "1")))
        two = story.add(story.drafts.fact("b", origin=("hook", "1")))
        call = story.add(story.drafts.call("sh", origin=("hook", "2")))
        fork = story.fork("fork").drive()
        story.add(story.drafts.entry("late", origin=("hook", "1"), attempt=2))
        own = fork.add(fork.drafts.entry("c", origin=("other", "1")))
        hooks, everything = [("hook", "1")], [("hook", "1"), ("hook", "2"), ("other", "1")]
        for _ in range(2):
            assert seqs(fork, origins=hooks) == [one.seq, two.seq]
            assert len(seqs(story, origins=hooks)) == 3
            assert seqs(fork, origins=everything, newest_first=True) == [
                own.seq, call.seq, two.seq, one.seq,
            ]  # fmt: skip
            assert seqs(fork, origins=everything, after=one.seq, seqs=[1, 2, two.seq]) == [two.seq]
            assert seqs(fork, origins=[("hook", "3"), ("1", "hook"), ("\ud800", "1")]) == []
            assert seqs(fork, origins=[]) == []
            story.store.rebuild()

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


class TestTogether:
    def test_reads_that_are_asked_together_answer_as_if_each_was_asked_alone(
        self, story: Story
    ) -> None:
        """In the order asked, also if one is asked twice."""
        commit = story.fact("a")
        fork = story.fork("fork")
        asked = [
            read("commits", fork.session, newest_first=True, limit=2),
            read("session", story.session, counted=True),
            read("head", fork.session),
            read("entries", story.session, "facts", "plan", limit=5),
            read("sessions", SessionQuery(parent=story.session)),
            read("locate", commit.id),
            read("locate", commit.id, fork.session),
            read("turns", story.session, limit=1),
            read("head", fork.session),
        ]
        alone = [getattr(story.store, one.method)(*one.args, **one.options) for one in asked]
        assert story.store.together(*asked) == alone
        assert story.store.together() == []

    def test_no_read_changes_what_another_one_answers(self, story: Story) -> None:
        """Of a fork, whose log has several parts: each read after each other one."""
        story.turn()
        story.call("pay")
        story.fact("a")
        fork = story.fork("fork").drive()
        fork.outcome(fork.call("pay"))
        fork.fact("b")
        upto = story.store.head(fork.session).seq
        asked = [
            read("calls", CallQuery()),
            read("calls", CallQuery(session=fork.session)),
            read("commits", fork.session),
            read("commits", fork.session, rewinds=True),
            read("entries", fork.session, "facts", "calls"),
            read("entries", fork.session, "facts", at=upto - 1),
            read("head", fork.session),
            read("locate", story.log[-1].id, fork.session),
            read("session", fork.session, counted=True),
            read("sessions", SessionQuery()),
            read("turns", fork.session, prompts=True),
            read("versions", fork.session, after=0, upto=upto),
        ]
        alone = [getattr(story.store, one.method)(*one.args, **one.options) for one in asked]
        for first, second in permutations(range(len(asked)), 2):
            found = story.store.together(asked[first], asked[second])
            assert found == [alone[first], alone[second]]

    def test_what_is_not_found_is_an_answer_and_the_others_are_given(self, story: Story) -> None:
        """One session that is gone does not take the answers about others away."""
        gone, there = story.store.together(
            read("commits", "s_" + "0" * 32), read("head", story.session)
        )
        assert isinstance(gone, NotFound)
        assert there == story.store.head(story.session)

    def test_what_is_no_read_cannot_be_asked_together(self, story: Story) -> None:
        """Nothing is written, and the store is not closed."""
        for method in ("append", "close", "together", "rebuild", "_check"):
            with pytest.raises(BadQuery):
                story.store.together(read("head", story.session), read(method))
        with pytest.raises(BadQuery):
            story.store.together(read("commits", story.session, limit=0))
        assert story.store.together(read("head", story.session))
