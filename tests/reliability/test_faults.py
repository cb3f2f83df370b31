"""Disk full, quotas, no descriptors, failing system calls: a typed error, no false acknowledgement, no broken store."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from reliability.support import fact_draft, findings, recorded_session, script_environment
from stator.connect import connect
from stator.errors import StoreError, StoreFailed, StoreFull
from stator.model.views.open_calls import DIED

STRACE = "/usr/bin/strace"
root = pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")
strace = pytest.mark.skipif(not os.path.exists(STRACE), reason="needs strace")


# -- disk full ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of one megabyte, and how to make it larger."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def grow(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(folder)], check=True)


def fill(store, session: str) -> int:
    """Append until the disk is full; returns the last acknowledged seq."""
    last = 0
    for n in range(10_000):
        draft = fact_draft(store, session, f"fact {n}", os.urandom(3000))
        try:
            last = int(store.port.append(session, [draft])[0].seq)
        except StoreFull:
            return last
    raise AssertionError("the disk is never full")


def fill_up(folder: Path) -> None:
    """Leave no byte of a disk free."""
    with contextlib.suppress(OSError), (folder / "filler").open("ab", buffering=0) as file:
        while file.write(b"\0" * 512):
            pass


def drive_until_full(store, folder: Path) -> None:
    """Leave a session because its disk has become full."""
    with store.open("main") as session, session.turn() as turn:
        turn.fact("small", 1)
        fill_up(folder)
        consume(turn.fact(f"fact {n}", os.urandom(3000)) for n in range(10_000))


def consume(work) -> None:
    for _ in work:
        pass


@root
def test_a_full_disk_raises_store_full(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        assert fill(store, recorded_session(store, "main")) > 1


@root
def test_reading_works_when_the_disk_is_full(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        session = recorded_session(store, "main")
        last = fill(store, session)
        assert [commit.seq for commit in store.read(session).log()] == list(range(1, last + 1))


@root
def test_writing_works_again_when_the_disk_has_room(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        session = recorded_session(store, "main")
        last = fill(store, session)
        grow(small_disk)
        assert store.port.append(session, [fact_draft(store, session, "more")])[0].seq == last + 1


@root
def test_a_store_verifies_after_its_disk_was_full(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        fill(store, recorded_session(store, "main"))
        grow(small_disk)
    assert findings(small_disk / "store.db") == []


@root
def test_a_driver_continues_when_the_disk_has_room_again(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        with store.open("main") as session, session.turn() as turn:
            with pytest.raises(StoreFull):
                consume(turn.fact(f"fact {n}", os.urandom(3000)) for n in range(10_000))
            grow(small_disk)
            turn.fact("after", True)
        assert session.facts()["after"] is True


@root
def test_another_process_gets_the_lease_after_a_full_disk_refused_it(zygote, small_disk):
    path = small_disk / "store.db"
    with connect(path, project="test") as store:
        session = recorded_session(store, "filler")
        store.open("main").pause()
        fill(store, session)
        fill_up(small_disk)
        with pytest.raises(StoreError):
            store.open("main")
        grow(small_disk)
        assert zygote.run("try_open", path, "main", "fail")


@root
def test_creating_a_store_on_a_full_disk_leaves_no_file(small_disk):
    (small_disk / "filler").write_bytes(b"\0" * (1024 * 1024 - 16 * 1024))
    with pytest.raises(StoreError):
        connect(small_disk / "store.db", project="test")
    assert os.listdir(small_disk) == ["filler"]


@root
@pytest.mark.parametrize("busy", ["fail", "wait"])
def test_a_session_left_on_a_full_disk_opens_again_in_the_same_process(small_disk, busy):
    with connect(small_disk / "store.db", project="test") as store:
        with pytest.raises(StoreFull):
            drive_until_full(store, small_disk)
        grow(small_disk)
        with store.open("main", busy=busy) as again:
            assert again.recovery.cause == DIED


@root
def test_a_first_search_on_a_full_disk_finds_what_there_is(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        with store.open("main") as session, session.turn("where is the needle"):
            pass
        fill_up(small_disk)
        with pytest.warns(RuntimeWarning, match="the search index cannot be written"):
            assert [hit.name for hit in store.search("needle")] == ["main"]


@root
def test_a_search_on_a_full_disk_finds_what_came_after_the_last_one(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        session = recorded_session(store, "main")
        assert store.search("needle") == []
        store.port.append(session, [fact_draft(store, session, "needle")])
        fill_up(small_disk)
        with pytest.warns(RuntimeWarning, match="the search index cannot be written"):
            assert len(store.search("needle")) == 1


@root
def test_a_search_uses_its_index_again_when_the_disk_has_room(small_disk):
    with connect(small_disk / "store.db", project="test") as store:
        session = recorded_session(store, "main")
        store.port.append(session, [fact_draft(store, session, "needle")])
        fill_up(small_disk)
        with pytest.warns(RuntimeWarning):
            store.search("needle")
        grow(small_disk)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(store.search("needle")) == 1


# -- limits ---------------------------------------------------------------------------------------


def run(
    path, session: str, count: int, *prefix: str, limit: tuple[int, int] | None = None
) -> list[str]:
    """Run the append program; returns its lines: ids of acknowledged commits and codes of errors."""

    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(limit[0], (limit[1], limit[1]))

    done = subprocess.run(
        [*prefix, sys.executable, "-m", "reliability.workers", str(path), session, str(count)],
        env=script_environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=restrict,
    )
    return done.stdout.split()


def lost(path, session: str, lines: list[str]) -> set[str]:
    """Commits that were acknowledged and are not in the log."""
    with connect(path, project="test") as store:
        there = {commit.id for commit in store.read(session).log(load=False)}
    return {line for line in lines if line.startswith("k_")} - there


@pytest.fixture
def session(path):
    with connect(path, project="test") as store:
        return recorded_session(store, "main")


def test_a_file_size_limit_is_an_error_with_a_code(path, session):
    lines = run(path, session, 80, limit=(resource.RLIMIT_FSIZE, 160 * 1024))
    assert set(line for line in lines if not line.startswith("k_")) <= {
        StoreFailed.code,
        StoreFull.code,
    }
    assert lines[0].startswith("k_")
    assert not lines[-1].startswith("k_")


def test_a_file_size_limit_loses_nothing_acknowledged(path, session):
    lines = run(path, session, 80, limit=(resource.RLIMIT_FSIZE, 160 * 1024))
    assert (lost(path, session, lines), findings(path)) == (set(), [])


def test_an_open_store_works_without_spare_file_descriptors(zygote, path, session):
    told = zygote.run("without_descriptors", path, session)
    assert told["appended"] == told["head"] == 3


def test_opening_a_store_without_spare_file_descriptors_is_an_error_with_a_code(
    zygote, path, session
):
    told = zygote.run("without_descriptors", path, session)
    assert told["opening"] in (StoreFailed.code, "E_NOT_A_STORE")


# -- failing system calls -------------------------------------------------------------------------


def inject(path, session: str, call: str, fault: str, when: str) -> list[str]:
    """Run the program with one system call on the store's files failing."""
    prefix = [STRACE, "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", f"trace={call}"]
    prefix += ["-e", f"inject={call}:{fault}:when={when}"]
    for suffix in ("", "-wal"):
        prefix += ["-P", f"{path}{suffix}"]
    return run(path, session, 4, *prefix)


CODES = {StoreFailed.code, StoreFull.code, "E_NOT_A_STORE", "E_CORRUPT", "E_READ_ONLY"}
"""The last one because SQLite opens a file for reading if it cannot open it for writing."""


def hurt(path, session: str, call: str, fault: str, when: str) -> str:
    """What is wrong after a fault, or an empty text."""
    lines = inject(path, session, call, fault, when)
    errors = {line for line in lines if not line.startswith("k_")}
    missing = lost(path, session, lines)
    found = findings(path)
    if missing or found or not errors <= CODES:
        return f"{call} {fault} {when}: lost {missing}, found {found}, said {errors}"
    return ""


POINTS = [
    ("pwrite64", "error=EIO", "1"),
    ("pwrite64", "error=EIO", "4"),
    ("pwrite64", "error=ENOSPC", "2"),
    ("pwrite64", "error=ENOSPC", "3+"),
    ("pwrite64", "signal=KILL", "5"),
    ("fdatasync", "error=EIO", "1"),
    ("fdatasync", "error=EIO", "2"),
    ("fdatasync", "error=EIO", "1+"),
    ("fdatasync", "error=ENOSPC", "2"),
    ("fdatasync", "signal=KILL", "1"),
    ("fdatasync", "signal=KILL", "3"),
    ("ftruncate", "error=EIO", "1"),
]


@strace
@pytest.mark.parametrize(("call", "fault", "when"), POINTS)
def test_a_failing_system_call_causes_no_false_acknowledgement(path, session, call, fault, when):
    assert hurt(path, session, call, fault, when) == ""


@strace
def test_an_append_works_again_after_one_failed_sync(path, session):
    lines = inject(path, session, "fdatasync", "error=EIO", "2")
    assert [line.startswith("k_") for line in lines].count(False) == 1


@strace
@pytest.mark.slow
def test_no_failure_of_any_system_call_causes_a_false_acknowledgement(tmp_path, capsys):
    points, wrong = 0, []
    counts = {
        "pwrite64": 24,
        "fdatasync": 8,
        "ftruncate": 3,
        "openat": 8,
        "unlink": 2,
        "pread64": 20,
    }
    for call, last in counts.items():
        for fault in ("error=EIO", "error=ENOSPC", "signal=KILL"):
            for n in range(1, last + 1):
                for when in (f"{n}", f"{n}+"):
                    if fault == "signal=KILL" and when.endswith("+"):
                        continue
                    points += 1
                    path = tmp_path / f"{points}.db"
                    with connect(path, project="test") as store:
                        session = recorded_session(store, "main")
                    if said := hurt(path, session, call, fault, when):
                        wrong.append(said)
    with capsys.disabled():
        print(f"\nfailing system calls: {points} points, {len(wrong)} wrong")
    assert wrong == []
