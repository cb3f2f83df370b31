"""Sessions: creating, finding and listing them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stator.errors import BadQuery, Conflict, InvalidInput, NotFound
from stator.model.log.commit import Upsert
from stator.model.log.query import Page, SessionQuery, SessionRow
from stator.store.contract.drive import Drafts, Ids, begin
from stator.store.port import StorePort


def pages(store: StorePort, limit: int, **filters: Any) -> list[SessionRow]:
    """Every session that matches, a page at a time."""
    page: Page[SessionRow] = store.sessions(SessionQuery(**filters), limit=limit)
    rows = list(page.rows)
    while page.cursor is not None:
        assert len(page.rows) <= limit
        page = store.sessions(SessionQuery(**filters), cursor=page.cursor, limit=limit)
        rows += page.rows
    return rows


class TestSessions:
    def test_a_created_session_can_be_read(self, store: StorePort) -> None:
        """create returns the row that session returns."""
        drafts = Drafts(Ids(), Ids()("session"))
        row, new = store.create([drafts.open("a", agent="me", labels={"x": "y"})])
        assert new
        assert row == store.session(drafts.session)
        assert (row.record.name, row.record.agent, row.head) == ("a", "me", 1)

    def test_creating_an_existing_name_returns_that_session(self, store: StorePort) -> None:
        """Nothing is written the second time."""
        first = begin(store, "same", ids=Ids("one"))
        other = Drafts(Ids("two"), Ids("two")("session"))
        row, new = store.create([other.open("same")])
        assert (row.id, new, row.head) == (first.session, False, 1)

    def test_one_name_can_exist_in_two_projects_and_tenants(self, store: StorePort) -> None:
        """Names are unique per tenant and project only."""
        for n, scope in enumerate(({}, {"project": "p"}, {"tenant": "t"})):
            drafts = Drafts(Ids(str(n)), Ids(str(n))("session"))
            assert store.create([drafts.open("same", **scope)])[1]

    def test_an_id_that_exists_under_another_name_is_a_conflict(self, store: StorePort) -> None:
        """A session id names one session permanently."""
        story = begin(store, "first")
        with pytest.raises(Conflict):
            store.create([story.drafts.open("second")])
        assert [row.record.name for row in pages(store, 10)] == ["first"]

    def test_a_session_begins_with_open_or_fork(self, store: StorePort) -> None:
        """Anything else is refused and leaves no session."""
        drafts = Drafts(Ids(), Ids()("session"))
        with pytest.raises(InvalidInput):
            store.create([drafts.turn()])
        with pytest.raises(InvalidInput):
            store.create([])
        assert pages(store, 10) == []

    def test_a_session_is_not_opened_twice(self, store: StorePort) -> None:
        """An open commit after the first is refused, with or without a lease."""
        story = begin(store)
        with pytest.raises(InvalidInput):
            story.add(story.drafts.open("again"))
        assert story.row.record.name == "story"

    def test_create_is_all_or_nothing(self, store: StorePort) -> None:
        """A bad draft after the open commit leaves no session behind."""
        drafts = Drafts(Ids(), Ids()("session"))
        with pytest.raises(InvalidInput):
            store.create([drafts.open("a", mode="recorded"), drafts.make("nonsense")])
        with pytest.raises(NotFound):
            store.session(drafts.session)

    def test_create_accepts_more_drafts(self, store: StorePort) -> None:
        """They are in the log directly after the open commit."""
        drafts = Drafts(Ids(), Ids()("session"))
        row, _ = store.create([drafts.open("a"), drafts.fact("x", 1)])
        assert (row.head, len(store.entries(row.id, "facts"))) == (2, 1)

    def test_an_unknown_session_is_not_found(self, store: StorePort) -> None:
        """This holds for every method that takes a session."""
        for ask in (store.session, store.head, store.commits, store.turns, store.counts):
            with pytest.raises(NotFound):
                ask(Ids("nobody")("session"))

    def test_an_invalid_session_id_is_not_found(self, store: StorePort) -> None:
        """The error is NotFound."""
        for text in ("", "x", "s_", "s_" + "g" * 32):
            with pytest.raises(NotFound):
                store.session(text)

    def test_sessions_are_listed_last_written_first(self, store: StorePort) -> None:
        """By the time of their last commit, not of their creation."""
        a, b, c = (begin(store, name) for name in "abc")
        a.fact("x")
        assert [row.id for row in pages(store, 10)] == [a.session, c.session, b.session]

    def test_an_imported_session_is_sorted_by_when_its_commits_happened(
        self, store: StorePort
    ) -> None:
        """A session imported later is as old as its commits, also after a flush."""
        recent, old = begin(store, "recent"), begin(store, "old", mode="recorded")
        for _ in range(300):
            old.add(msgspec.structs.replace(old.drafts.fact("x", 1), happened=7))
        assert [row.id for row in pages(store, 10)] == [recent.session, old.session]
        assert store.session(old.session).updated == 7

    def test_a_commit_dated_in_the_future_is_sorted_by_when_it_was_appended(
        self, store: StorePort
    ) -> None:
        """A machine with a wrong clock does not keep its sessions at the top of the list."""
        wrong = begin(store, "wrong", mode="recorded")
        commit = wrong.add(msgspec.structs.replace(wrong.drafts.fact("x", 1), happened=2**52))
        assert wrong.row.updated == commit.at

    def test_paging_shows_each_session_once(self, store: StorePort) -> None:
        """For every page size and every order of writing."""
        stories = [begin(store, f"s{n}") for n in range(6)]
        for n in (3, 0, 4):
            stories[n].fact("x")
        expected = [row.id for row in pages(store, 100)]
        assert len(expected) == 6
        for limit in (1, 2, 3, 5):
            assert [row.id for row in pages(store, limit)] == expected

    def test_a_listed_row_equals_the_row_of_the_session(self, store: StorePort) -> None:
        """Including head, turns, updated and holder."""
        story = begin(store).drive()
        story.turn()
        assert pages(store, 10) == [story.row]

    def test_all_filters_must_match(self, store: StorePort) -> None:
        """Each filter by itself, and two together."""
        one = begin(store, "one", agent="x", project="p", aliases=[["codex", "42"]])
        two = begin(store, "two", agent="x", tenant="t", mode="recorded")
        fork = one.fork("three")
        three = fork.session

        def found(**filters: Any) -> set[str]:
            page = store.sessions(SessionQuery(**filters))
            return {row.id for row in page.rows}

        assert found(name="one") == {one.session}
        assert found(agent="x") == {one.session, two.session}
        assert found(agent="x", tenant="t") == {two.session}
        assert found(project="p") == {one.session, three}
        assert found(mode="recorded") == {two.session}
        assert found(alias=("codex", "42")) == {one.session}
        assert found(parent=one.session) == {three}
        assert found(suffix=two.session[-8:]) == {two.session}
        assert found(name="nobody") == set()

    def test_a_filter_by_status_uses_the_newest_status(self, store: StorePort) -> None:
        """Status is written with the commit that changes it."""
        story = begin(store).drive()
        story.add(story.drafts.make("pause", cause="user"))
        page = store.sessions(SessionQuery(status="paused"))
        assert [row.record.status for row in page.rows] == ["paused"]

    def test_an_invalid_limit_is_refused(self, store: StorePort) -> None:
        """Zero, negative and very large limits."""
        for limit in (0, -1, 10**9):
            with pytest.raises(BadQuery):
                store.sessions(SessionQuery(), limit=limit)

    def test_a_budget_commit_changes_only_the_limits(self, store: StorePort) -> None:
        """The writer may not know what else changed in the session."""
        story = begin(store, "limited").drive()
        known = story.row.record
        wanted = msgspec.structs.replace(known, budget={"tokens": 9}, name="other", status="open")
        guest = Drafts(Ids("guest"), story.session)
        story.add(guest.make("budget", Upsert("session", wanted)))
        assert story.row.record == msgspec.structs.replace(known, budget={"tokens": 9})
        for changes in ((), (Upsert("session", wanted), Upsert("session", wanted))):
            with pytest.raises(InvalidInput):
                story.add(guest.make("budget", *changes))
        bad = msgspec.structs.replace(known, budget={"tokens": -1})
        with pytest.raises(InvalidInput):
            story.add(guest.make("budget", Upsert("session", bad)))
        store.rebuild()
        assert story.row.record.budget == {"tokens": 9}
