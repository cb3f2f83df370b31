"""Locks between real processes: what releases them, and what does not."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from stator.locks import LockFile, lock_whole

BYTE = 7


@pytest.fixture
def file(tmp_path):
    file = LockFile(str(tmp_path / "locks"))
    yield file
    file.close()


def test_a_lock_is_seen_by_another_process(zygote, file):
    file.lock(BYTE)
    assert zygote.run("is_locked", file.path, BYTE)


def test_closing_another_descriptor_of_the_file_does_not_release_a_lock(zygote, file):
    file.lock(BYTE)
    open(file.path, "rb").close()
    shutil.copy(file.path, file.path + ".copy")
    assert zygote.run("is_locked", file.path, BYTE)


def test_two_lock_files_of_one_process_exclude_each_other(file):
    other = LockFile(file.path)
    assert file.lock(BYTE)
    assert not other.lock(BYTE)


def test_a_lock_file_does_not_see_its_own_lock(file):
    file.lock(BYTE)
    assert not file.is_locked(BYTE)


def test_looking_at_a_byte_does_not_take_it(file):
    other = LockFile(file.path)
    assert not file.is_locked(BYTE)
    assert other.lock(BYTE)


def test_bytes_are_independent(file):
    other = LockFile(file.path)
    file.lock(BYTE)
    assert other.lock(BYTE + 1)
    assert other.lock(2**62)


def test_shared_locks_admit_each_other_and_keep_an_exclusive_one_out(file):
    other, third = LockFile(file.path), LockFile(file.path)
    assert file.lock(BYTE, shared=True)
    assert other.lock(BYTE, shared=True)
    assert not third.lock(BYTE)


def test_a_shared_lock_becomes_exclusive_when_the_others_are_gone(file):
    other = LockFile(file.path)
    file.lock(BYTE, shared=True)
    other.lock(BYTE, shared=True)
    assert not file.lock(BYTE)
    other.close()
    assert file.lock(BYTE)


def test_a_killed_process_holds_nothing(zygote, file):
    worker = zygote.start("hold_byte", file.path, BYTE, "ofd")
    assert worker.hear() == "held"
    assert file.is_locked(BYTE)
    worker.kill()
    assert not file.is_locked(BYTE)
    zygote.end(worker)


def test_a_forked_child_does_not_keep_the_lock_of_a_killed_parent(zygote, file):
    worker = zygote.start("hold_with_child", file.path, BYTE)
    child = worker.hear()
    assert file.is_locked(BYTE)
    worker.kill()
    locked = file.is_locked(BYTE)
    os.kill(child, signal.SIGKILL)
    zygote.end(worker)
    assert not locked


def test_a_lock_file_is_closed_in_a_forked_child(file):
    pid = os.fork()
    if pid == 0:
        os._exit(int(file.is_open))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert file.is_open


def test_a_lock_of_0_5_is_seen_and_excludes(zygote, file):
    worker = zygote.start("hold_byte", file.path, BYTE, "posix")
    assert worker.hear() == "held"
    assert file.is_locked(BYTE)
    assert not file.lock(BYTE)
    zygote.end(worker)


def test_a_process_of_0_5_sees_a_lock(zygote, file):
    file.lock(BYTE)
    assert zygote.run("sees_posix_conflict", file.path, BYTE)


def test_a_removed_lock_file_is_not_in_place(file):
    assert file.is_in_place()
    os.unlink(file.path)
    assert not file.is_in_place()


def test_a_whole_file_is_locked_by_one_descriptor_at_a_time(file):
    first, second = os.open(file.path, os.O_RDONLY), os.open(file.path, os.O_RDONLY)
    assert lock_whole(first)
    assert not lock_whole(second)
    assert not lock_whole(second, shared=True)
    os.close(first)
    assert lock_whole(second, shared=True)
    os.close(second)
