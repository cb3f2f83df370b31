"""Everything of one store, copied into another."""

from __future__ import annotations

import contextlib

import pytest

import stator
from runtime.bundle_fixtures import bulky, findings, machine, work
from runtime.exchange_fixtures import SECRET, fates, heads, logs, purge, turn
from stator.errors import ForeignStore, InvalidInput, StoreUnreachable
from stator.model.records.types import ErasedRecord
from stator.model.sessions.ownership import Ownership
from stator.runtime.base.project_flags import HOLD, put, tombstones
from stator.runtime.base.provenance import imported_upto
from stator.runtime.exchange import delivery
from stator.runtime.facade.store import Store
from stator.store.contract.distance.faulty_store import FaultPlan, faulty


@pytest.fixture
def here(tmp_path):
    with machine(tmp_path / "here", "shop") as store:
        yield store


@pytest.fixture
def there(tmp_path):
    with machine(tmp_path / "there", "shop") as store:
        yield store


def test_a_copy_has_every_session_with_its_commits_and_hashes(here, there):
    work(here)
    here.fork("fix-login", "t2", as_name="other way")
    here.prefer("indent", "tabs")
    report = here.copy_to(there)
    assert logs(there) == logs(here)
    assert report.verified == len(report.sessions) == 3
    assert findings(there) == []


def test_copying_again_sends_nothing(here, there):
    work(here)
    here.copy_to(there)
    report = here.copy_to(there)
    assert (report.commits, fates(report)) == (0, {"fix-login": "same"})


def test_a_later_copy_brings_only_what_is_new(here, there):
    work(here)
    here.copy_to(there)
    turn(here, "fix-login", 1)
    new = (
        here.port.head(here.read("fix-login").id).seq
        - there.port.head(there.read("fix-login").id).seq
    )
    assert here.copy_to(there).commits == new
    assert heads(there) == heads(here)


def test_a_dry_run_says_how_much_and_writes_nothing(here, there):
    work(here)
    report = here.copy_to(there, dry_run=True)
    assert report.commits == here.read("fix-login").head.seq
    assert heads(there) == {}
    assert here.copy_to(there).commits == report.commits


def test_a_copied_session_can_be_driven_and_verifies(here, there):
    work(here)
    here.copy_to(there)
    turn(there, "fix-login", "there")
    turn(there, "new one", "there")
    assert findings(there) == []


def test_what_was_erased_stays_erased_in_a_copy(here, there):
    session = turn(here, "s", "umbrella")
    here.erase(here.erasing("s", record=("facts", "value")))
    here.copy_to(there)
    (fact,) = there.read(session).state()["facts"].values()
    assert isinstance(fact, ErasedRecord)
    assert findings(there) == []


def test_an_erasure_after_a_copy_takes_the_content_away_there(here, there, tmp_path):
    turn(here, "s", "umbrella-marker")
    here.copy_to(there)
    here.erase(here.erasing("s"))
    turn(here, "s", "after it")
    report = here.copy_to(there)
    assert [one.erasures for one in report.sessions] == [1]
    assert logs(there) == logs(here)
    there.close()
    found = [p for p in (tmp_path / "there").iterdir() if b"umbrella-marker" in p.read_bytes()]
    assert found == []


def test_a_search_in_the_copy_no_longer_finds_what_was_erased(here, there):
    turn(here, "s", "umbrella", prompt="the umbrella")
    here.copy_to(there)
    assert there.search("umbrella")
    here.erase(here.erasing("s"))
    here.copy_to(there)
    assert there.search("umbrella", fresh=False) == []


def test_a_session_that_was_purged_after_a_copy_is_purged_there_too(here, there):
    session = turn(here, "s", 1)
    kept = turn(here, "t", 1)
    here.copy_to(there)
    purge(here, session)
    report = here.copy_to(there)
    assert [(one.session, one.name) for one in report.purged_there] == [(session, "s")]
    assert (report.purged, report.findings) == ([], [])
    assert session not in heads(there)
    assert kept in heads(there)
    assert [one.session for one in tombstones(there.port)] == [session]
    assert findings(there) == []


def test_after_a_purge_was_carried_the_next_copy_has_nothing_to_do(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    purge(here, session)
    here.copy_to(there)
    report = here.copy_to(there)
    assert (report.commits, report.purged, report.purged_there) == (0, [], [])
    assert set(fates(report).values()) == {"same"}


def test_the_tombstone_goes_too_where_the_other_store_has_a_project_session_of_its_own(here, there):
    there.prefer("indent", "spaces")
    session = turn(here, "s", 1)
    here.prefer("indent", "tabs")
    here.copy_to(there)
    purge(here, session)
    (gone,) = here.copy_to(there).purged_there
    assert gone.session == session
    (stone,) = tombstones(there.port)
    assert (stone.session, stone.by, stone.policy) == (session, "local:test", "asked to")


def test_a_dry_run_says_what_would_be_purged_there_and_purges_nothing(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    purge(here, session)
    assert [one.session for one in here.copy_to(there, dry_run=True).purged_there] == [session]
    assert session in heads(there)


def test_a_fork_is_purged_there_with_what_it_continues(here, there):
    session = turn(here, "s", 1)
    turn(here, "s", 2)
    fork = here.fork("s", "t1", as_name="other way").id
    here.copy_to(there)
    purge(here, fork)
    purge(here, session)
    assert {one.session for one in here.copy_to(there).purged_there} == {session, fork}
    assert findings(there) == []


def test_a_purged_session_that_was_continued_there_stays_and_is_named(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    turn(there, "s", 2)
    purge(here, session)
    report = here.copy_to(there)
    assert [(one.session, one.why) for one in report.purged] == [
        (session, "it was continued there")
    ]
    assert session in heads(there)


def test_a_session_that_arrived_in_part_and_was_continued_there_stays(here, there, monkeypatch):
    """It is not longer than what was to be sent, and still holds what is nowhere else."""
    monkeypatch.setattr(delivery, "COMMITS", 4)
    for number in range(6):
        session = turn(here, "s", number)
    cut = FaultPlan(at=2, faults=100, methods=frozenset({"ingest"}))
    with pytest.raises(StoreUnreachable):
        here.copy_to(Store(faulty(there.port, cut), _giving_up(there)))
    turn(there, "s", "only there")
    assert there.port.head(session).seq < here.port.head(session).seq
    purge(here, session)
    assert [one.session for one in here.copy_to(there).purged] == [session]
    assert session in heads(there)


def test_a_session_that_another_store_sent_there_stays(here, there, tmp_path):
    """Who tidies a copy of a copy does not take the session from the store that both have."""
    session = turn(here, "s", 1)
    here.copy_to(there)
    with machine(tmp_path / "third", "shop") as third:
        there.copy_to(third)
        purge(third, session)
        report = third.copy_to(there)
    assert [(one.session, one.why) for one in report.purged] == [
        (session, "another store sent it there")
    ]
    assert session in heads(there)


def test_a_purged_session_that_is_held_there_stays_and_is_named(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    put(there.port, there.context, there.port.session(session), HOLD, by="local:test", why="audit")
    purge(here, session)
    report = here.copy_to(there)
    assert [(one.session, one.why) for one in report.purged] == [(session, "it is held there")]
    assert session in heads(there)


def test_a_session_that_was_purged_there_does_not_come_back(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    purge(there, session)
    (refused,) = here.copy_to(there).findings
    assert "purged" in refused.why
    assert session not in heads(there)


def test_a_session_that_diverged_is_left_as_it_is_on_both_sides(here, there):
    session = turn(here, "s", 1)
    turn(here, "t", 1)
    here.copy_to(there)
    turn(here, "s", 2)
    turn(here, "t", 2)
    turn(there, "s", 3)
    before = logs(there)[session]
    report = here.copy_to(there)
    assert fates(report) == {"s": "diverged", "t": "continued"}
    assert logs(there)[session] == before


def test_a_session_that_was_continued_in_the_copy_is_said_to_be_longer(here, there):
    turn(here, "s", 1)
    here.copy_to(there)
    turn(there, "s", 2)
    assert fates(here.copy_to(there)) == {"s": "longer there"}


def test_a_name_that_another_session_has_there_holds_up_that_session_only(here, there):
    mine, other = turn(here, "s", 1), turn(here, "other", 1)
    turn(there, "s", 2)
    report = here.copy_to(there)
    assert fates(report) == {"s": "refused", "other": "new"}
    assert mine not in heads(there)
    assert heads(there)[other] == heads(here)[other]


def test_a_conversation_that_is_recorded_there_is_not_taken_from_its_session(here, there):
    for store in (here, there):
        store.open("of " + store.info().id[-4:], aliases=[("hook", "conversation-1")]).close()
    (refused,) = here.copy_to(there).sessions
    assert (refused.fate, "conversation-1" in refused.why) == ("refused", True)


def test_a_fork_of_a_session_that_is_refused_is_refused_too(here, there):
    turn(here, "s", 1)
    here.fork("s", as_name="fork")
    turn(there, "s", 2)
    assert fates(here.copy_to(there)) == {"s": "refused", "fork": "refused"}


def test_marks_of_imported_sessions_go_with_a_copy(here, there, tmp_path):
    with machine(tmp_path / "third", "elsewhere") as third:
        session = turn(third, "s", 1)
        third.export("s", tmp_path / "x.stator")
    here.import_bundle(tmp_path / "x.stator", project="shop")
    here.copy_to(there)
    assert imported_upto(there.port, there.port.session(session).record) > 0


def test_marks_of_imported_sessions_are_kept_where_the_project_has_its_own_session(
    here, there, tmp_path
):
    there.prefer("indent", "tabs")
    with machine(tmp_path / "third", "elsewhere") as third:
        session = turn(third, "s", 1)
        third.export("s", tmp_path / "x.stator")
    here.import_bundle(tmp_path / "x.stator", project="shop")
    report = here.copy_to(there)
    assert fates(report) == {"(project)": "refused", "s": "new"}
    assert imported_upto(there.port, there.port.session(session).record) > 0


def test_what_was_not_imported_is_not_marked_by_a_copy(here, there):
    session = turn(here, "s", 1)
    here.copy_to(there)
    assert imported_upto(there.port, there.port.session(session).record) == 0


def test_a_foreign_store_is_not_copied(here, there):
    turn(here, "s", 1)
    here.port.ownership = Ownership("is not on the list of your stores")
    with pytest.raises(ForeignStore) as refused:
        here.copy_to(there)
    assert "pull" in refused.value.hint
    assert heads(there) == {}


def test_a_store_is_not_copied_into_itself(here, tmp_path):
    with stator.connect(tmp_path / "here" / "agent.db") as same, pytest.raises(InvalidInput):
        here.copy_to(same)


def test_a_session_that_is_driven_is_copied_as_it_is_now(here, there):
    with here.open("s") as s, s.turn("open") as t:
        t.fact("value", 1)
        report = here.copy_to(there)
        assert heads(there) == heads(here)
        t.fact("value", 2)
    assert report.verified == 1
    here.copy_to(there)
    assert heads(there) == heads(here)


def test_a_session_that_is_driven_there_is_refused_until_it_is_free(here, there):
    turn(here, "s", 1)
    here.copy_to(there)
    turn(here, "s", 2)
    with there.open("s"):
        report = here.copy_to(there)
    assert fates(report)["s"] in ("refused", "diverged")


def test_a_session_of_several_transactions_arrives_whole(here, there, monkeypatch):
    monkeypatch.setattr(delivery, "COMMITS", 3)
    work(here)
    bulky(here)
    here.copy_to(there)
    assert logs(there) == logs(here)


def test_a_copy_that_ends_half_way_is_continued_by_the_next(here, there, monkeypatch):
    monkeypatch.setattr(delivery, "COMMITS", 4)
    work(here)
    here.fork("fix-login", "t2", as_name="other way")
    for at in range(1, 12):
        store = Store(
            faulty(there.port, FaultPlan(at=at, methods=frozenset({"ingest"}))), _giving_up(there)
        )
        with contextlib.suppress(StoreUnreachable):
            here.copy_to(store)
    here.copy_to(there)
    assert logs(there) == logs(here)
    assert findings(there) == []


@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_copy_to_a_store_that_loses_an_answer_doubles_nothing(here, there, when, at, monkeypatch):
    monkeypatch.setattr(delivery, "COMMITS", 5)
    work(here)
    store = Store(faulty(there.port, FaultPlan(at=at, when=when)), there.context)
    assert here.copy_to(store).findings == []
    assert logs(there) == logs(here)


def _giving_up(store):
    """A context in which nothing is asked twice."""
    import msgspec

    clock = iter(range(0, 10**9, 1000))
    return msgspec.structs.replace(store.context, monotonic=lambda: float(next(clock)))


def test_the_sessions_of_a_tenant_are_copied_through_its_connections(tmp_path):
    path = tmp_path / "shared.db"
    with (
        stator.connect(path, tenant="us", project="shop") as us,
        stator.connect(path, tenant="them", project="shop") as them,
        stator.connect(tmp_path / "copy.db", tenant="us") as copied,
    ):
        mine, theirs = turn(us, "s", 1), turn(them, "s", SECRET)
        us.copy_to(copied)
        assert set(heads(copied)) == {mine}
        assert theirs not in heads(copied)


def test_a_session_of_another_tenant_is_refused_by_a_connection(tmp_path):
    with (
        stator.connect(tmp_path / "all.db", project="shop") as everyone,
        stator.connect(tmp_path / "copy.db", tenant="us") as copied,
    ):
        turn(everyone, "s", 1)
        (refused,) = everyone.copy_to(copied).findings
        assert "tenant" in refused.why


def test_stores_of_other_kinds_are_copied_alike(here):
    work(here)
    with stator.connect("memory:") as memory, stator.connect("memory:") as second:
        here.copy_to(memory)
        memory.copy_to(second)
        assert logs(second) == logs(here)


def test_progress_is_reported_up_to_the_last_commit(here, there):
    work(here)
    seen = []
    here.copy_to(there, progress=lambda what, done, total: seen.append((done, total)))
    assert seen[-1] == (here.read("fix-login").head.seq,) * 2
