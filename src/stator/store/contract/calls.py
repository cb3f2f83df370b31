"""Calls: every intent, and what is known of its outcome."""

from __future__ import annotations

import pytest

from stator.errors import BadDelta, InvalidInput
from stator.model.log.query import CallQuery, CallRow
from stator.model.records.tables import COLLECTIONS
from stator.store.contract.drive import Drafts, Ids, Story, begin, counts
from stator.store.port import StorePort


def rows(story: Story, **filters: object) -> list[CallRow]:
    query = CallQuery(session=story.session, **filters)  # type: ignore[arg-type]
    return story.store.calls(query).rows


def pages(store: StorePort, query: CallQuery, limit: int) -> list[CallRow]:
    """Every call that matches, a page at a time."""
    page = store.calls(query, limit=limit)
    found = list(page.rows)
    while page.cursor is not None:
        page = store.calls(query, cursor=page.cursor, limit=limit)
        assert len(page.rows) <= limit
        found += page.rows
    return found


class TestCalls:
    def test_an_intent_without_outcome_is_started(self, story: Story) -> None:
        """The call is also in the state."""
        story.turn()
        call = story.call("pay", {"amount": 5})
        assert rows(story) == [
            CallRow(
                session=story.session, call=call.call, tool="pay", seq=call.seq, turn=1,
                at=call.at, effect="write", attempt=1,
            )
        ]  # fmt: skip
        assert len(story.store.entries(story.session, "calls")) == 1

    @pytest.mark.parametrize("wrong", [{"status": "running"}, {"effect": "explosive"}])
    def test_a_call_that_no_release_could_read_again_is_refused(
        self, story: Story, wrong: dict[str, str]
    ) -> None:
        """An unknown status or effect would be in the call's record."""
        head = story.store.head(story.session)
        with pytest.raises(InvalidInput, match=f"a call cannot have the {next(iter(wrong))}"):
            story.add(story.drafts.make("call", call="c_" + "7" * 32, tool="pay", **wrong))
        assert story.store.head(story.session) == head

    def test_an_outcome_settles_its_call(self, story: Story) -> None:
        """The row names the commit, and the call leaves the state."""
        call = story.call("pay")
        end = story.outcome(call, status="error", cause="refused")
        (row,) = rows(story)
        assert (row.status, row.cause, row.outcome) == ("error", "refused", end.seq)
        assert story.store.entries(story.session, "calls") == []

    def test_a_call_with_an_unknown_outcome_is_in_doubt_until_it_is_settled(
        self, story: Story
    ) -> None:
        """It is never reported as failed."""
        call = story.call("pay")
        story.in_doubt(call, "process died")
        assert [(r.status, r.cause) for r in rows(story)] == [("in doubt", "process died")]
        story.settle(call, "ok")
        assert [r.status for r in rows(story)] == ["ok"]

    def test_an_outcome_without_an_open_call_is_refused(self, story: Story) -> None:
        """A second outcome of a call is refused too."""
        call = story.drafts.call("pay")
        with pytest.raises(BadDelta):
            story.add(story.drafts.outcome(call))
        story.add(call, story.drafts.outcome(call))
        with pytest.raises(BadDelta):
            story.add(story.drafts.outcome(call))
        with pytest.raises(BadDelta):
            story.add(story.drafts.settle(call))

    def test_a_second_attempt_has_its_own_row(self, story: Story) -> None:
        """Each attempt has its own outcome."""
        first = story.call("pay")
        story.outcome(first, status="error")
        second = story.call("pay", call=first.call, attempt=2)
        story.outcome(second)
        found = [(r.call, r.attempt, r.status) for r in rows(story)]
        assert found == [(first.call, 2, "ok"), (first.call, 1, "error")]

    def test_calls_can_be_filtered(self, story: Story) -> None:
        """By tool, statuses and turn, each and together."""
        story.turn()
        for tool, status in (("a", "ok"), ("b", "error"), ("a", "error")):
            story.outcome(story.call(tool), status=status)
        story.turn_end()
        story.turn()
        story.in_doubt(story.call("a"))
        story.call("b")
        assert len(rows(story, tool="a")) == 3
        assert len(rows(story, statuses=("error",))) == 2
        assert len(rows(story, statuses=("started", "in doubt"))) == 2
        assert len(rows(story, statuses=("ok",))) == 1
        assert len(rows(story, after_turn=1)) == 2
        assert len(rows(story, tool="a", statuses=("error",))) == 1

    def test_a_rare_status_is_found_after_many_others(self, story: Story) -> None:
        """For any page size."""
        story.in_doubt(story.call("pay"))
        for _ in range(12):
            story.outcome(story.call("sh"), status="error")
        query = CallQuery(session=story.session, statuses=("in doubt",))
        assert [r.tool for r in pages(story.store, query, 1)] == ["pay"]

    def test_paging_shows_each_call_once_newest_first(self, story: Story) -> None:
        """In one session, and across all sessions."""
        fork = story.fork("fork").drive()
        for _ in range(3):
            story.outcome(story.call("a"))
            fork.outcome(fork.call("b"))
        for query in (CallQuery(session=fork.session), CallQuery()):
            expected = pages(story.store, query, 100)
            for limit in (1, 2, 3, 4):
                assert pages(story.store, query, limit) == expected
        assert len(pages(story.store, CallQuery(), 2)) == 6

    def test_calls_can_be_listed_by_project(self, store: StorePort) -> None:
        """The list covers all sessions of the project."""
        for name, project in (("a", "p"), ("b", "p"), ("c", "q")):
            story = begin(store, name, project=project).drive()
            story.call(name)
        assert {r.tool for r in pages(store, CallQuery(project="p"), 10)} == {"a", "b"}

    def test_a_fork_sees_the_calls_of_its_lineage_as_they_were(self, story: Story) -> None:
        """What the parent settles later is not settled in the fork."""
        call = story.call("pay")
        fork = story.fork("fork")
        story.outcome(call)
        assert [r.status for r in rows(fork)] == ["started"]
        assert [r.status for r in rows(story)] == ["ok"]

    def test_a_call_settled_in_the_parent_after_the_fork_stays_in_doubt_in_the_fork(
        self, story: Story
    ) -> None:
        """It keeps its cause and the commit that recorded it."""
        call = story.call("pay")
        doubt = story.in_doubt(call, "timeout")
        fork = story.fork("fork")
        story.settle(call)
        (row,) = rows(fork)
        assert (row.status, row.cause, row.outcome) == ("in doubt", "timeout", doubt.seq)

    def test_a_fork_can_settle_an_inherited_call(self, story: Story) -> None:
        """The settlement is in the fork's log: its own forks inherit it, its parent does not see it."""
        call = story.call("pay")
        story.in_doubt(call)
        fork = story.fork("fork")
        fork.add(Drafts(Ids("guest"), fork.session).settle(call, "ok"))
        second = fork.fork("second")
        fork.store.rebuild()
        assert [r.status for r in rows(fork)] == ["ok"]
        assert [r.status for r in rows(second)] == ["ok"]
        assert [r.status for r in rows(story)] == ["in doubt"]

    def test_counts_give_the_number_of_commits_turns_and_calls(self, story: Story) -> None:
        """They cover the session's own log; open calls are those without a known outcome."""
        story.turn("hi")
        story.outcome(story.call("a"))
        story.outcome(story.call("b"), status="error")
        story.in_doubt(story.call("c"))
        story.call("d")
        held = counts(story.store, story.session)
        assert (held.commits, held.turns, held.calls) == (len(story.log), 1, 4)
        assert (held.failed, held.open) == (2, 2)
        assert held.content_bytes > 0

    def test_live_records_of_a_fork_include_inherited_ones(self, story: Story) -> None:
        """Each is counted once, also one that the fork changed; one that it dropped is not counted."""
        for name in "abcx":
            story.fact(name)
        fork = story.fork("fork")
        fork.fact("a", 2)
        fork.add(fork.drafts.forget("a"))
        fork.add(fork.drafts.forget("b"))
        fork.fact("c")
        fork.add(fork.drafts.fact("d"), fork.drafts.fact("d"))
        assert counts(story.store, story.session).live["facts"] == 4
        assert counts(story.store, fork.session).live["facts"] == 3

    def test_live_counts_are_those_of_the_state(self, story: Story) -> None:
        """In a session, in a fork, in a fork of that fork, and after a rebuild."""
        story.turn("hi")
        for name in "abc":
            story.fact(name)
        story.decision("one", "topic")
        story.outcome(story.call("a"))
        middle = story.fact("d").seq
        story.call("b")
        story.add(story.drafts.forget("a"))
        fork = story.fork("fork", middle)
        fork.decision("two", "topic")
        fork.add(fork.drafts.forget("b"))
        second = fork.fork("second")
        second.add(second.drafts.forget("c"))
        second.fact("e")

        def check() -> None:
            for one in (story, fork, second):
                state = {name: one.store.entries(one.session, name) for name in COLLECTIONS}
                live = {name: len(entries) for name, entries in state.items() if entries}
                assert counts(one.store, one.session).live == live

        check()
        story.store.rebuild()
        check()
        second.fact("f")
        check()

    def test_an_inherited_call_is_open_in_the_fork_too(self, story: Story) -> None:
        """Until the fork settles it; the count never drops below zero."""
        call = story.call("pay")
        fork = story.fork("fork")
        assert counts(story.store, fork.session).open == 1
        fork.add(Drafts(Ids("guest"), fork.session).settle(call))
        assert counts(story.store, fork.session).open == 0
        assert counts(story.store, story.session).open == 1
