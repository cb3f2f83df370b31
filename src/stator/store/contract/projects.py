"""What an index of projects promises: it answers as the fold over all logs does, and forgets what is removed."""

from __future__ import annotations

import functools
from typing import Any

from stator.model.log.commit import Erase, Purge, Remove, Upsert
from stator.model.log.delta import Drop
from stator.model.log.query import Lease, SessionQuery
from stator.model.records.types import (
    DecisionRecord,
    ForgottenRecord,
    Parent,
    PreferenceRecord,
    SessionRecord,
)
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.knowledge import SessionKnowledge, learn
from stator.model.views.project_state import (
    HeldKey,
    Learned,
    SessionAbout,
    ancestors,
    counted_upto,
    newest,
    settle_all,
)
from stator.model.views.search import Mark
from stator.store.contract.drive import Drafts, Ids, Story, begin, lineage
from stator.store.port import ProjectIndex, StorePort

PROJECT = "project"


def teach(store: StorePort, index: ProjectIndex) -> dict[str, tuple[list[HeldKey], int]]:
    """Tell an index what every session of a store knows; what it must answer then."""
    _, gone = index.behind()
    index.drop(gone)
    rows = {row.id: row for row in store.sessions(SessionQuery(), limit=100).rows}
    records = {session: row.record for session, row in rows.items()}
    group: list[Learned] = []
    for row in rows.values():
        upto = counted_upto(row.record, records.get, lambda session: False)
        known = SessionKnowledge()
        for commit in store.commits(row.id, after=lent_upto(row.record.lineage)):
            if commit.seq <= upto:
                learn(known, commit, dropped_key=functools.partial(_key, store, row.id))
        head, was = store.head(row.id), index.known(row.id)
        group.append(
            Learned(
                about=SessionAbout(
                    row.id,
                    row.record.name,
                    row.record.agent,
                    row.updated,
                    "project" if row.record.mode == "project" else "session",
                    ancestors(row.record, records.get),
                ),
                project=row.record.project,
                mark=Mark(head.seq, row.updated, head.hash),
                knowledge=known,
                before=0 if was is None else was.revision,
                upto=upto,
                parent="" if row.record.parent is None else row.record.parent.session,
                continues=row.record.continues,
                adopted=row.record.adopted,
                anew=True,
            )
        )
    index.put([group])
    index.scrub()
    counted = [(one.about, one.knowledge) for one in group if one.upto and one.project == PROJECT]
    return newest(settle_all(counted), 50)


def _key(store: StorePort, session: str, op: Drop, seq: int) -> str:
    versions = store.versions(session, after=seq - 1, upto=seq, collections=(op.collection,))
    return next(one.key for one in versions if one.op == op)


def told(store: StorePort, name: str, **fields: Any) -> Story:
    return begin(store, name, mode="recorded", project=PROJECT, **fields)


def own(store: StorePort) -> Story:
    return begin(store, "(project)", mode="project", project=PROJECT)


def asked(store: StorePort, index: ProjectIndex) -> dict[str, list[HeldKey]]:
    """What holds, by collection; it is what the fold over the whole log says."""
    wanted = teach(store, index)
    found = index.settled(PROJECT, limit=50)
    assert found == wanted
    return {name: entries for name, (entries, _) in found.items()}


def facts(store: StorePort, index: ProjectIndex) -> dict[str, object]:
    return {one.value.key: one.value.record.value for one in asked(store, index)["facts"]}  # type: ignore[attr-defined]


class TestProjectIndex:
    def test_the_newest_value_of_a_key_holds(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """What it replaced in its own session is an earlier value."""
        one = told(store, "one")
        one.fact("colour", "red")
        one.fact("colour", "blue")
        (held,) = asked(store, project_index)["facts"]
        assert held.value.record.value == "blue"  # type: ignore[attr-defined]
        assert [value.record.value for value in held.earlier] == ["red"]  # type: ignore[attr-defined]

    def test_sessions_that_were_both_used_since_are_in_conflict(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """A session that was not used since the newer value is not: its value is an earlier one."""
        one, two = told(store, "one"), told(store, "two")
        one.fact("colour", "red")
        two.fact("colour", "blue")
        (held,) = asked(store, project_index)["facts"]
        assert (len(held.conflicts), len(held.earlier)) == (0, 1)
        one.fact("other", 1)
        held = next(h for h in asked(store, project_index)["facts"] if h.value.key == "colour")
        assert [value.session for value in held.conflicts] == [one.session]

    def test_a_value_for_the_whole_project_ends_a_conflict(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """It is newer than those of the sessions, and a person's word."""
        one, two, project = told(store, "one"), told(store, "two"), own(store)
        for story, way in ((one, "tabs"), (two, "spaces"), (project, "tabs")):
            record = PreferenceRecord(name="indent", value=way)
            story.add(story.drafts.make("preference", Upsert("preferences", record)))
        one.fact("x", 1)
        two.fact("x", 1)
        (held,) = asked(store, project_index)["preferences"]
        assert (held.value.session, held.conflicts) == (project.session, [])

    def test_a_forgotten_key_holds_again_once_it_is_recorded_later(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """Only values up to the time that is named are hidden."""
        one, project = told(store, "one"), own(store)
        made = one.fact("colour", "red")
        record = ForgottenRecord(collection="facts", name="colour", upto=made.used)
        project.add(project.drafts.make("forget", Upsert("forgotten", record)))
        assert facts(store, project_index) == {}
        one.fact("colour", "green")
        assert facts(store, project_index) == {"colour": "green"}

    def test_an_erased_record_is_not_known_any_more(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """Neither is what a search of its key would find."""
        one = told(store, "one")
        made = one.fact("colour", "red")
        assert facts(store, project_index) == {"colour": "red"}
        one.add(one.drafts.make("erasure", Erase(seq=made.seq)))
        assert facts(store, project_index) == {}
        assert project_index.find(PROJECT, "facts", "colour") is None

    def test_a_purged_session_is_not_known_any_more(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """What another session says of the key holds again."""
        one, two, project = told(store, "one"), told(store, "two"), own(store)
        one.fact("colour", "red")
        two.fact("colour", "blue")
        assert facts(store, project_index) == {"colour": "blue"}
        project.add(project.drafts.make("purge", Purge(two.session)))
        assert facts(store, project_index) == {"colour": "red"}
        assert project_index.known(two.session) is None

    def test_a_driven_fork_counts_only_once_it_is_adopted(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """Then what its parent recorded after the fork does not."""
        parent = begin(store, "parent", project=PROJECT).drive()
        parent.fact("colour", "red")
        fork = parent.fork("fork")
        parent.fact("colour", "blue")
        fork.drive().fact("colour", "green")
        assert facts(store, project_index) == {"colour": "blue"}
        record = SessionRecord(id=parent.session, name="parent", adopted=fork.session)
        parent.add(parent.drafts.make("adopt", Upsert("session", record)))
        assert facts(store, project_index) == {"colour": "green"}
        store.release(Lease(parent.session, parent.drafts.epoch))

    def test_a_recorded_fork_counts_as_a_session_of_its_own(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """Both go on; what only the fork dropped is dropped from what it had from its parent."""
        parent = told(store, "parent")
        parent.fact("colour", "red")
        parent.fact("size", 1)
        fork = parent.fork("fork")
        fork.fact("shape", "round")
        fork.add(fork.drafts.make("fact", Remove("facts", "size")))
        assert facts(store, project_index) == {"colour": "red", "shape": "round"}

    def test_a_drop_leaves_the_values_of_strangers(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """A session drops from itself and from those it continues."""
        one, two = told(store, "one"), told(store, "two")
        one.fact("size", 1)
        two.fact("size", 2)
        two.add(two.drafts.make("fact", Remove("facts", "size")))
        assert facts(store, project_index) == {"size": 1}
        three = told(store, "three", continues=one.session)
        three.fact("size", 3)
        three.add(three.drafts.make("fact", Remove("facts", "size")))
        assert facts(store, project_index) == {}

    def test_the_records_of_a_retry_that_was_left_do_not_count(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """Nor do those of its sub-agents."""
        parent = begin(store, "parent", project=PROJECT).drive()
        at = parent.fact("colour", "red")
        ids = Ids("retry")
        drafts = Drafts(ids, ids("session"))
        record = SessionRecord(
            id=drafts.session,
            name="retry",
            lineage=lineage(parent.row.record, at.seq),
            parent=Parent(session=parent.session, seq=at.seq, hash=at.hash, kind="retry"),
            project=PROJECT,
        )
        store.create([drafts.make("fork", Upsert("session", record), actor="system", epoch=0)])
        retry = Story(store, drafts).drive()
        head = retry.fact("colour", "blue")
        place = Parent(session=retry.session, seq=head.seq, hash=head.hash, kind="child")
        told(store, "child", parent=place).fact("size", 1)
        assert facts(store, project_index) == {"colour": "red"}

    def test_the_answer_is_cut_and_the_rest_counted(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """The newest come first."""
        one = told(store, "one")
        for n in range(5):
            decision = DecisionRecord(what=f"choice {n}", topic=f"topic {n}")
            one.add(one.drafts.make("decision", Upsert("decisions", decision)))
        teach(store, project_index)
        entries, count = project_index.settled(PROJECT, limit=2)["decisions"]
        assert ([one.value.key for one in entries], count) == (["topic 4", "topic 3"], 5)

    def test_an_index_that_was_told_everything_is_not_behind(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """A new commit makes it so, for its session alone."""
        one, two = told(store, "one"), told(store, "two")
        one.fact("colour", "red")
        teach(store, project_index)
        assert project_index.behind() == ([], [])
        two.fact("colour", "blue")
        assert project_index.behind() == ([two.session], [])

    def test_a_group_with_a_session_that_changed_in_between_is_left_out(
        self, store: StorePort, project_index: ProjectIndex
    ) -> None:
        """All of it: nothing of what an outdated reader knew is put."""
        one = told(store, "one")
        one.fact("colour", "red")
        first = asked(store, project_index)
        known = project_index.known(one.session)
        about = project_index.about([one.session])[one.session]
        assert known is not None
        late = Learned(
            about=about, project=PROJECT, mark=known.mark, knowledge=SessionKnowledge(), before=0
        )
        assert not project_index.put([[late]])
        assert asked(store, project_index) == first
