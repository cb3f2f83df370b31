"""A session of another store, brought here."""

from __future__ import annotations

import pytest

from runtime.bundle_fixtures import findings, machine, work
from runtime.exchange_fixtures import heads, logs, purge, turn
from runtime.waiting import ask_for
from stator.errors import Conflict, ErasesHere, InvalidInput, NotFound
from stator.model.sessions.ownership import Ownership
from stator.runtime.base.provenance import imported_upto, provenance
from stator.runtime.driving import approvals
from stator.runtime.facade.store import Store
from stator.store.contract.distance.faulty_store import FaultPlan, faulty


@pytest.fixture
def here(tmp_path):
    with machine(tmp_path / "here", "shop") as store:
        yield store


@pytest.fixture
def team(tmp_path):
    with machine(tmp_path / "team", "shop") as store:
        yield store


def fate(pulled):
    (one,) = (o for o in pulled.imported.sessions if o.into == pulled.session)
    return one.fate


def test_a_session_that_is_not_here_is_new_with_its_id_and_head(here, team):
    work(team)
    pulled = here.pull_from(team, "fix-login")
    assert fate(pulled) == "new"
    assert heads(here)[pulled.session] == heads(team)[pulled.session]
    assert findings(here) == []


def test_a_session_that_was_continued_there_is_continued_here(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    turn(team, "s", 2)
    pulled = here.pull_from(team, "s")
    assert fate(pulled) == "fast-forward"
    assert heads(here)[pulled.session] == heads(team)[pulled.session]


def test_pulling_again_fetches_nothing(here, team):
    turn(team, "s", 1)
    here.pull_from(team, "s")
    again = here.pull_from(team, "s")
    assert (fate(again), again.imported.bytes) == ("same", 0)


def test_a_session_that_is_longer_here_stays_as_it_is(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    session = turn(here, "s", 2)
    before = logs(here)[session]
    assert fate(here.pull_from(team, "s")) == "longer here"
    assert logs(here)[session] == before


def diverged(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    turn(here, "s", "mine")
    turn(team, "s", "theirs")
    return session


def test_if_both_have_new_commits_the_other_becomes_a_fork(here, team):
    session = diverged(here, team)
    before = logs(here)[session]
    pulled = here.pull_from(team, "s")
    assert (fate(pulled), pulled.session != session) == ("fork", True)
    assert logs(here)[session] == before
    assert [e.record.value for e in here.read(pulled.session).entries("facts")] == ["theirs"]


def test_the_fork_has_the_name_that_was_asked_for(here, team):
    diverged(here, team)
    assert here.pull_from(team, "s", as_name="theirs").name == "theirs"
    assert here.read("theirs").record.parent.kind == "import"


def test_pulling_a_diverged_session_again_continues_the_same_fork(here, team):
    diverged(here, team)
    first = here.pull_from(team, "s", as_name="theirs")
    turn(team, "s", "more of theirs")
    second = here.pull_from(team, "s", as_name="theirs")
    assert (second.session, fate(second)) == (first.session, "fast-forward")


def test_a_new_session_under_another_name_is_a_fork_at_its_head(here, team):
    turn(team, "s", 1)
    pulled = here.pull_from(team, "s", as_name="mine")
    assert here.read("mine").id == pulled.forked
    assert here.read("mine").record.parent.session == pulled.session
    assert here.pull_from(team, "s", as_name="mine").forked == pulled.forked


def test_a_name_that_is_taken_is_refused(here, team):
    turn(team, "s", 1)
    turn(here, "mine", 1)
    with pytest.raises(Conflict):
        here.pull_from(team, "s", as_name="mine")


def test_a_new_session_whose_name_is_taken_goes_into_another_project(here, team):
    turn(here, "s", 1)
    session = turn(team, "s", 2)
    with pytest.raises(Conflict):
        here.pull_from(team, session)
    pulled = here.pull_from(team, session, project="theirs")
    assert here.port.session(pulled.session).record.project == "theirs"


def test_what_was_pulled_counts_as_imported(here, team):
    work(team)
    pulled = here.pull_from(team, "fix-login")
    record = here.port.session(pulled.session).record
    assert imported_upto(here.port, record) == team.port.head(pulled.session).seq
    sources = {provenance(here.port, commit).source for commit in logs(here)[pulled.session]}
    assert sources == {"import"}


def test_a_session_of_a_foreign_store_can_be_pulled(here, team):
    turn(team, "s", 1)
    team.port.ownership = Ownership("is not on the list of your stores")
    pulled = here.pull_from(team, "s")
    assert imported_upto(here.port, here.port.session(pulled.session).record) > 0


def test_an_approval_that_was_given_there_must_be_given_again_here(here, team):
    with team.open("s") as s:
        call = ask_for(s, "pay", amount=5)
    approvals.approve(team.port, team.context, call, by="local:ann", scope="session")
    pulled = here.pull_from(team, "s")
    assert approvals.standing(team.port, pulled.session) != []
    now = here.context.clock()
    assert {one.state for one in approvals.grants(here.port, now=now)} == {"imported"}


def test_content_that_was_left_out_by_a_push_stays_here(here, team):
    session = turn(here, "s", "the umbrella case")
    here.push_to(team, redact=["umbrella"])
    turn(team, "s", 2)
    here.pull_from(team, "s")
    assert "umbrella" in repr(logs(here)[session])


def test_an_erasure_there_is_refused_here_unless_it_is_asked_for(here, team):
    turn(here, "s", "umbrella")
    here.push_to(team)
    team.erase(team.erasing("s"))
    with pytest.raises(ErasesHere):
        here.pull_from(team, "s")
    here.pull_from(team, "s", erasures="apply")
    assert "umbrella" not in repr(logs(here))


def test_a_dry_run_writes_nothing(here, team):
    turn(team, "s", 1)
    pulled = here.pull_from(team, "s", dry_run=True, as_name="mine")
    assert fate(pulled) == "new"
    assert heads(here) == {}


def test_a_session_that_is_driven_here_and_was_continued_there_becomes_a_fork(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    turn(team, "s", 2)
    with here.open("s") as s, s.turn("here"):
        assert fate(here.pull_from(team, "s")) == "fork"


def test_a_session_that_was_purged_here_does_not_come_back(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    purge(here, session)
    with pytest.raises(Conflict, match="purged"):
        here.pull_from(team, session)


def test_a_session_that_is_not_there_is_not_found(here, team):
    with pytest.raises(NotFound):
        here.pull_from(team, "nothing")


def test_a_store_does_not_pull_from_itself(here, tmp_path):
    session = turn(here, "s", 1)
    with machine(tmp_path / "here", "shop") as same, pytest.raises(InvalidInput):
        here.pull_from(same, session)


def test_children_come_along(here, team):
    with team.open("s") as s, s.turn("x"), s.child("sub") as child, child.turn("y") as inner:
        inner.say("done")
    pulled = here.pull_from(team, "s")
    assert {child.id, pulled.session} <= set(heads(here))


@pytest.mark.parametrize("at", range(1, 8))
def test_a_pull_from_a_store_that_loses_answers_brings_the_same(here, team, at):
    work(team)
    reads = frozenset({"head", "packed", "session", "commits", "together", "entries"})
    far = Store(faulty(team.port, FaultPlan(at=at, methods=reads)), team.context)
    pulled = here.pull_from(far, "fix-login")
    assert logs(here)[pulled.session] == logs(team)[pulled.session]


def test_a_session_is_found_in_the_project_that_another_user_has_for_the_repository(here, team):
    with team.open("s", project="their shop") as s, s.turn("x"):
        pass
    pulled = here.pull_from(team, "s")
    assert here.port.session(pulled.session).record.project == "shop"
