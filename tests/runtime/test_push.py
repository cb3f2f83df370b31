"""Projects of one's own store, pushed to a store that others read."""

from __future__ import annotations

import contextlib

import pytest

import stator
from runtime.bundle_fixtures import findings, machine, work
from runtime.exchange_fixtures import SECRET, fates, heads, logs, purge, turn
from stator.errors import ForeignStore, InvalidInput, StoreUnreachable
from stator.model.log.commit import Gone
from stator.model.sessions.ownership import Ownership
from stator.runtime.base import project_flags
from stator.runtime.base.provenance import imported_upto
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


def test_a_push_sends_the_sessions_of_the_current_project_with_ids_and_hashes(here, team):
    work(here)
    with here.open("elsewhere", project="other"):
        pass
    assert fates(here.push_to(team)) == {"fix-login": "new"}
    mine = here.read("fix-login")
    assert team.port.head(mine.id).hash == mine.head.hash


def test_a_push_of_named_projects_sends_those(here, team):
    turn(here, "s", 1)
    with here.open("elsewhere", project="other"):
        pass
    assert fates(here.push_to(team, projects=["other"])) == {"elsewhere": "new"}


def test_a_push_of_no_project_is_refused(here, team):
    with pytest.raises(InvalidInput):
        here.push_to(team, projects=[])


def test_pushing_twice_is_pushing_once(here, team):
    work(here)
    here.push_to(team)
    before = logs(team)
    assert here.push_to(team).commits == 0
    assert logs(team) == before


def test_what_a_project_says_for_itself_is_not_pushed(here, team):
    turn(here, "s", 1)
    here.prefer("indent", "tabs")
    assert fates(here.push_to(team)) == {"s": "new"}
    assert "indent" not in repr(logs(team))


def test_a_secret_that_was_written_without_redaction_is_left_out(tmp_path, team):
    with stator.connect(tmp_path / "raw.db", project="shop", redact=False) as raw:
        session = turn(raw, "s", SECRET)
        report = raw.push_to(team)
        assert report.sessions[0].secrets > 0
        assert team.port.head(session) == raw.port.head(session)
    assert SECRET not in repr(logs(team))
    assert findings(team) == []


def test_the_preview_counts_the_secrets_that_stay(tmp_path, team):
    with stator.connect(tmp_path / "raw.db", project="shop", redact=False) as raw:
        turn(raw, "s", SECRET)
        before = raw.push_to(team, dry_run=True).sessions
        assert heads(team) == {}
        assert before == raw.push_to(team).sessions


def test_content_with_a_text_that_is_named_is_left_out(here, team):
    session = turn(here, "s", "the umbrella case")
    report = here.push_to(team, redact=["Umbrella"])
    assert report.sessions[0].withheld > 0
    assert "umbrella" not in repr(logs(team))
    gone = [i for c in logs(team)[session] for i in c.content.values() if isinstance(i, Gone)]
    assert gone


def test_the_authors_of_commits_stay_shown(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    assert [c.known("principal", "") for c in logs(team)[session]] == [
        c.known("principal", "") for c in logs(here)[session]
    ]


def test_what_was_pushed_is_marked_as_imported_there(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    record = team.port.session(session).record
    assert imported_upto(team.port, record) == team.port.head(session).seq


def test_a_session_that_is_driven_goes_up_to_its_last_ended_turn(here, team):
    with here.open("s") as s:
        with s.turn("first") as t:
            t.fact("value", 1)
        ended = s.head.seq
        with s.turn("second") as t:
            t.fact("value", 2)
            (sent,) = here.push_to(team).sessions
            assert (sent.seq, sent.held_back) == (ended, 2)
            assert team.port.head(s.id).seq == ended
    here.push_to(team)
    assert heads(team)[s.id] == heads(here)[s.id]


def test_a_driven_session_without_an_ended_turn_is_skipped_and_named(here, team):
    with here.open("s") as s, s.turn("first"):
        report = here.push_to(team)
    assert [one.name for one in report.skipped] == ["s"]
    assert "driven" in report.skipped[0].why
    assert s.id not in heads(team)


def test_pushing_again_while_a_turn_is_open_sends_nothing(here, team):
    turn(here, "s", 1)
    with here.open("s") as s, s.turn("more"):
        here.push_to(team)
        (sent,) = here.push_to(team).sessions
        assert (sent.fate, sent.commits) == ("same", 0)


def test_a_session_that_diverged_is_never_overwritten(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    turn(here, "s", 2)
    turn(team, "s", 3)
    before = logs(team)[session]
    assert fates(here.push_to(team)) == {"s": "diverged"}
    assert logs(team)[session] == before


def test_a_session_that_was_only_continued_there_is_said_to_be_longer(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    turn(team, "s", 3)
    assert fates(here.push_to(team)) == {"s": "longer there"}


def test_a_session_that_diverged_becomes_a_fork_there_if_asked(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    turn(here, "s", "mine")
    turn(team, "s", "theirs")
    before = logs(team)[session]
    (sent,) = here.push_to(team, forks=True).sessions
    assert sent.fate == "fork"
    assert logs(team)[session] == before
    assert [e.record.value for e in team.read(sent.into).entries("facts")] == ["mine"]
    assert findings(team) == []


def test_a_later_push_continues_the_fork_that_an_earlier_one_made(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    turn(here, "s", "mine")
    turn(team, "s", "theirs")
    (first,) = here.push_to(team, forks=True).sessions
    assert here.push_to(team, forks=True).sessions[0].fate == "same"
    turn(here, "s", "mine again")
    (second,) = here.push_to(team, forks=True).sessions
    assert (second.fate, second.into) == ("fork", first.into)


def test_a_fork_brings_what_it_continues(here, team):
    work(here)
    fork = here.fork("fix-login", "t2", as_name="fork")
    assert fates(here.push_to(team)) == {"fix-login": "new", "fork": "new"}
    assert heads(team)[fork.id] == heads(here)[fork.id]


def test_only_the_part_that_was_forked_goes_of_a_session_that_stays(here, team):
    turn(here, "s", 1)
    turn(here, "s", 2)
    fork = here.fork("s", "t1", as_name="fork")
    row = here.port.session(here.read("s").id)
    project_flags.put(here.port, here.context, row, project_flags.TRASH, by="local:t", why="old")
    report = here.push_to(team)
    assert [one.name for one in report.skipped] == ["s"]
    assert team.port.head(row.id).seq < row.head
    assert heads(team)[fork.id] == heads(here)[fork.id]


def test_an_erasure_after_a_push_is_carried(here, team):
    turn(here, "s", "umbrella")
    here.push_to(team)
    here.erase(here.erasing("s"))
    (sent,) = here.push_to(team).sessions
    assert sent.erasures == 1
    assert "umbrella" not in repr(logs(team))


def test_a_session_that_was_purged_after_a_push_is_named(here, team):
    session = turn(here, "s", 1)
    here.push_to(team)
    purge(here, session)
    assert [one.session for one in here.push_to(team).purged] == [session]


def test_two_people_with_a_session_of_one_name_are_told_what_to_do(here, team, tmp_path):
    turn(here, "main", 1)
    here.push_to(team)
    with machine(tmp_path / "second", "shop") as second:
        mine = turn(second, "main", 2)
        (refused,) = second.push_to(team).findings
        assert "--into" in refused.hint
        assert second.push_to(team, into="shop of ann").findings == []
        assert team.port.session(mine).record.project == "shop of ann"


def test_a_foreign_store_is_not_pushed(here, team):
    turn(here, "s", 1)
    here.port.ownership = Ownership("is not on the list of your stores")
    with pytest.raises(ForeignStore):
        here.push_to(team)


def test_imported_marks_reach_the_owner_of_a_store_that_is_foreign_to_the_pusher(here, team):
    session = turn(here, "s", 1)
    own = team.port.ownership
    team.port.ownership = Ownership("is not on the list of your stores")
    here.push_to(team)
    team.port.ownership = own
    assert imported_upto(team.port, team.port.session(session).record) > 0


@pytest.mark.parametrize("when", ["before", "after", "late"])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_push_to_a_store_that_loses_an_answer_is_done_once(here, team, when, at):
    work(here)
    here.fork("fix-login", "t1", as_name="fork")
    store = Store(faulty(team.port, FaultPlan(at=at, when=when)), team.context)
    with contextlib.suppress(StoreUnreachable):
        here.push_to(store)
    here.push_to(team)
    for name in ("fix-login", "fork"):
        session = here.read(name).id
        assert logs(team)[session] == logs(here)[session]
    assert findings(team) == []


def test_a_fork_that_a_pull_made_is_not_sent_back(here, team):
    turn(here, "s", 1)
    here.push_to(team)
    turn(here, "s", "mine")
    turn(team, "s", "theirs")
    here.pull_from(team, "s", as_name="theirs")
    report = here.push_to(team, forks=True)
    assert [one.name for one in report.skipped] == ["theirs"]
    assert report.findings == []


def test_a_session_that_lies_in_another_project_there_stays_in_it_and_is_marked(here, team):
    session = turn(here, "s", 1)
    here.push_to(team, into="their shop")
    turn(here, "s", 2)
    assert here.push_to(team).sessions[0].project == "their shop"
    record = team.port.session(session).record
    assert (record.project, imported_upto(team.port, record)) == (
        "their shop",
        team.port.head(session).seq,
    )
    assert findings(team) == []


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store):
        self.behind, self.asked = store, 0

    def __getattr__(self, name):
        found = getattr(self.behind, name)
        if not callable(found):
            return found

        def asked(*args, **options):
            self.asked += 1
            return found(*args, **options)

        return asked


def test_what_is_there_already_costs_the_same_few_calls_for_any_number_of_sessions(here, team):
    asked = []
    for n in range(30):
        turn(here, f"s{n}", n)
        if n in (9, 29):
            here.push_to(team)
            far = Counting(team.port)
            here.push_to(Store(far, team.context))
            asked.append(far.asked)
    assert asked[0] == asked[1] <= 12


def test_new_sessions_are_sent_together(here, team):
    for n in range(30):
        turn(here, f"s{n}", n)
    far = Counting(team.port)
    here.push_to(Store(far, team.context))
    assert far.asked <= 24
