"""Many processes and threads on one store: no lost commit, no deadlock, one driver at a time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import apsw
import pytest

from reliability.support import fact_draft, findings, recorded_session, script_environment
from stator.connect import connect
from stator.errors import Busy, LeaseLost, StatorError, WrongProcess
from stator.store.sqlite import connection


def all_at_once(workers):
    """Start workers that are ready at the same time, and collect their results."""
    for worker in workers:
        assert worker.hear() == "ready"
    for worker in workers:
        worker.say("go")
    return [worker.result() for worker in workers]


# -- creating -------------------------------------------------------------------------------------


def test_processes_that_create_one_store_at_once_all_get_the_same_store(zygote, path):
    workers = [zygote.start("create", path) for _ in range(32)]
    stores = all_at_once(workers)
    zygote.end(*workers)
    assert len(stores) == 32
    assert len(set(stores)) == 1


def test_a_store_created_by_many_processes_verifies(zygote, path):
    workers = [zygote.start("create", path) for _ in range(8)]
    all_at_once(workers)
    zygote.end(*workers)
    assert findings(path) == []


def test_concurrent_creation_leaves_no_partial_files(zygote, path):
    workers = [zygote.start("create", path) for _ in range(8)]
    all_at_once(workers)
    zygote.end(*workers)
    assert [name for name in os.listdir(path.parent) if ".new-" in name] == []


def test_a_new_store_can_be_read_by_its_owner_only(path):
    connect(path, project="test").close()
    assert path.stat().st_mode & 0o777 == 0o600


# -- appending ------------------------------------------------------------------------------------


def test_flushing_all_sessions_includes_commits_of_another_connection(path, monkeypatch):
    monkeypatch.setattr("stator.store.sqlite.append.TAILS_MAX", 3)
    with connect(path, project="test") as mine, connect(path, project="test") as theirs:
        both, own = recorded_session(mine, "both"), recorded_session(mine, "own")
        mine.port.append(both, [fact_draft(mine, both, "1")])
        theirs.port.append(both, [fact_draft(theirs, both, "2")])
        for number in (3, 4):  # the second exceeds the limit of unflushed commits
            mine.port.append(own, [fact_draft(mine, own, str(number))])
        assert findings(path) == []


def append_at_once(zygote, path, processes: int, each: int):
    """The ids acknowledged to processes that append to one session, and the log of that session."""
    with connect(path, project="test") as store:
        session = recorded_session(store, "shared")
    workers = [zygote.start("append", path, session, each) for _ in range(processes)]
    acknowledged = [one for ids in all_at_once(workers) for one in ids]
    zygote.end(*workers)
    with connect(path, project="test") as store:
        return acknowledged, list(store.read(session).log())


def test_processes_that_share_a_session_lose_no_commit(zygote, path):
    acknowledged, log = append_at_once(zygote, path, 8, 100)
    assert sorted(acknowledged) == sorted(commit.id for commit in log[1:])


def test_the_seqs_of_a_shared_session_have_no_gap(zygote, path):
    _, log = append_at_once(zygote, path, 4, 50)
    assert [commit.seq for commit in log] == list(range(1, 202))


def drive_at_once(zygote, path, processes: int, each: int) -> int:
    """The number of missing commits that were acknowledged to drivers of separate sessions."""
    connect(path, project="test").close()
    workers = [zygote.start("drive_many", path, each) for _ in range(processes)]
    acknowledged = [one for ids in all_at_once(workers) for one in ids]
    zygote.end(*workers)
    assert len(acknowledged) == processes * each
    with connect(path, project="test") as store:
        there = {c.id for row in store.sessions().rows for c in store.read(row.id).log()}
    return len(set(acknowledged) - there)


def test_processes_with_their_own_sessions_lose_no_commit(zygote, path):
    assert drive_at_once(zygote, path, 8, 100) == 0


@pytest.mark.slow
def test_sixteen_processes_with_500_appends_each_lose_no_commit(zygote, path, capsys):
    acknowledged, log = append_at_once(zygote, path, 16, 500)
    with capsys.disabled():
        print(f"\n16 × 500 on one session: {len(acknowledged)} acknowledged, {len(log) - 1} there")
    assert sorted(acknowledged) == sorted(commit.id for commit in log[1:])
    assert [commit.seq for commit in log] == list(range(1, 8002))
    assert findings(path) == []


@pytest.mark.slow
def test_sixteen_drivers_with_500_appends_each_lose_no_commit(zygote, path):
    assert drive_at_once(zygote, path, 16, 500) == 0
    assert findings(path) == []


def test_opening_a_store_waits_for_a_process_that_locks_it(zygote, path, monkeypatch):
    """A process that recovers the WAL after a crash holds such a lock, even for the first read."""
    connect(path, project="test").close()
    worker = zygote.start("lock", path)
    assert worker.hear() == "locked"
    waits = connection.Patience.__call__

    def release_then_wait(self, tries: int) -> bool:
        worker.say("let go")
        return waits(self, tries)

    monkeypatch.setattr(connection.Patience, "__call__", release_then_wait)
    with connect(path, project="test") as store:
        assert store.sessions().rows == []
    zygote.end(worker)


# -- drivers --------------------------------------------------------------------------------------


@pytest.fixture
def driver(zygote, path):
    """Another process that drives `main`."""
    worker = zygote.start("hold", path, "main")
    assert isinstance(worker.hear(), str)
    yield worker
    zygote.end(worker)


def test_the_busy_error_of_a_second_driver_has_the_holder(driver, store):
    with pytest.raises(Busy) as busy:
        store.open("main")
    assert (busy.value.holder.pid, busy.value.holder.host) == (driver.pid, socket.gethostname())


def test_the_busy_message_names_pid_and_host(driver, store):
    with pytest.raises(Busy, match=rf"on {socket.gethostname()}, pid {driver.pid}"):
        store.open("main")


def test_a_refused_driver_writes_nothing(driver, store):
    before = store.read("main").head
    with pytest.raises(Busy):
        store.open("main")
    assert store.read("main").head == before


def test_the_first_driver_continues_after_refusing_a_second(driver, store):
    with pytest.raises(Busy):
        store.open("main")
    driver.say("on")
    assert "commit" in driver.hear()


def test_a_second_open_in_the_same_process_is_refused_too(store):
    with store.open("main"), pytest.raises(Busy):
        store.open("main")


def test_two_stores_on_one_file_keep_each_others_leases(zygote, store, path):
    with store.open("main"):
        with connect(path, project="test") as other, pytest.raises(Busy):
            other.open("main")
        worker = zygote.start("try_open", path, "main", "fail")
        answer = worker.drain()[-1]
        zygote.end(worker)
    assert answer["error"] == "E_BUSY"


def test_a_killed_drivers_session_is_free_at_once(driver, store):
    driver.kill()
    with store.open("main") as session:
        assert session.row.holder is not None
        assert session.row.holder.pid == os.getpid()


def test_a_suspended_driver_keeps_its_session(driver, store):
    driver.signal(signal.SIGSTOP)
    with pytest.raises(Busy):
        store.open("main")


def test_a_displaced_driver_cannot_append_when_it_resumes(driver, store):
    driver.signal(signal.SIGSTOP)
    with store.open("main", busy="take"):
        driver.say("too late")
        driver.signal(signal.SIGCONT)
        assert driver.hear() == {"error": "E_LEASE"}


def test_an_append_of_a_displaced_driver_is_not_in_the_log(driver, store):
    driver.signal(signal.SIGSTOP)
    with store.open("main", busy="take") as session:
        driver.say("too late")
        driver.signal(signal.SIGCONT)
        driver.hear()
        assert session.facts().get("told") is None


def test_taking_over_marks_the_turn_of_the_displaced_driver_as_interrupted(driver, store):
    driver.signal(signal.SIGSTOP)
    with store.open("main", busy="take") as session:
        assert [turn.status for turn in session.turns()] == ["interrupted"]


def test_a_driver_without_its_lease_cannot_append(store):
    with store.open("main") as session:
        draft = fact_draft(store, session.id, "x", epoch=session._driver.lease.epoch + 1)
        with pytest.raises(LeaseLost):
            store.port.append(session.id, [draft])


# -- forks of a process ---------------------------------------------------------------------------


def test_a_store_does_not_work_in_a_forked_child(zygote, path):
    assert set(zygote.run("after_fork", path, "main")) == {WrongProcess.code}


def test_an_attempt_in_a_forked_child_leaves_the_parents_store_intact(zygote, path, store):
    zygote.run("after_fork", path, "main")
    assert store.read("main").facts()["parent"] == 1
    assert findings(path) == []


def test_using_a_closed_store_is_an_error(path):
    store = connect(path, project="test")
    store.close()
    with pytest.raises(WrongProcess):
        store.open("main")


# -- threads --------------------------------------------------------------------------------------


def test_concurrent_threads_lose_no_commit(zygote, path, store):
    session = recorded_session(store, "shared")
    ids = zygote.run("threads", path, session, 16, 50)
    assert sorted(ids) == sorted(
        commit.id for commit in store.read(session).log() if commit.seq > 1
    )


def test_the_seqs_of_concurrent_threads_have_no_gap(zygote, path, store):
    session = recorded_session(store, "shared")
    zygote.run("threads", path, session, 16, 10)
    assert [commit.seq for commit in store.read(session).log()] == list(range(1, 162))


@pytest.mark.skipif(not os.path.exists("/usr/bin/strace"), reason="needs strace")
def test_concurrent_threads_share_transactions(path, store, tmp_path):
    session = recorded_session(store, "shared")
    program = (
        "import sys; from reliability import workers; "
        "workers.threads(None, sys.argv[1], sys.argv[2], 16, 50)"
    )
    trace = tmp_path / "trace"
    subprocess.run(
        [
            "/usr/bin/strace",
            "-f",
            "-qq",
            "-e",
            "trace=fdatasync,fsync",
            "-o",
            trace,
            sys.executable,
            "-c",
            program,
            str(path),
            session,
        ],
        check=True,
        env=script_environment(),
    )
    syncs = trace.read_text().count("sync(")
    assert store.read(session).head.seq == 801
    assert 0 < syncs < 400


def test_a_bad_append_of_one_thread_does_not_fail_the_others(store):
    from concurrent.futures import ThreadPoolExecutor

    session = recorded_session(store, "shared")

    def work(n: int) -> str:
        kind = "no such kind" if n % 4 == 0 else "fact"
        draft = fact_draft(store, session, f"{n}")
        draft = type(draft)(
            **{**{f: getattr(draft, f) for f in draft.__struct_fields__}, "kind": kind}
        )
        try:
            store.port.append(session, [draft])
        except StatorError as error:
            return error.code
        return "ok"

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(work, range(80)))
    assert [word == "ok" for word in told] == [n % 4 != 0 for n in range(80)]


# -- interrupts -----------------------------------------------------------------------------------


def test_the_error_of_an_interrupted_append_notes_whether_it_was_committed(zygote, path, store):
    session = recorded_session(store, "shared")
    told = zygote.run("interrupted", path, session, 300)
    there = {commit.id for commit in store.read(session).log(load=False)}
    claims = {
        commit: "acknowledged" if said == "acknowledged" else (notes or ["nothing"])[-1]
        for commit, said, notes in told
    }
    wrong = [
        (commit, claim)
        for commit, claim in claims.items()
        if (commit in there) != (claim == "acknowledged" or claim.endswith("was committed"))
    ]
    assert wrong == []


def test_an_interrupt_during_a_rollback_leaves_nothing_behind(path, store, monkeypatch):
    session = recorded_session(store, "shared")
    appender = store.port._appender
    forget_all, append_request = appender.forget_all, appender.append_request

    def interrupted() -> None:
        monkeypatch.setattr(appender, "forget_all", forget_all)
        raise KeyboardInterrupt

    def appended(db, request) -> None:
        append_request(db, request)
        monkeypatch.setattr(appender, "append_request", append_request)
        raise KeyboardInterrupt

    monkeypatch.setattr(appender, "forget_all", interrupted)
    monkeypatch.setattr(appender, "append_request", appended)
    with pytest.raises(KeyboardInterrupt):
        store.port.append(session, [fact_draft(store, session, "lost")])
    kept = store.port.append(session, [fact_draft(store, session, "kept")])[0]
    assert list(store.read(session).log())[-1] == kept
    assert findings(path) == []


class Interrupter:
    """Raises KeyboardInterrupt at the nth line executed in the store's own modules."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame, event, argument):
        if f"store{os.sep}sqlite" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupt_at(store, session: str, line: int) -> tuple[bool, str]:
    """Append, interrupted at a line; returns whether it is in the log, and what the error reported."""
    draft = fact_draft(store, session, "x", line)
    interrupter = Interrupter(line)
    claim = "acknowledged"
    before = sys.gettrace()
    try:
        sys.settrace(interrupter)
        try:
            store.port.append(session, [draft])
        finally:
            sys.settrace(before)
    except KeyboardInterrupt as error:
        claim = (getattr(error, "__notes__", None) or ["nothing"])[-1]
    # another append processes the queue
    store.port.append(session, [fact_draft(store, session, "y", line)])
    there = any(c.id == draft.id for c in store.read(session).log("head~2..head"))
    if interrupter.left > 0:
        raise StopIteration
    return there, claim


def test_an_append_interrupted_at_any_line_reports_whether_it_was_committed(store):
    session = recorded_session(store, "shared")
    store.port.append(session, [fact_draft(store, session, "first")])
    wrong = []
    for line in range(1, 1000):
        try:
            there, claim = interrupt_at(store, session, line)
        except StopIteration:
            break
        except (StatorError, apsw.Error) as error:
            wrong.append((line, True, f"store unusable: {error}"))
            break
        if there != (claim == "acknowledged" or claim.endswith("was committed")):
            wrong.append((line, there, claim))
    assert line > 20
    assert wrong == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_closed_store_leaves_no_file_open(tmp_path):
    before = descriptors()
    for number in range(5):
        with connect(tmp_path / f"{number}.db", project="test") as store, store.open("main"):
            pass
    assert descriptors() == before


def test_closing_one_store_object_keeps_the_lease_of_another(zygote, path, store):
    with store.open("main"):
        connect(path, project="test").close()
        assert zygote.run("try_to_drive", path, "main") == Busy.code
