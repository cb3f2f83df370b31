"""Purging removes one whole session and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from stator.errors import Busy, Conflict, InvalidInput, NotFound
from stator.model.log.commit import (
    Change,
    Draft,
    Erase,
    Purge,
    Upsert,
)
from stator.model.log.query import Lease, SessionQuery
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import FlagRecord
from stator.model.sessions.lifecycle import COPIES
from stator.store.contract.drive import Drafts, Ids, Story, begin, counts, find, large_text, still
from stator.store.contract.erasure import must_verify
from stator.store.port import StorePort

PROJECT = "shop"


@pytest.fixture
def project(store: StorePort) -> Story:
    """The project's own session."""
    return told(store, "(project)", mode="project")


def told(store: StorePort, name: str, **fields: Any) -> Story:
    """A session of the project without a driver."""
    fields = {"mode": "recorded", "project": PROJECT} | fields
    return begin(store, name, **fields)


def purging(project: Story, *sessions: str) -> Draft:
    changes: list[Change] = [Purge(session) for session in sessions]
    changes += [Upsert("flags", FlagRecord(name="purged", on=session)) for session in sessions]
    return project.drafts.make("purge", *changes, input={"name": "gone"})


def everything(story: Story) -> list[Any]:
    """Every answer of a store about a session."""
    store, session = story.store, story.session
    state = [store.entries(session, name) for name in COLLECTIONS]
    return [still(story.row), story.log, state, counts(store, session), store.turns(session)]


class TestPurge:
    def test_a_purged_session_is_gone(self, store: StorePort, project: Story) -> None:
        """Neither its id, the list, its keys nor its commit ids find it."""
        gone = told(store, "gone")
        fact = gone.fact("x", 1)
        project.add(purging(project, gone.session))
        with pytest.raises(NotFound):
            store.session(gone.session)
        assert [row.id for row in store.sessions(SessionQuery()).rows] == [project.session]
        assert store.touches("facts", "x") == []
        assert store.locate(fact.id) == []

    def test_a_session_changed_since_the_decision_is_not_purged(
        self, store: StorePort, project: Story
    ) -> None:
        """The decision was made before the new commits; nothing of the purge is recorded."""
        kept = told(store, "kept")
        seen = kept.fact("x", 1).seq
        kept.fact("x", 2)
        before = len(project.log)
        with pytest.raises(Conflict):
            project.add(project.drafts.make("purge", Purge(kept.session, seen)))
        assert find(store, kept.session, "facts", "x") is not None
        assert len(project.log) == before
        project.add(project.drafts.make("purge", Purge(kept.session, seen + 1)))
        with pytest.raises(NotFound):
            store.session(kept.session)

    def test_the_name_of_a_purged_session_is_free_again(
        self, store: StorePort, project: Story
    ) -> None:
        """A new session with that name has another id and is empty."""
        gone = told(store, "again")
        gone.fact("x", 1)
        project.add(purging(project, gone.session))
        drafts = Drafts(Ids("second"), Ids("second")("session"))
        row, created = store.create([drafts.open("again", mode="recorded", project=PROJECT)])
        assert (created, row.id, row.head) == (True, drafts.session, 1)
        assert store.entries(row.id, "facts") == []

    def test_other_sessions_are_unchanged_by_a_purge(
        self, store: StorePort, project: Story
    ) -> None:
        """They were written before, between and after its commits, and share some payloads."""
        stories = [told(store, name) for name in ("one", "gone", "two")]
        for n in range(3):
            for story in stories:
                story.turn(f"prompt {n}")
                story.fact("x", n)
                story.entry(large_text())
                story.turn_end()
        others = [everything(story) for story in (stories[0], stories[2])]
        project.add(purging(project, stories[1].session))
        assert [everything(story) for story in (stories[0], stories[2])] == others
        assert list(store.audit()) == []
        must_verify(stories[0].log)

    def test_every_remaining_commit_is_found_by_its_id(
        self, store: StorePort, project: Story
    ) -> None:
        """Also one whose id has the same prefix as a purged one."""
        gone, kept = told(store, "gone"), told(store, "kept")
        digits = "0190aaaabbbb7ccc"  # the part that is made from the time is the same in all
        places = []
        for n in range(12):
            story = (gone, kept)[n % 2]
            story.add(story.drafts.make("fact", id=f"k_{digits}{n:016x}"))
            places.append(f"k_{digits}{n:016x}")
        store.rebuild()
        project.add(purging(project, gone.session))
        assert [bool(store.locate(place)) for place in places] == [False, True] * 6
        assert list(store.audit()) == []

    def test_a_commit_id_of_a_purged_session_can_be_used_again(
        self, store: StorePort, project: Story
    ) -> None:
        """The id is free after the purge."""
        gone, kept = told(store, "gone"), told(store, "kept")
        fact = gone.fact("x", 1)
        project.add(purging(project, gone.session))
        assert kept.add(kept.drafts.make("fact", id=fact.id)).id == fact.id

    def test_a_session_with_a_fork_cannot_be_purged(self, store: StorePort, project: Story) -> None:
        """Nothing is written; after its fork is purged it can be purged too."""
        parent = told(store, "parent")
        parent.fact("x", 1)
        fork = parent.fork("fork")
        before = project.log
        with pytest.raises(Conflict):
            project.add(purging(project, parent.session))
        assert project.log == before
        assert find(store, fork.session, "facts", "x") is not None
        project.add(purging(project, fork.session), purging(project, parent.session))
        assert [row.id for row in store.sessions(SessionQuery()).rows] == [project.session]

    def test_several_purges_in_one_append_all_happen_or_none(
        self, store: StorePort, project: Story
    ) -> None:
        """A missing session prevents the purge of the other."""
        kept = told(store, "kept")
        before = everything(kept)
        with pytest.raises(NotFound):
            project.add(purging(project, kept.session), purging(project, Ids("no")("session")))
        assert everything(kept) == before

    def test_a_driven_session_cannot_be_purged(self, store: StorePort, project: Story) -> None:
        """After its driver ends, it can be purged."""
        driven = begin(store, project=PROJECT).drive()
        with pytest.raises(Busy):
            project.add(purging(project, driven.session))
        store.release(Lease(driven.session, driven.drafts.epoch))
        project.add(purging(project, driven.session))
        with pytest.raises(NotFound):
            store.session(driven.session)

    def test_only_the_session_of_a_project_purges_and_only_sessions_of_that_project(
        self, store: StorePort, project: Story
    ) -> None:
        """Neither sessions of other projects nor the project session itself can be purged."""
        kept, other = told(store, "kept"), told(store, "other", project="elsewhere")
        with pytest.raises(InvalidInput):
            kept.add(kept.drafts.make("purge", Purge(kept.session)))
        for session in (other.session, project.session):
            with pytest.raises(InvalidInput):
                project.add(purging(project, session))

    def test_the_session_that_notes_copies_purges_those_of_any_project(
        self, store: StorePort
    ) -> None:
        """What was purged where it came from is purged here without a commit in the project's own session."""
        gone = told(store, "gone", project="elsewhere")
        notes = told(store, "(project)", project=COPIES, mode="project")
        notes.add(purging(notes, gone.session))
        with pytest.raises(NotFound):
            store.session(gone.session)

    def test_repeating_a_purge_returns_the_first_commit(
        self, store: StorePort, project: Story
    ) -> None:
        """The session is not purged twice."""
        gone = told(store, "gone")
        draft = purging(project, gone.session)
        first = project.add(draft)
        assert project.add(draft) == first

    def test_a_session_with_erased_content_can_be_purged(
        self, store: StorePort, project: Story
    ) -> None:
        """Payloads shared with another session are kept there."""
        gone, kept = told(store, "gone"), told(store, "kept")
        seq = gone.entry(large_text()).seq
        gone.entry(large_text())
        held = kept.entry(large_text())
        gone.add(gone.drafts.make("erasure", Erase(seq=seq)))
        project.add(purging(project, gone.session))
        assert kept.log[held.seq - 1].value("output") == large_text()
        assert list(store.audit()) == []


class TestUsage:
    def test_usage_has_the_same_total_for_every_grouping(self, store: StorePort) -> None:
        """By session, by tier and by kind, including indexes and free pages."""
        for name in ("one", "two"):
            story = told(store, name)
            story.turn("prompt")
            story.entry(large_text())
            story.fact("x", 1)
        sums = {sum(store.usage(by=by).values()) for by in ("session", "tier", "kind")}
        assert len(sums) == 1
        whole = store.usage()
        assert sums == {whole.get("file", whole["log"])}

    def test_usage_knows_what_each_session_recorded(self, store: StorePort) -> None:
        """As its counts have it, also what is not in any index yet."""
        one, two = told(store, "one"), told(store, "two")
        one.entry("x" * 1000)
        two.entry(large_text())
        held = {
            session: getattr(store.session(session, counted=True).counts, "content_bytes", None)
            for session in (one.session, two.session)
        }
        assert store.usage(by="recorded") == held
        assert store.usage(by="recorded", session=one.session) == {one.session: held[one.session]}

    def test_usage_of_one_session_counts_only_that_session(self, store: StorePort) -> None:
        """Transcript and state are separate tiers."""
        one, two = told(store, "one"), told(store, "two")
        one.entry("x" * 1000)
        two.fact("x", 1)
        by_session = store.usage(by="session")
        for story in (one, two):
            tiers = store.usage(by="tier", session=story.session)
            assert sum(tiers.values()) == by_session[story.session]
        assert "transcript" not in store.usage(by="tier", session=two.session)
