"""Sessions: creating, finding and listing them, and which of many have moved."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stator.errors import BadQuery, Conflict, InvalidInput, NotFound, StatorError
from stator.model.log.commit import Upsert
from stator.model.log.query import GONE, Page, SessionQuery, SessionRow
from stator.store.contract.drive import Drafts, Ids, Story, begin
from stator.store.contract.purge import purging, told
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
            row, new = store.create([drafts.open("same", **scope)])
            assert new
            same = SessionQuery(name="same", project=row.record.project)
            assert row in store.sessions(same).rows
        assert len(store.sessions(SessionQuery(name="same")).rows) == 3
        assert len(store.sessions(same).rows) == 2

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
        for ask in (store.session, store.head, store.commits, store.turns):
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

    def test_sessions_that_hold_a_kind_of_record_are_found_with_their_forks(
        self, store: StorePort
    ) -> None:
        """None that holds one is left out; others may be there, while an index lacks their newest commits."""
        holder, _ = told(store, "holder"), told(store, "other")
        at = holder.fact("size", 1)
        ids = Ids("fork")
        drafts = Drafts(ids, ids("session"))
        store.create([drafts.fork("fork", store.session(holder.session).record, at)])
        store.rebuild()
        found = {row.id for row in store.sessions(SessionQuery(holds="facts")).rows}
        assert found == {holder.session, drafts.session}

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


def opened(store: StorePort, name: str, **scope: str) -> str:
    """A session of that name; its id."""
    drafts = Drafts(Ids(name), Ids(name)("session"))
    store.create([drafts.open(name, **scope)])
    return drafts.session


class TestHeads:
    def test_sessions_whose_head_is_known_are_left_out(self, store: StorePort) -> None:
        """Only those that moved are named, with the seq of their head."""
        a, b = (begin(store, name, ids=Ids(name)) for name in "ab")
        known = {one.session: store.head(one.session).seq for one in (a, b)}
        assert store.heads(known) == {}
        b.drive()
        b.turn("go")
        assert store.heads(known) == {b.session: store.head(b.session).seq}

    def test_a_session_that_is_not_there_is_gone(self, store: StorePort) -> None:
        """Whatever is asked for gets an answer, also what is no id at all."""
        never = Ids("never")("session")
        assert store.heads({never: 3, "x": 1}) == {never: GONE, "x": GONE}
        assert store.heads({never: GONE, "x": GONE}) == {}

    def test_other_sessions_are_named_on_request(self, store: StorePort) -> None:
        """So that one call notices what moved and what is new."""
        first = opened(store, "one")
        second = opened(store, "two")
        assert store.heads({}) == {}
        assert store.heads({}, others=True) == {first: 1, second: 1}
        assert store.heads({first: 1}, others=True) == {second: 1}

    def test_a_project_has_only_its_own_sessions(self, store: StorePort) -> None:
        """One of another project is gone from it, and never among the others."""
        here = opened(store, "here", project="p")
        there = opened(store, "there", project="q")
        assert store.heads({}, project="p", others=True) == {here: 1}
        assert store.heads({here: 1, there: 1}, project="p", others=True) == {there: GONE}

    def test_sessions_come_in_the_order_in_which_they_arrived(self, store: StorePort) -> None:
        """Whatever their ids, so that a parent comes before its forks."""
        made = [opened(store, name) for name in ("c", "a", "d", "b")]
        assert list(store.heads(dict.fromkeys(made, 0))) == made
        assert list(store.heads({made[2]: 0, made[1]: 0}, others=True)) == made

    def test_the_head_of_a_fork_counts_what_it_inherits(self, story: Story) -> None:
        """Its own first commit follows those of its parent."""
        story.turn("go")
        at = story.store.head(story.session).seq
        fork = story.fork("b", at)
        assert story.store.heads({fork.session: 0}) == {fork.session: at + 1}

    def test_a_purged_session_is_gone(self, store: StorePort, project: Story) -> None:
        """And the session of the project that says so has moved."""
        gone = told(store, "gone").session
        purge = project.add(purging(project, gone))
        assert store.heads({gone: 1, project.session: 1}) == {
            gone: GONE,
            project.session: purge.seq,
        }

    def test_what_came_from_a_bundle_is_noticed_whatever_its_time(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """Heads are compared by seq: no clock is asked."""
        newer = opened(store, "newer")
        log = elsewhere.log
        store.ingest(log)
        assert store.heads({newer: 1}, others=True) == {elsewhere.session: log[-1].seq}

    def test_every_write_is_reported_to_who_watches(
        self, store: StorePort, elsewhere: Story
    ) -> None:
        """`wrote` is called once the write is acknowledged."""
        story = begin(store, "watched")
        seen: list[int] = []
        store.wrote = lambda: seen.append(store.head(story.session).seq)
        story.drive()
        turn = story.turn("go")
        assert seen[-1] == turn.seq
        before = len(seen)
        opened(store, "another")
        store.ingest(elsewhere.log)
        assert len(seen) == before + 2

    def test_a_write_that_is_refused_is_not_reported(self, store: StorePort) -> None:
        """Nothing has moved."""
        story = begin(store)
        seen: list[str] = []
        store.wrote = lambda: seen.append("wrote")
        with pytest.raises(StatorError):
            story.turn("without the lease")
        assert seen == []
