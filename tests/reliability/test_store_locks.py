"""Other code of a process reads, copies or removes the store's files: nothing acknowledged is lost, no live driver
is taken for dead."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reliability.lock_workers import STRAYS, read_all
from reliability.support import fact_draft, findings, recorded_session, script_environment
from stator.connect import connect
from stator.errors import Busy, NotAStore, StoreBusy, StoreCorrupt, StoreFailed
from stator.model.views.open_calls import DIED
from stator.store.sqlite import connection

IN_USE = 128
"""The byte of the `-shm` file on which SQLite says that it is in use."""


@pytest.fixture
def session(path):
    with connect(path, project="test") as store:
        return recorded_session(store, "main")


def missing(path, session: str, acknowledged) -> set[str]:
    """Commits that were acknowledged and are not in the log."""
    with connect(path, project="test") as store:
        there = {commit.id for commit in store.read(session).log(load=False)}
    return set(acknowledged) - there


# -- the lease ------------------------------------------------------------------------------------


@pytest.fixture(params=sorted(STRAYS))
def strayed(zygote, path, request):
    """A driver whose own tool has read, copied or queried every file of the store."""
    worker = zygote.start("drive_and_stray", path, request.param)
    assert worker.hear() == "strayed"
    yield worker
    zygote.end(worker)


def test_a_driver_whose_tool_reads_the_store_files_is_not_taken_for_dead(strayed, path):
    with connect(path, project="test") as store, pytest.raises(Busy):
        store.open("main")


def test_a_driver_whose_tool_reads_the_store_files_continues(strayed, path):
    with connect(path, project="test") as store:
        assert store.read("main").status == "active"
    strayed.say("go on")
    assert missing(path, "main", [strayed.result()]) == set()


@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_forked_child_does_not_keep_the_session_of_a_killed_driver(zygote, path, how):
    worker = zygote.start("drive_with_child", path, how)
    child = worker.hear()
    worker.kill()
    try:
        with connect(path, project="test") as store, store.open("main") as session:
            assert session.recovery.cause == DIED
    finally:
        os.kill(child, signal.SIGKILL)
        zygote.end(worker)


def test_a_forked_child_that_ends_does_not_release_its_parents_session(zygote, path):
    worker = zygote.start("drive_and_end_child", path)
    assert worker.hear() == "child ended"
    with connect(path, project="test") as store, pytest.raises(Busy):
        store.open("main")
    zygote.end(worker)


def test_a_driver_of_0_5_is_not_taken_for_dead(zygote, path):
    with connect(path, project="test") as store:
        session = store.open("main")
        epoch = session._driver.lease.epoch
        store.port._appender.drivers.let_go(epoch)  # type: ignore[attr-defined]
        worker = zygote.start("hold_byte", f"{path}-lease", epoch, "posix")
        assert worker.hear() == "held"
        with connect(path, project="test") as other, pytest.raises(Busy):
            other.open("main")
        zygote.end(worker)


def test_a_session_left_while_nothing_can_be_written_opens_again(path):
    with connect(path, project="test") as store:
        leave_unable_to_write(store)
        with store.open("main", busy="wait") as again:
            assert again.recovery.cause == DIED


def test_a_session_left_while_nothing_can_be_written_is_free_for_others(path, zygote):
    with connect(path, project="test") as store:
        leave_unable_to_write(store)
        assert zygote.run("try_open", path, "main", "fail")


def leave_unable_to_write(store) -> None:
    """Leave a session with an open turn while every COMMIT fails."""
    with pytest.raises(StoreFailed):
        drive_unable_to_write(store)
    store.port._writer.open().set_commit_hook(None)


def drive_unable_to_write(store) -> None:
    with store.open("main") as session, session.turn() as turn:
        turn.fact("before", 1)
        store.port._writer.open().set_commit_hook(lambda: True)
        turn.fact("after", 2)


# -- one writer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(STRAYS))
def test_no_other_process_writes_while_one_is_inside_a_write(zygote, path, session, kind):
    inside = zygote.start("pause_inside_write", path, session, kind)
    assert inside.hear() == "inside"
    other = zygote.run("append_one", path, session, 0.05)
    inside.say("go on")
    assert other == StoreBusy.code
    assert missing(path, session, inside.result()) == set()
    zygote.end(inside)


def test_the_shared_memory_is_in_use_for_others_after_a_stray_read(zygote, path, store):
    store.open("main").pause()
    read_all(str(path))
    assert zygote.run("is_locked", f"{path}-shm", IN_USE)


def test_nothing_is_lost_while_threads_read_every_store_file(zygote, path, session):
    workers = [zygote.start("append_among_strays", path, session, 200) for _ in range(2)]
    acknowledged = [identifier for worker in workers for identifier in worker.result()]
    zygote.end(*workers)
    assert len(acknowledged) == 400
    assert missing(path, session, acknowledged) == set()
    assert findings(path) == []


def test_a_snapshot_stays_as_it_is_after_a_stray_read(zygote, path, session):
    zygote.run("write_much", path, session, 40)
    reader = zygote.start("read_among_strays", path, session)
    assert reader.hear() == "strayed"
    zygote.run("write_much", path, session, 400)
    reader.say("go on")
    before, after = reader.result()
    assert before == after
    zygote.end(reader)


def test_two_stores_of_one_process_take_turns(path, session):
    with connect(path, project="test") as one, connect(path, project="test") as two:
        for n in range(10):
            for store in (one, two):
                store.port.append(session, [fact_draft(store, session, f"fact {n}")])
        assert len(list(one.read(session).log(load=False))) == 21


def test_the_last_of_two_stores_to_close_leaves_one_file_and_its_locks(path, session):
    one, two = connect(path, project="test"), connect(path, project="test")
    for store in (one, two):
        store.port.append(session, [fact_draft(store, session, "fact")])
    one.close()
    assert Path(f"{path}-wal").exists()
    two.close()
    assert sorted(file.name for file in path.parent.glob("store.db*")) == [
        "store.db",
        "store.db-lease",
    ]


FORGETS_TO_CLOSE = """
import sys
from stator.connect import connect
store = connect(sys.argv[1], project="test")
store.contribute("main").fact("other", 1)
"""


def forget_to_close(path) -> None:
    """Write in a program that ends without closing its store."""
    subprocess.run(
        [sys.executable, "-c", FORGETS_TO_CLOSE, str(path)], env=script_environment(), check=True
    )


def test_a_program_that_forgets_to_close_leaves_one_file_and_its_locks(path):
    with connect(path, project="test") as store:
        store.open("main").pause()
    forget_to_close(path)
    assert sorted(os.listdir(path.parent)) == ["store.db", "store.db-lease"]


def test_a_program_that_forgets_to_close_does_not_remove_the_log_of_another(path):
    with connect(path, project="test") as store, store.open("main"):
        read_all(str(path))
        before = os.stat(f"{path}-wal").st_ino
        forget_to_close(path)
        assert os.stat(f"{path}-wal").st_ino == before


def test_a_long_log_is_copied_into_the_file(path, session):
    with connect(path, project="test", durability="relaxed") as store:
        for n in range(400):
            store.port.append(
                session, [fact_draft(store, session, f"{n % 7}", os.urandom(6000).hex())]
            )
        pages = os.path.getsize(f"{path}-wal") // 4120
    assert pages < 2 * connection.CHECKPOINT_PAGES


def test_a_removed_lock_file_is_made_again_and_excludes(zygote, path, session):
    with connect(path, project="test") as store:
        store.port.append(session, [fact_draft(store, session, "fact")])
        os.unlink(f"{path}-lease")
        inside = zygote.start("pause_inside_write", path, session, "read")
        assert inside.hear() == "inside"
        store.port._writer._patience.seconds = 0.05  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(connection, "BUSY_SECONDS", 0.05)
            with pytest.raises(StoreBusy):
                store.port.append(session, [fact_draft(store, session, "fact")])
        zygote.end(inside)


# -- a driver suspended inside a write ------------------------------------------------------------


@pytest.fixture
def suspended(zygote, path, monkeypatch):
    """A driver that was stopped inside a transaction."""
    worker = zygote.start("drive_and_pause_inside_write", path)
    assert worker.hear() == "inside"
    worker.signal(signal.SIGSTOP)
    monkeypatch.setattr(connection, "OPEN_S", 0.05)
    monkeypatch.setattr(connection, "SUSPENDED_S", 0.05)
    yield worker
    zygote.end(worker)


@pytest.mark.parametrize("busy", ["take", "fail"])
def test_opening_names_the_process_that_is_suspended_inside_a_write(suspended, path, busy):
    with connect(path, project="test") as store, pytest.raises(StoreBusy) as caught:
        store.open("main", busy=busy)
    assert f"process {suspended.pid} " in caught.value.what
    assert "is suspended inside a write" in caught.value.what
    assert f"kill -CONT {suspended.pid}" in caught.value.hint
    assert caught.value.ids["pid"] == suspended.pid
    assert caught.value.ids["host"] == os.uname().nodename


def test_taking_a_lease_names_the_suspended_driver_and_since_when(suspended, path):
    with connect(path, project="test") as store:
        row = store.port.session(store.read("main").id)
        assert row.holder is not None
        with pytest.raises(StoreBusy) as caught:
            store.port.acquire(row.id, row.holder, take=True)
    assert "session 'main'" in caught.value.what
    assert f"pid {suspended.pid}, since 20" in caught.value.what
    assert caught.value.ids["since"] == row.holder.since


def test_a_contribution_does_not_wait_for_a_suspended_process(suspended, path):
    with connect(path, project="test") as store, pytest.raises(StoreBusy) as caught:
        store.contribute("main").fact("other", 1)
    assert caught.value.ids["pid"] == suspended.pid


def test_reading_works_while_a_driver_is_suspended_inside_a_write(suspended, path):
    with connect(path, project="test") as store:
        assert store.read("main").facts() == {}


def test_a_session_is_free_once_the_suspended_driver_is_killed(suspended, path):
    suspended.kill()
    with connect(path, project="test") as store, store.open("main") as session:
        assert session.recovery.cause == DIED


def test_a_writer_that_is_not_known_is_reported_as_such(path, session, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    with connect(path, project="test") as store, connect(path, project="test") as other:
        other.port._writer.locked.acquire(0.0)  # type: ignore[attr-defined]
        with pytest.raises(StoreBusy, match="which one is not known"):
            store.port.append(session, [fact_draft(store, session, "fact")])


def test_a_file_that_is_no_store_is_refused_without_a_trace(tmp_path):
    (tmp_path / "notes.db").write_bytes(b"not a database" * 100)
    with pytest.raises(NotAStore):
        connect(tmp_path / "notes.db", project="test")
    assert os.listdir(tmp_path) == ["notes.db"]


# -- removed files --------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_contributions_made_after_the_shared_memory_was_lost_are_kept(zygote, path, what):
    with (
        connect(path, project="test") as store,
        store.open("main") as session,
        session.turn() as turn,
    ):
        mine = [turn.fact("before", 0)]
        if what == "replaced":
            shutil.copy(f"{path}-shm", f"{path}-shm.copy")
            os.rename(f"{path}-shm.copy", f"{path}-shm")
        else:
            os.unlink(f"{path}-shm")
        theirs = zygote.run("contribute", path, 10)
        mine.append(turn.fact("after", 1))
    assert missing(path, "main", mine + theirs) == set()
    assert findings(path) == []


def test_a_reader_sees_what_was_written_after_the_shared_memory_was_removed(zygote, path):
    with connect(path, project="test") as store, store.open("main") as session, session.turn():
        os.unlink(f"{path}-shm")
        theirs = zygote.run("contribute", path, 3)
        assert {commit.id for commit in session.log()} >= set(theirs)


@pytest.mark.parametrize("files", [["-wal"], ["-wal", "-shm"], ["-wal", "-shm", "-lease"]])
def test_a_driver_whose_log_was_removed_loses_nothing(path, files):
    with (
        connect(path, project="test") as store,
        store.open("main") as session,
        session.turn() as turn,
    ):
        mine = [turn.fact(f"fact {n}", n) for n in range(5)]
        for suffix in files:
            os.unlink(f"{path}{suffix}")
        mine.append(turn.fact("after", 1))
    assert missing(path, "main", mine) == set()
    assert findings(path) == []


def test_a_store_that_only_closes_after_its_log_was_removed_loses_nothing(path, session):
    with connect(path, project="test") as store:
        mine = [
            store.port.append(session, [fact_draft(store, session, f"{n}")])[0].id for n in range(5)
        ]
        os.unlink(f"{path}-wal")
    assert missing(path, session, mine) == set()
    assert findings(path) == []


def test_another_process_is_told_that_the_log_of_an_open_store_was_removed(path):
    with connect(path, project="test") as store, store.open("main") as session, session.turn():
        os.unlink(f"{path}-wal")
        with pytest.raises(
            StoreFailed, match="-wal was removed while a program had the store open"
        ):
            connect(path, project="test")


def test_an_empty_log_in_place_of_the_removed_one_is_reported_as_such(path):
    with connect(path, project="test") as store, store.open("main") as session, session.turn():
        os.unlink(f"{path}-wal")
        Path(f"{path}-wal").touch()
        with pytest.raises(
            StoreFailed, match="-wal was removed while a program had the store open"
        ):
            connect(path, project="test")


def test_a_log_removed_between_two_runs_is_reported_and_not_taken_for_an_empty_store(zygote, path):
    worker = zygote.start("append_until_killed", path)
    assert len(worker.hear()) == 5
    worker.kill()
    zygote.end(worker)
    os.unlink(f"{path}-wal")
    with pytest.raises(StoreCorrupt, match=r"store\.db-wal is missing") as caught:
        connect(path, project="test")
    assert f"remove {path}-shm" in caught.value.hint


def test_a_store_whose_log_was_removed_opens_again_as_its_error_says(zygote, path):
    worker = zygote.start("append_until_killed", path)
    worker.hear()
    worker.kill()
    zygote.end(worker)
    os.unlink(f"{path}-wal")
    os.unlink(f"{path}-shm")
    assert findings(path) == []


FORGETS = """
import shutil, stator, sys, tempfile
folder = tempfile.mkdtemp()
store = stator.connect(folder + "/agent.db", project="test")
with store.open("main") as s, s.turn("one") as t:
    t.fact("a", 1)
shutil.rmtree(folder)
if "close" in sys.argv:
    store.close()
"""


@pytest.mark.parametrize("words", [[], ["close"]])
def test_a_program_whose_store_was_deleted_ends_without_a_word(words):
    done = subprocess.run(
        [sys.executable, "-c", FORGETS, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
