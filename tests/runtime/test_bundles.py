"""Bundles: a session exported on one machine is the same on another, or is refused as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import stator
from runtime.bundle_fixtures import bulky, facts, findings, machine, made, read_file, whole, work
from runtime.waiting import ask_for
from stator.errors import BadBundle, Busy, Conflict, Erased, IdReused, InvalidInput
from stator.model.calls.approval import answer
from stator.model.exchange.items import Began, Conversation, Prompted
from stator.model.log import chain
from stator.model.log.commit import (
    Draft,
    Gone,
    Purge,
    Upsert,
)
from stator.model.log.query import Holder
from stator.model.records.types import FlagRecord
from stator.runtime.base import project_session
from stator.runtime.base.provenance import imported_upto
from stator.runtime.bundles import selection
from stator.runtime.bundles.transfer import read_commits
from stator.runtime.driving import approvals
from stator.runtime.ingest.recorder import Recorder


@pytest.fixture
def here(tmp_path):
    with machine(tmp_path / "here", "/home/ann/shop") as store:
        yield store


@pytest.fixture
def there(tmp_path):
    with machine(tmp_path / "there", "/srv/shop") as store:
        yield store


@pytest.fixture
def file(tmp_path):
    return tmp_path / "x.stator"


def fates(report):
    return [one.fate for one in report.sessions]


def carry(source, target, path: Path, name: str = "fix-login", **options):
    """Export from one store and import into another."""
    source.export(name, path, replace=True)
    return target.import_bundle(path, **options)


# -- the same session -----------------------------------------------------------------------------


def test_a_session_is_the_same_on_another_machine(here, there, file):
    view = work(here)
    report = carry(here, there, file)
    assert fates(report) == ["new"]
    assert whole(there, view.id) == whole(here, view.id)
    assert findings(there) == []


def test_an_imported_session_is_found_by_name_in_its_new_project(here, there, file):
    view = work(here)
    (one,) = carry(here, there, file).sessions
    assert (one.project, one.moved) == ("/srv/shop", "/home/ann/shop")
    with there.open("fix-login") as s:
        assert s.id == view.id
        with s.turn("go on") as t:
            t.decide("on the new machine", topic="auth")
    assert findings(there) == []
    assert there.read("fix-login").record.project == "/srv/shop"


def test_an_imported_session_stays_in_a_known_project(here, tmp_path, file):
    view = work(here)
    with machine(tmp_path / "there", "/srv/other") as there:
        with there.open("neighbour", project="/home/ann/shop"):
            pass
        carry(here, there, file)
        assert there.port.session(view.id).record.project == "/home/ann/shop"


def test_a_session_can_be_imported_back_into_its_first_store(here, there, file):
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s, s.turn("on the road") as t:
        t.fact("done elsewhere", True)
    report = carry(there, here, file)
    assert fates(report) == ["fast-forward"]
    assert whole(here, view.id) == whole(there, view.id)
    assert here.port.session(view.id).record.project == "/home/ann/shop"
    assert findings(here) == []


def test_a_call_in_doubt_stays_in_doubt_on_another_machine(here, there, file):
    @stator.tool(effect="write")
    def charge(amount: int) -> str:
        raise TimeoutError("no answer")

    with here.open("fix-login") as s, pytest.raises(stator.InDoubt), s.turn("pay") as t:
        t.call(charge, amount=5)
    carry(here, there, file)
    with there.open("fix-login") as s:
        assert [doubt.tool for doubt in s.in_doubt] == ["charge"]


def test_a_waiting_call_still_waits_and_an_imported_grant_does_not_apply(here, there, file):
    with here.open("fix-login") as s, s.turn("pay the invoice"):
        call = ask_for(s, "pay", "payments above 100", amount=500)
        ask_for(s, "pay", amount=5)
    approvals.approve(here.port, here.context, call, by="local:ann", scope="session")
    carry(here, there, file)
    session = there.read("fix-login").id
    waiting = approvals.waiting(there.port, now=there.context.clock())
    asked = next(item for item in waiting if item.call == call)
    found = answer(
        approvals.standing(there.port, session),
        tool=asked.tool,
        digest=asked.digest,
        arguments=asked.arguments,
        call=asked.call,
        now=there.context.clock(),
    )
    assert len(waiting) == 2
    assert found is None


def test_open_calls_of_a_killed_driver_are_exported(here, there, file, tmp_path):
    program = (
        "import os, signal, stator\n"
        "@stator.tool(effect='write')\n"
        "def die(): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"store = stator.connect({str(tmp_path / 'here' / 'agent.db')!r}, project='/home/ann/shop')\n"
        "with store.open('fix-login') as s, s.turn('one') as t: t.call(die)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    carry(here, there, file)
    assert there.port.session(there.read("fix-login").id).shown == "interrupted"
    with there.open("fix-login") as s:
        assert [doubt.tool for doubt in s.in_doubt] == ["die"]
    assert findings(there) == []


def test_exporting_needs_no_lease_and_exports_the_log_as_it_was_at_the_start(here, there, file):
    work(here)
    with here.open("fix-login") as s, s.turn("at work") as t:
        t.fact("so far", 1)
        report = here.export("fix-login", file)
        t.fact("later", 2)
    there.import_bundle(file)
    names = {record.name for record in there.read("fix-login").state()["facts"].values()}
    assert "so far" in names
    assert "later" not in names
    assert there.read("fix-login").head.hash == report.sessions[0].hash


def test_the_memory_store_can_export_and_import(here, memory, file):
    view = work(here)
    carry(here, memory, file)
    assert memory.read(view.id).head == view.head
    back = carry(memory, here, file)
    assert fates(back) == ["same"]


def test_two_stores_hold_the_same_commits_after_an_import(here, there, file):
    work(here)
    carry(here, there, file)
    assert read_commits(str(file)) == [list(there.read("fix-login").log())]


# -- forks ----------------------------------------------------------------------------------------


def test_exporting_a_fork_includes_only_the_shared_part_of_its_parent(here, there, file):
    view = work(here)
    here.fork("fix-login", "t2", as_name="other")
    with here.open("other") as s, s.turn("another way") as t:
        t.fact("x", 1)
    report = carry(here, there, file, "other")
    assert [(one.name, one.fate) for one in report.sessions] == [
        ("fix-login", "new"),
        ("other", "new"),
    ]
    assert there.read(view.id).head.turn == 2
    assert list(there.read("other").log()) == list(here.read("other").log())
    assert findings(there) == []


def test_the_rest_of_an_ancestor_is_a_fast_forward(here, there, file):
    view = work(here)
    here.fork("fix-login", "t1", as_name="other")
    carry(here, there, file, "other")
    report = carry(here, there, file)
    assert fates(report) == ["fast-forward"]
    assert whole(there, view.id) == whole(here, view.id)


def test_exporting_a_tree_includes_forks_and_children(here, there, file):
    work(here)
    here.fork("fix-login", "t1", as_name="one")
    here.fork("one", as_name="two")
    here.export("fix-login", file, tree=True)
    assert len(there.import_bundle(file).sessions) == 3
    assert findings(there) == []


def test_the_session_of_a_project_is_not_exported(here, file):
    row = project_session.own(here.port, here.context, work(here).record)
    with pytest.raises(InvalidInput, match="cannot be exported"):
        here.export(row.id, file)


# -- reconciling with local sessions --------------------------------------------------------------


def test_importing_twice_changes_nothing(here, there, file):
    work(here)
    carry(here, there, file)
    before = [(row.id, row.head) for row in there.sessions().rows]
    report = there.import_bundle(file)
    assert fates(report) == ["same"]
    assert report.commits == 0
    assert [(row.id, row.head) for row in there.sessions().rows] == before


def test_importing_an_older_bundle_keeps_the_longer_local_log(here, there, file):
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s, s.turn("more"):
        pass
    head = there.read(view.id).head
    assert fates(there.import_bundle(file)) == ["longer here"]
    assert there.read(view.id).head == head


@pytest.fixture
def diverged(here, there, file):
    """One session, continued in two stores."""
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s:
        with s.turn("there") as t:
            t.call(read_file, path="there.py")
            t.decide("their way", topic="auth")
            t.fact("theirs", 1)
            kept = t.fact("also theirs", 2)
            t.say("there")
        s.tag("theirs", "t4")
        s.erase(kept)
        s.score("good", 0.5, on="@33")
    with here.open("fix-login") as s, s.turn("here") as t:
        t.decide("our way", topic="auth")
    return view


def test_importing_a_diverged_session_makes_a_fork(here, there, file, diverged):
    before = whole(here, diverged.id)
    (one,) = carry(there, here, file).sessions
    assert one.fate == "fork"
    assert whole(here, diverged.id) == before
    parent = here.read(one.into).record.parent
    assert (parent.session, parent.seq, parent.kind) == (diverged.id, 29, "import")
    assert findings(here) == []


def test_a_grafted_session_has_the_state_it_had_elsewhere(here, there, file, diverged):
    (one,) = carry(there, here, file).sessions
    ours, theirs = here.read(one.into).state(), there.read(diverged.id).state()
    assert ours.pop("session") != theirs.pop("session")
    tags = ours.pop("tags"), theirs.pop("tags")
    assert {ours.name: ours.seq - tags[1][id].seq for id, ours in tags[0].items()} == {
        "good": 0,
        "theirs": 1,
    }
    scores = ours.pop("scores"), theirs.pop("scores")
    assert [[r.on for r in found.values()] for found in scores] == [["@34"], ["@33"]]
    assert facts(here, one.into) == facts(there, diverged.id)
    assert ours.pop("facts").keys() == theirs.pop("facts").keys()
    assert ours == theirs
    view = here.read(one.into)
    assert view.at("theirs").seq == there.read(diverged.id).at("theirs").seq + 1
    tag = next(r for r in tags[0].values() if r.name == "theirs")
    assert tag.hash == next(c.hash for c in view.log() if c.seq == tag.seq)
    assert [t.status for t in view.turns()] == [t.status for t in there.read(diverged.id).turns()]
    assert view.counts.open == 0


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_grafted_session_is_refused_by_the_store_its_commits_are_in(
    here, there, file, diverged, dry_run
):
    (one,) = carry(there, here, file).sessions
    here.export(one.into, file, replace=True)
    heads = [row.head for row in there.sessions().rows]
    with pytest.raises(IdReused, match="already in this store, in another session"):
        there.import_bundle(file, dry_run=dry_run)
    assert [row.head for row in there.sessions().rows] == heads


def test_a_grafted_session_keeps_ids_content_and_salts(here, there, file, diverged):
    (one,) = carry(there, here, file).sessions
    theirs = [c for c in there.read(diverged.id).log() if c.seq > 29]
    ours = [c for c in here.read(one.into).log() if c.seq > 30]
    assert [c.id for c in ours] == [c.id for c in theirs]
    assert [c.seq for c in ours] == [c.seq + 1 for c in theirs]
    assert [(c.salt, c.salts) for c in ours] == [(c.salt, c.salts) for c in theirs]
    gone = [item.by for c in ours for item in c.content.values() if isinstance(item, Gone)]
    erasure = next(c.seq for c in ours if c.kind == "erasure")
    assert gone == [erasure]


def test_an_imported_fork_is_not_imported_twice_and_is_extended_by_new_commits(
    here, there, file, diverged
):
    (first,) = carry(there, here, file).sessions
    (again,) = here.import_bundle(file).sessions
    assert (again.fate, again.into) == ("same", first.into)
    with there.open("fix-login") as s, s.turn("more there") as t:
        t.fact("theirs", 2)
    (more,) = carry(there, here, file).sessions
    assert (more.fate, more.into) == ("fast-forward", first.into)
    assert facts(here, first.into) == facts(there, diverged.id)
    assert findings(here) == []


def test_an_imported_fork_that_was_driven_locally_is_forked_again(here, there, file, diverged):
    (first,) = carry(there, here, file).sessions
    with here.open(first.name) as s, s.turn("in the fork"):
        pass
    with there.open("fix-login") as s:
        with s.turn("more there") as t:
            t.decide("yet another", topic="auth")
        s.tag("end", "t5")
    (second,) = carry(there, here, file).sessions
    assert second.fate == "fork"
    assert here.read(second.into).record.parent.session == first.into
    ours, theirs = here.read(second.into).state(), there.read(diverged.id).state()
    assert ours["decisions"] == theirs["decisions"]
    assert here.read(second.into).at("end").seq == there.read(diverged.id).at("end").seq + 2
    assert findings(here) == []
    assert fates(here.import_bundle(file)) == ["same"]


def test_a_grafted_session_can_be_driven(here, there, file, diverged):
    (one,) = carry(there, here, file).sessions
    with here.open(one.name) as s:
        assert s.id == one.into
        with s.turn("on") as t:
            t.call(read_file, path="on.py")
            t.decide("third way", topic="auth")
    assert findings(here) == []


def test_a_fork_of_a_diverged_session_is_refused(here, there, file, diverged):
    there.fork("fix-login", as_name="deeper")
    before = here.sessions().rows
    with pytest.raises(Conflict, match="differs in this store"):
        carry(there, here, file, "deeper")
    assert here.sessions().rows == before


def test_a_session_whose_name_is_used_is_refused_with_a_hint(here, there, file):
    work(here)
    work(there)
    with pytest.raises(Conflict, match="--into"):
        carry(here, there, file)
    report = there.import_bundle(file, project="/srv/from-ann")
    assert report.sessions[0].project == "/srv/from-ann"


def test_a_driven_session_is_not_fast_forwarded(here, there, file):
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s, s.turn("more"):
        pass
    there.export("fix-login", file, replace=True)
    here.port.acquire(view.id, Holder(epoch=0, program="agent.py"))
    with pytest.raises(Busy, match=r"driven by agent.py"):
        here.import_bundle(file)


def test_a_locally_purged_session_is_not_imported_again(here, there, file):
    view = work(here)
    here.export("fix-login", file)
    own = project_session.own(
        there.port, there.context, view.record.__class__(id="", name="", project="/srv/shop")
    )
    flag = FlagRecord(name="purged", on=view.id, why="90 days")
    draft = Draft(
        id=there.context.mint("commit"),
        session=own.id,
        kind="flag",
        changes=(Upsert("flags", flag),),
    )
    there.port.append(own.id, [draft])
    with pytest.raises(Conflict, match="purged from this store"):
        there.import_bundle(file)


@pytest.mark.parametrize("project", ["/srv/shop", "/srv/elsewhere"])
def test_a_session_purged_in_one_project_is_not_imported_into_another(here, there, file, project):
    """Even if its old project is unknown, so that it would be imported into another."""
    view = work(here)
    carry(here, there, file)
    own = project_session.own(there.port, there.context, there.port.session(view.id).record)
    flag = FlagRecord(name="purged", on=view.id, why="90 days", by="local:ann")
    draft = Draft(
        id=there.context.mint("commit"),
        session=own.id,
        kind="purge",
        changes=(Purge(view.id), Upsert("flags", flag)),
    )
    there.port.append(own.id, [draft])
    with pytest.raises(Conflict, match="purged from this store"):
        there.import_bundle(file, project=project)


def test_a_session_driven_during_the_import_gets_a_fork(here, there, file, monkeypatch):
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s, s.turn("more"):
        pass
    there.export("fix-login", file, replace=True)
    ingest = here.port.ingest

    def late(*args, **options):
        monkeypatch.undo()
        with here.open("fix-login") as s, s.turn("meanwhile"):
            pass
        return ingest(*args, **options)

    monkeypatch.setattr(here.port, "ingest", late)
    assert fates(here.import_bundle(file)) == ["fork"]
    assert here.read(view.id).head.turn == 4
    assert findings(here) == []


def test_a_bundle_cannot_restore_a_revoked_grant(here, file):
    """Its signature is valid in this store, and an older bundle contains it too."""
    with here.open("fix-login") as s, s.turn("pay the invoice"):
        call = ask_for(s, "pay", "payments above 100", amount=500)
    grant = approvals.approve(here.port, here.context, call, by="local:ann", scope="session")
    here.export("fix-login", file)
    given = next(c for c in read_commits(str(file))[0] if c.kind == "approval")
    approvals.revoke(here.port, here.context, grant.id, by="local:ann")
    here.export("fix-login", file, replace=True)
    (commits,) = read_commits(str(file))
    again = replace(
        given, id=here.context.mint("commit"), seq=commits[-1].seq + 1, prev=commits[-1].hash
    )
    bad = made(file, [*commits, replace(again, hash=chain.rehash(again))])
    assert fates(here.import_bundle(bad)) == ["fast-forward"]
    assert approvals.standing(here.port, grant.session) == []
    states = [one.state for one in approvals.grants(here.port, now=here.context.clock())]
    assert states == ["imported"]


def test_a_local_denial_still_applies_after_an_import(here, there, file):
    view = work(here)
    approvals.grant(here.port, here.context, view.id, "pay", by="local:ann", verdict="denied")
    carry(here, there, file)
    with there.open("fix-login") as s, s.turn("more"):
        pass
    assert fates(carry(there, here, file)) == ["fast-forward"]
    (entry,) = approvals.standing(here.port, view.id)
    assert getattr(entry.record, "verdict", "") == "denied"


def test_erasures_and_evictions_of_a_grafted_session_name_its_own_commits(here, there, file):
    view = work(here)
    carry(here, there, file)
    with there.open("fix-login") as s:
        for n in range(3):
            with s.turn(f"there {n}") as t:
                t.say(f"answer {n} " * 40)
        s.compact(strategy=["mask", "summarise"], summary=lambda *_: "so far", keep=1)
    there.erase(there.erasing("fix-login", "t4"), why="asked to")
    with here.open("fix-login") as s, s.turn("here"):
        pass
    (one,) = carry(there, here, file).sessions
    ours, theirs = here.read(one.into), there.read(view.id)
    moved = {c.seq: c.id for c in ours.log()}
    erasure = next(c for c in ours.log() if c.kind == "erasure")
    named = [moved[seq] for seq, _ in erasure.value("input")["commits"]]
    other = next(c for c in theirs.log() if c.kind == "erasure")
    same = {c.seq: c.id for c in theirs.log()}
    assert named == [same[seq] for seq, _ in other.value("input")["commits"]]
    for entry in ours.state()["evicted"].values():
        if entry.key.startswith("entry:@"):
            assert entry.key == f"entry:@{entry.seq}"


def test_recall_labels_records_of_an_imported_session(here, there, file):
    work(here)
    carry(here, there, file)
    found = there.read("fix-login").recall("decision:auth")
    assert (found.source, found.trust) == ("import", "unverified")
    assert here.read("fix-login").recall("decision:auth").source != "import"


def test_an_import_marks_the_last_imported_commit(here, there, file):
    view = work(here)
    carry(here, there, file)
    assert imported_upto(there.port, there.port.session(view.id).record) == view.head.seq
    assert imported_upto(here.port, here.port.session(view.id).record) == 0


def test_a_session_that_was_named_by_its_first_prompt_can_be_imported(here, there, file):
    """A hook reports the beginning of a conversation before its first message."""
    recorder = Recorder(here.port, here.context, Conversation(source="cursor", id="c1"), via="hook")
    recorder.take(Began(id="start", at=5, how="startup"))
    recorder.flush()
    recorder.take(Prompted(id="p1", at=10, content="pay the bill"))
    recorder.flush()
    (one,) = carry(here, there, file, name="pay the bill").sessions
    assert (one.fate, one.name) == ("new", "pay the bill")
    assert there.read("pay the bill").head == here.read("pay the bill").head
    assert fates(there.import_bundle(file)) == ["same"]
    assert findings(there) == []


# -- erasure --------------------------------------------------------------------------------------


def test_an_imported_erasure_removes_the_bytes_from_local_files(here, there, file, tmp_path):
    with here.open("fix-login") as s, s.turn("one") as t:
        kept = t.fact("name", "marker-7f3a-marker")
    carry(here, there, file)
    here.contribute("fix-login").erase(kept)
    carry(here, there, file, erasures="apply")
    there.close()
    for path in (tmp_path / "there").iterdir():
        assert b"marker-7f3a-marker" not in path.read_bytes()


def test_an_older_bundle_does_not_restore_erased_content(here, there, file):
    with here.open("fix-login") as s, s.turn("one") as t:
        kept = t.fact("name", "private")
    carry(here, there, file)
    there.contribute("fix-login").erase(kept)
    there.import_bundle(file)
    assert findings(there) == []
    assert there.read("fix-login").state()["facts"] != here.read("fix-login").state()["facts"]


def test_an_imported_erasure_applies_to_commits_shared_before_the_divergence(
    here, there, file, tmp_path
):
    with here.open("fix-login") as s, s.turn("one") as t:
        kept = t.fact("name", "marker-91c2-marker")
    carry(here, there, file)
    with here.open("fix-login") as s, s.turn("here"):
        pass
    there.contribute("fix-login").erase(kept)
    carry(there, here, file, erasures="apply")
    assert findings(here) == []
    assert fates(here.import_bundle(file)) == ["same"]
    here.close()
    for path in (tmp_path / "here").iterdir():
        assert b"marker-91c2-marker" not in path.read_bytes()


def test_two_exports_to_one_path_do_not_mix(here, file, monkeypatch):
    work(here)
    (file.parent / "x.stator.partial").write_text("somebody's")
    batches = selection.batches

    def meanwhile(*args):
        monkeypatch.undo()
        here.export("fix-login", file)
        return batches(*args)

    monkeypatch.setattr(selection, "batches", meanwhile)
    with pytest.raises(Conflict, match="exists already"):
        here.export("fix-login", file)
    assert len(read_commits(str(file))) == 1
    assert (file.parent / "x.stator.partial").read_text() == "somebody's"
    assert [p.name for p in file.parent.glob("x.stator.*")] == ["x.stator.partial"]


def test_the_error_names_a_path_that_cannot_be_written(here, tmp_path):
    work(here)
    with pytest.raises(InvalidInput, match=r"nowhere/x\.stator cannot be written: No such file"):
        here.export("fix-login", tmp_path / "nowhere" / "x.stator")


def test_exporting_a_session_with_an_erased_first_commit_is_refused(here, file, monkeypatch):
    """An earlier release allowed this."""
    monkeypatch.setattr(chain, "to_erase", lambda commit, fields=(): set(commit.content))
    work(here)
    here.contribute("fix-login").erase("@1")
    with pytest.raises(InvalidInput, match="cannot be exported"):
        here.export("fix-login", file)


# -- withheld content -----------------------------------------------------------------------------


def test_content_with_a_redacted_word_is_withheld_and_the_chain_verifies(here, there, file):
    with here.open("fix-login") as s, s.turn("ask Umbrella Corp") as t:
        t.fact("client", "umbrella corp")
        t.fact("raw", b"for UMBRELLA CORP only")
        t.fact("other", "stays")
    report = here.export("fix-login", file, redact=["Umbrella Corp"])
    assert report.withheld == 3
    assert b"mbrella" not in file.read_bytes().lower()
    there.import_bundle(file)
    assert findings(there) == []
    assert there.read("fix-login").head == here.read("fix-login").head
    turn = next(c for c in there.read("fix-login").log() if c.kind == "turn")
    with pytest.raises(Erased, match="not in the bundle"):
        turn.value("input")


def test_a_word_that_cannot_be_withheld_stops_the_export(here, file):
    with here.open("for-umbrella") as s, s.turn("one"):
        pass
    with pytest.raises(InvalidInput, match="always travels"):
        here.export("for-umbrella", file, redact=["umbrella"])
    assert list(file.parent.glob("x.stator*")) == []


def test_an_export_without_the_transcript_includes_the_state(here, there, file):
    view = work(here)
    report = here.export("fix-login", file, transcript=False)
    assert report.withheld > 0
    there.import_bundle(file)
    assert there.read(view.id).state() == view.state()
    assert findings(there) == []
    assert not any(
        isinstance(c.content.get(name), bytes)
        for c in there.read(view.id).log()
        if c.kind in ("turn", "entry", "call", "outcome")
        for name in ("input", "output", "output_summary")
    )


def test_secrets_recorded_without_redaction_are_withheld(tmp_path, there, file):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with stator.connect(tmp_path / "old.db", redact=False, project="old") as old:
        with old.open("leaky") as s, s.turn("one") as t:
            t.fact("note", f"the token is {secret}")
            t.fact("clean", "nothing")
        report = old.export("leaky", file)
    assert (report.withheld, report.secrets) == (1, 1)
    there.import_bundle(file)
    assert findings(there) == []


def test_an_ordinary_export_withholds_nothing(here, file):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with here.open("s") as s, s.turn(f"use {secret}") as t:
        t.fact("password", "hunter2hunter2")
        t.fact("config", {"api_key": secret, "url": f"https://u:{secret}@host/x"})
    assert here.export("s", file).withheld == 0


def test_verify_finds_content_that_no_bundle_withheld(here, there, file):
    work(here)
    here.export("fix-login", file, transcript=False)
    there.ingest([c for own in read_commits(str(file)) for c in own])
    assert any("no bundle brought it so" in found for found in findings(there))


# -- all or nothing -------------------------------------------------------------------------------


def test_a_dry_run_of_a_continued_session_says_what_the_import_does(here, there, file):
    work(here)
    carry(here, there, file)
    with here.open("fix-login") as s, s.turn("more"):
        pass
    here.export("fix-login", file, replace=True)
    planned = fates(there.import_bundle(file, dry_run=True))
    assert planned == fates(there.import_bundle(file)) == ["fast-forward"]


def test_a_dry_run_reports_the_import_and_writes_nothing(here, there, file):
    work(here)
    here.export("fix-login", file)
    report = there.import_bundle(file, dry_run=True)
    assert (fates(report), report.commits) == (["new"], 29)
    assert there.sessions().rows == []


def test_an_interrupted_import_leaves_nothing(here, there, file):
    bulky(here)
    here.export("bulky", file)
    seen = []

    def interrupt(what, done, size):
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        there.import_bundle(file, progress=interrupt)
    assert there.sessions().rows == []
    assert fates(there.import_bundle(file)) == ["new"]
    assert findings(there) == []


def test_a_killed_import_leaves_nothing_and_can_be_repeated(here, there, file, tmp_path):
    view = bulky(here)
    here.export("bulky", file)
    program = (
        "import os, signal, stator\n"
        f"store = stator.connect({str(tmp_path / 'there' / 'agent.db')!r}, project='/srv/shop')\n"
        "def die(what, done, size):\n"
        "    if done > size // 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"store.import_bundle({str(file)!r}, progress=die)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert there.sessions().rows == []
    there.import_bundle(file)
    assert whole(there, view.id) == whole(here, view.id)
    assert findings(there) == []


def test_an_export_that_fails_leaves_no_file(here, file):
    work(here)

    def interrupt(what, done, size):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        here.export("fix-login", file, progress=interrupt)
    assert os.listdir(file.parent) == ["here"]


def test_an_export_does_not_overwrite_a_file_unless_asked(here, file):
    work(here)
    file.write_text("mine")
    with pytest.raises(Conflict, match="exists already"):
        here.export("fix-login", file)
    assert file.read_text() == "mine"
    here.export("fix-login", file, replace=True)
    with pytest.raises(Conflict):
        here.export("fix-login", "/dev/null", replace=True)


# -- encryption -----------------------------------------------------------------------------------


def test_an_encrypted_bundle_hides_its_content_and_opens_with_its_passphrase(here, there, file):
    view = work(here)
    here.export("fix-login", file, passphrase="correct horse")
    data = file.read_bytes()
    for word in (
        b"fix-login",
        b"ann/shop",
        b"auth",
        b"fact",
        view.id[2:].encode(),
        bytes.fromhex(view.id[2:]),
    ):
        assert word not in data
    with pytest.raises(InvalidInput, match="locked"):
        there.import_bundle(file)
    with pytest.raises(BadBundle, match="passphrase"):
        there.import_bundle(file, passphrase="wrong horse")
    assert there.sessions().rows == []
    assert there.import_bundle(file, passphrase="correct horse").locked
    assert whole(there, view.id) == whole(here, view.id)
