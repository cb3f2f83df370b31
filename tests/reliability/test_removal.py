"""Purged, expired or erased content is gone from every file, completely or not at all, and frees space."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from reliability.removals import MARK, REMOVALS, fill
from reliability.support import all_sessions, copy_store, findings, incompressible
from stator.connect import connect
from stator.errors import InvalidInput, WrongState
from stator.model.log.commit import Upsert
from stator.model.records.types import FileRecord, PlanRecord
from stator.model.sessions.detached_run import RunInfo
from stator.model.values.ids import to_bytes
from stator.runtime.base import project_session
from stator.runtime.retention import erase as erasing
from stator.runtime.retention import policies
from stator.runtime.runs.folder import RunFiles
from stator.runtime.views.refs import Point
from stator.store.sqlite import lock_holders, space
from stator.store.sqlite.connection import Patience

BY = "local:ann"


def on_disk(path: Path) -> bytes:
    """Every byte of the store: its file, its logs, its lease and the output of its runs."""
    files = [file for file in path.parent.rglob(f"{path.name}*") if file.is_file()]
    files += [file for file in Path(f"{path}-runs").rglob("*") if file.is_file()]
    return b"".join(file.read_bytes() for file in files)


def is_gone(path: Path, mark: str = MARK) -> bool:
    return mark.encode() not in on_disk(path)


# -- every place a value can be -------------------------------------------------------------------


@pytest.fixture
def session(store):
    with store.open("main") as session:
        yield session


def erase(store, made):
    result = erasing.erase(store.port, store.context, made, by=BY)
    assert not result.pending
    return result


def a_prompt(store, s):
    with s.turn(MARK):
        pass
    return erasing.of_commit(store.port, s.at(f"@{s.turns()[-1].first}"))


def an_answer(store, s):
    with s.turn("go") as t:
        t.say(MARK)
        seq = s.head.seq
    return erasing.of_commit(store.port, s.at(f"@{seq}"), ["output"])


def a_call(store, s):
    with s.turn("go") as t:
        t.call(lambda text: [text] * 20, text=MARK)
    (row,) = s.calls()
    return erasing.of_call(store.port, row.call)


def a_decision(store, s):
    with s.turn("go") as t:
        for n in range(3):
            t.decide(f"{MARK}{n}", topic="auth", why=MARK)
    return erasing.of_record(store.port, s.id, "decisions", "auth")


def a_fact(store, s):
    with s.turn("go") as t:
        for n in range(3):
            t.fact("phone", f"{MARK}{n}")
    return erasing.of_record(store.port, s.id, "facts", "phone")


def a_facts_name(store, s):
    with s.turn("go") as t:
        t.fact(MARK, 1)
    return erasing.of_record(store.port, s.id, "facts", MARK)


def an_artifact(store, s):
    with s.turn("go") as t:
        t.artifact("notes", MARK)
        t.artifact("notes", MARK + incompressible(40_000))
    return erasing.of_record(store.port, s.id, "artifacts", "notes")


def a_tag(store, s):
    s.tag(MARK)
    return erasing.of_record(store.port, s.id, "tags", MARK)


def a_files_content(store, s):
    with s.turn("go"):
        kept = s._draft("file", input={"contents": {"d1": {"data": MARK, "mode": 420}}})
        record = FileRecord(path=f"{MARK}.txt", op="created", after="d1", after_in=kept.id)
        s._driver.append([kept, s._draft("file", changes=(Upsert("files", record),), why=MARK)])
    return erasing.of_path(store.port, s.id, f"{MARK}.txt")


def in_a_snapshot(store, s):
    with s.turn("go") as t:
        for n in range(300):
            t.fact("phone", f"{MARK}{n}")
            t.fact(f"fact {n}", n)
    s._store._write(s._store._appender.flush_all)
    return erasing.of_record(store.port, s.id, "facts", "phone")


def in_a_forks_own_put(store, s):
    """A fork that changed the status of a plan step copies its detail."""
    with s.turn("go"):
        s._driver.append(
            [s._draft("plan", changes=(Upsert("plan", PlanRecord(step="1", detail=MARK)),))]
        )
    store.fork("main", as_name="fork")
    with store.open("fork") as fork, fork.turn("go") as t:
        t.plan("1", status="done")
    return erasing.of_record(store.port, s.id, "plan", "1")


def in_a_fork_under_another_id(store, s):
    """Each decision is a new record; only the topic is common."""
    with s.turn("go") as t:
        t.decide("cookies", topic="auth")
    store.fork("main", as_name="fork")
    with store.open("fork") as fork, fork.turn("go") as t:
        t.decide(MARK, topic="auth")
    return erasing.of_record(store.port, s.id, "decisions", "auth")


def in_a_fork_beside(store, s):
    with s.turn("go") as t:
        t.fact("phone", MARK)
    one, _ = (store.fork("main", as_name=name) for name in ("one", "two"))
    with store.open("two") as two, two.turn("go") as t:
        t.fact("phone", f"{MARK} too")
    return erasing.of_record(store.port, one.id, "facts", "phone")


def what_a_compaction_named(store, s):
    """The recall key of a dead end is its whole text."""
    for n in range(3):
        with s.turn(f"go {n}") as t:
            t.dead_end(f"{MARK} {n}")
            t.say("Done.")
    s.compact(keep=1, summary=lambda *_: "Some things were tried.")
    plans = [erasing.of_record(store.port, s.id, "dead_ends", f"{MARK} {n}") for n in range(3)]
    return erasing.Erasing(items=[item for made in plans for item in made.items])


def how_an_output_begins(store, s):
    with s.turn("go") as t:
        t.call(lambda: f"{MARK} " * 500)
    (seq,) = (c.seq for c in s.log() if c.kind == "outcome")
    return erasing.of_commit(store.port, s.at(f"@{seq}"), ["output"])


def a_files_content_by_its_record(store, s):
    a_files_content(store, s)
    return erasing.of_record(store.port, s.id, "files", f"{MARK}.txt")


def of_what_a_fork_inherited(store, s):
    with s.turn(MARK):
        pass
    fork = store.fork("main", as_name="fork")
    with store.open("fork") as again, again.turn("go"):
        pass
    return erasing.of_commit(store.port, fork.at(f"@{s.turns()[-1].first}"))


def a_whole_session(store, s):
    with s.turn(MARK) as t:
        t.call(lambda text: text * 1000, text=MARK)
        t.decide(MARK, topic=MARK)
        t.plan(MARK, status="done")
        t.use("app", MARK)
        t.pend(MARK)
        t.prefer(MARK, MARK)
        t.dead_end(MARK, why=MARK)
        t.artifact("x", MARK)
    s.tag(MARK)
    s.score("good", 1, comment=MARK)
    s.flag("look", why=MARK)
    return erasing.of_session(store.port, s.id)


PLACES = (
    a_prompt, an_answer, a_call, a_decision, a_fact, a_facts_name, an_artifact, a_tag,
    a_files_content, in_a_snapshot, in_a_forks_own_put, of_what_a_fork_inherited, a_whole_session,
    in_a_fork_under_another_id, in_a_fork_beside, what_a_compaction_named, how_an_output_begins,
    a_files_content_by_its_record,
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=[place.__name__ for place in PLACES])
@pytest.mark.usefixtures("uncompressed")
def test_erased_content_is_gone_from_every_file(store, session, path, place):
    made = place(store, session)
    assert not is_gone(path)  # the control: the search can find it
    erase(store, made)
    assert is_gone(path)
    assert findings(path) == []


@pytest.mark.parametrize("place", PLACES, ids=[place.__name__ for place in PLACES])
def test_a_rebuild_gives_the_same_state_after_an_erasure(store, session, place):
    erase(store, place(store, session))
    before = session.state()
    store.port.rebuild()
    assert session.state() == before


@pytest.mark.usefixtures("uncompressed")
def test_a_large_payload_shared_by_two_sessions_is_removed_with_the_second(store, path):
    text = incompressible(24_000) + MARK + incompressible(24_000, "more")
    made = []
    for name in ("one", "two"):
        with store.open(name) as s, s.turn(text):
            made.append(erasing.of_commit(store.port, s.at("head")))
    erase(store, made[0])
    assert not is_gone(path)
    assert store.read("two").commit(f"@{made[1].items[0].seq}").value("input") == text
    erase(store, made[1])
    assert is_gone(path)


def test_an_erasure_plan_lists_what_it_does_not_remove(store, session):
    with session.turn("go"):
        pass
    made = erasing.of_session(store.port, session.id)
    assert any("its name" in text for text in made.left)


def test_erasing_an_erased_session_again_removes_nothing(store, session):
    with session.turn(MARK):
        pass
    erase(store, erasing.of_session(store.port, session.id))
    assert erasing.of_session(store.port, session.id).items == []


def test_a_hold_is_released_and_never_erased(store, session):
    """Otherwise erasing would be a way to remove a legal hold."""
    policies.hold(store.port, store.context, session.id, by=BY, why="case 4711")
    own = project_session.known(store.port, session.record)
    assert own is not None
    with pytest.raises(WrongState, match="hold on session"):
        erasing.of_commit(store.port, Point(own.id, own.head, "head"))
    with pytest.raises(WrongState, match="hold on session"):
        erasing.of_record(store.port, own.id, "flags", f"hold\n{session.id}")
    with pytest.raises(InvalidInput):
        erasing.of_session(store.port, own.id)
    policies.release(store.port, store.context, session.id, by=BY)
    assert erasing.of_commit(store.port, Point(own.id, own.head, "head")).items


def test_erasing_the_last_commit_of_a_turn_warns_that_the_others_remain(store, session):
    with session.turn(MARK):
        pass
    made = erasing.of_commit(store.port, session.at("t1"))
    assert any("the other commits of t1" in text for text in made.left)


def test_erasing_a_file_record_by_position_warns_that_its_content_remains(store, session):
    a_files_content(store, session)
    (put,) = (c.seq for c in session.log() if c.kind == "file" and c.delta)
    made = erasing.of_commit(store.port, session.at(f"@{put}"))
    assert any("what was kept of" in text for text in made.left)


def test_a_compaction_can_be_undone_after_its_evicted_records_were_erased(store, session):
    erase(store, what_a_compaction_named(store, session))
    session.compact(keep=1)
    session.undo_compaction()
    assert session.evicted() == []


def test_erasing_an_artifact_keeps_the_rewind_that_restored_it(store, session):
    """The target recorded by a rewind is not a version of the artifact."""
    for n in range(2):
        with session.turn("go") as t:
            t.artifact("notes", f"version {n}")
    session.rewind("t1")
    erase(store, erasing.of_record(store.port, session.id, "artifacts", "notes"))
    (rewind,) = (c for c in session.log() if c.kind == "rewind")
    assert rewind.value("input")["to"]


@pytest.mark.usefixtures("uncompressed")
def test_erasing_warns_that_the_output_of_runs_remains(store, path):
    with store.open("main") as s, s.turn(MARK):
        pass
    files = RunFiles.create(f"{path}-runs", store.context.mint("run"))
    files.write(
        RunInfo(id=files.id, session=s.id, name="x", command=["true"], cwd="/", store=str(path))
    )
    Path(files.folder, "output.0").write_text(MARK)
    made = erasing.of_commit(store.port, s.at("@3"))
    assert any("1 runs printed" in text for text in made.left)
    erase(store, erasing.of_session(store.port, s.id))
    assert is_gone(path)


def test_a_session_can_be_driven_after_all_its_content_was_erased(store):
    with store.open("main") as s, s.turn("go") as t:
        t.call(lambda: 1)
        t.fact("x", 1)
    erase(store, erasing.of_session(store.port, s.id))
    with store.open("main") as s, s.turn("again") as t:
        t.call(lambda: 2)
        t.fact("x", 2)
    assert s.facts() == {"x": 2}


@pytest.mark.usefixtures("uncompressed")
def test_a_purged_session_is_gone_from_every_file(path):
    with connect(path, project="test") as store:
        fill(store, sessions=1)
        assert not is_gone(path)
        REMOVALS["purge"](store)
        assert is_gone(path)
    assert findings(path) == []


# -- blocking readers -----------------------------------------------------------------------------


@pytest.fixture
def blocked(zygote, store, path):
    """An erasure while another process reads an older snapshot of the store."""
    with store.open("main") as s:
        with s.turn(MARK):
            pass
        store.sync()
        reader = zygote.start("read_until_told", str(path))
        reader.hear()
        made = erasing.of_commit(store.port, s.at(f"@{s.turns()[-1].first}"))
        result = erasing.erase(store.port, store.context, made, by=BY)
    yield reader, result
    reader.close()


@pytest.mark.usefixtures("uncompressed")
def test_an_erasure_blocked_by_a_reader_names_the_reader(blocked, store, path):
    reader, result = blocked
    assert result.pending
    assert any(f"pid {reader.pid}" in who for who in result.readers)
    assert store.info().detail["unfinished"]
    assert not is_gone(path)


@pytest.mark.usefixtures("uncompressed")
def test_an_append_finishes_a_blocked_erasure_after_the_reader_ends(blocked, store, path):
    reader, _ = blocked
    reader.kill()
    with store.open("other"):
        pass
    assert is_gone(path)
    assert not store.info().detail["unfinished"]


@pytest.mark.usefixtures("uncompressed")
def test_the_next_process_that_writes_finishes_a_blocked_erasure(blocked, path, store):
    reader, _ = blocked
    store.close()
    reader.kill()
    with connect(path, project="test") as other, other.open("other"):
        pass
    assert is_gone(path)


@pytest.mark.usefixtures("uncompressed")
def test_a_process_that_had_the_store_open_finishes_a_blocked_erasure(zygote, path, store):
    with connect(path, project="test") as bystander, bystander.open("bystander") as b:
        with store.open("main") as s:
            with s.turn(MARK):
                pass
            reader = zygote.start("read_until_told", str(path))
            reader.hear()
            made = erasing.of_commit(store.port, s.at(f"@{s.turns()[-1].first}"))
            erasing.erase(store.port, store.context, made, by=BY)
        store.close()
        reader.close()
        b.tag("now")
        assert is_gone(path)


def test_finishing_an_earlier_removal_keeps_the_mark_of_a_later_one(store, session, path):
    """Another process may remove something between emptying the WAL and clearing the mark."""
    erase(store, a_prompt(store, session))

    class Late(apsw.Connection):
        """A connection after whose first checkpoint another process marks the store."""

        late = True

        def wal_checkpoint(self, *args, **options):
            found = super().wal_checkpoint(*args, **options)
            if self.late:
                space.mark(self)
            self.late = False
            return found

    db = Late(str(path))
    space.mark(db)
    assert not space.finish(db, Patience(), 0.0)
    assert space.is_marked(db)
    assert space.finish(db, Patience(), 0.0)
    assert not space.is_marked(db)
    db.close()


def test_an_erasure_finishes_in_a_copy_without_auto_vacuum(path, store):
    """Other tools make such copies; erasing in one used to hang."""
    fill(store, sessions=1)
    store.close()
    db = apsw.Connection(str(path))
    for pragma in ("journal_mode=delete", "auto_vacuum=none", "journal_mode=wal"):
        db.execute(f"PRAGMA {pragma}").fetchall()
        db.execute("VACUUM")
    assert db.pragma("auto_vacuum") == 0
    db.close()
    with connect(str(path)) as again:
        session = again.read("s0").id
        erase(again, erasing.of_session(again.port, session))
        assert not again.info().detail["unfinished"]


def test_a_line_of_proc_locks_is_parsed_or_skipped():
    line = "3: POSIX  ADVISORY  READ 22278 fe:00:2647291 124 124"
    reading = ("READ", lock_holders.READ_MARKS)
    assert lock_holders._holder(line, 2647291, *reading) == 22278
    for other in (
        line.replace("124 124", "128 128"),
        line.replace("2647291", "1"),
        "3: -> POSIX ADVISORY READ 22278 fe:00:2647291 124 124",
        "3: FLOCK  ADVISORY  WRITE 22278 fe:00:2647291 0 EOF",
        "",
    ):
        assert lock_holders._holder(other, 2647291, *reading) == 0


# -- killed during a removal ----------------------------------------------------------------------

POINTS = 12
"""How many moments of each removal a process is killed at."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with connect(path, project="test", durability="relaxed") as store:
        fill(store)
    return path


@pytest.mark.parametrize("what", REMOVALS)
def test_a_killed_removal_leaves_a_valid_store_and_the_next_run_finishes(
    zygote, filled, tmp_path, what
):
    whole = copy_store(filled, tmp_path / "whole.db")
    passed = zygote.run("remove", str(whole), what, None)
    for point in sorted({passed * n // POINTS for n in range(POINTS)} | {passed - 1}):
        path = copy_store(filled, tmp_path / f"{what} {point}.db")
        worker = zygote.start("remove", str(path), what, point)
        assert worker.drain() == []
        zygote.end(worker)
        assert findings(path) == []
        with connect(path, project="test", durability="relaxed") as store:
            REMOVALS[what](store)
            names = [row.record.name for row in all_sessions(store)]
            assert ("s0" in names) == (what != "purge")
            if what != "purge":
                assert MARK not in repr(list(store.read("s0").log()))
            assert not store.info().detail["unfinished"]
            assert store.read("s1").facts() == {"n": 3}
        assert findings(path) == []


# -- space ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", REMOVALS)
def test_removal_shrinks_the_file(tmp_path, what):
    """Within 5 % of the size of a file that never contained the removed content."""
    path = tmp_path / "store.db"
    with connect(path, project="test", durability="relaxed") as store:
        with store.open("s0") as s:
            for n in range(20):
                with s.turn(incompressible(100_000, f"s0 {n}")):
                    pass
        fill(store, sessions=3, turns=2)
        before = store.port.usage()["file"]
        REMOVALS[what](store)
        after = os.stat(path).st_size + os.stat(f"{path}-wal").st_size
        assert after < before - 1_000_000
        assert store.port.usage()["free"] == 0
    db = apsw.Connection(str(path))
    db.execute("VACUUM INTO ?", (str(tmp_path / "small.db"),))
    db.close()
    assert os.stat(path).st_size <= 1.05 * os.stat(tmp_path / "small.db").st_size + 64 * 1024


def test_the_commits_of_a_purged_session_are_in_no_index(tmp_path):
    path = tmp_path / "store.db"
    with connect(path, project="test") as store:
        fill(store, sessions=2)
        gone = store.read("s0").id
        REMOVALS["purge"](store)
    db = apsw.Connection(str(path))
    assert db.execute("SELECT count(*) FROM session WHERE id = ?", (to_bytes(gone),)).get == 0
    kept = db.execute("SELECT group_concat(s) FROM session").get
    for table in ("rec", "snap", "call_ix", "turn_ix", "origin_ix", "flush_ix", "alias"):
        found = db.execute(f"SELECT count(*) FROM {table} WHERE s NOT IN ({kept})").get
        assert found == 0, table
    assert db.execute(f"SELECT count(*) FROM log WHERE k >> 40 NOT IN ({kept})").get == 0
    assert db.execute(f"SELECT count(*) FROM commit_ix WHERE k >> 40 NOT IN ({kept})").get == 0
    assert db.execute(f"SELECT count(*) FROM blob_use WHERE log >> 40 NOT IN ({kept})").get == 0
    db.close()
