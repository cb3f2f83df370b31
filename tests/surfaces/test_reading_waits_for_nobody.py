"""Questions in SQL about a store that another program is writing to, or that may not be written at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

WRITES = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
COUNT = "SELECT count(*) AS n FROM sessions"
ASKS = """
import sys
from stator.surfaces.cli.main import main
sys.exit(main(["sql", sys.argv[1], "--json"]))
"""


@pytest.fixture
def writer(store):
    """Another program that is inside a write until the test ends."""
    started = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "held\n"
    yield started
    started.communicate("")


def test_a_question_in_sql_is_answered_at_once_while_another_program_writes(store, writer, ask):
    begun = time.monotonic()
    answer = ask("sql", COUNT, "--json")
    assert (answer.code, answer.out) == (0, '{"n":1}\n')
    assert time.monotonic() - begun < 15


def run(words, store):
    return subprocess.run(
        words,
        env={**os.environ, "STATOR_STORE": str(store)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes what is read-only")
def test_a_store_file_without_write_permission_is_asked_in_sql(store):
    store.chmod(0o444)
    done = run([sys.executable, "-c", ASKS, COUNT], store)
    assert (done.returncode, done.stdout) == (0, '{"n":1}\n'), done.stderr


@pytest.fixture
def read_only(store, tmp_path):
    """The words that run a program which sees the folder of the store read-only."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root mounts")
    folder = tmp_path / "mounted"
    folder.mkdir()
    shutil.copy(store, folder / "agent.db")
    (folder / "agent.db-lease").touch()

    def words(*of: str) -> list[str]:
        command = 'exec "$0" "$@"'
        mounts = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && {command}"
        return ["unshare", "--mount", "sh", "-c", mounts, sys.executable, *of]

    if subprocess.run(words("-c", ""), capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    return folder / "agent.db", words


def test_a_store_on_a_read_only_file_system_is_asked_in_sql(read_only):
    path, words = read_only
    done = run(words("-c", ASKS, COUNT), path)
    assert (done.returncode, done.stdout) == (0, '{"n":1}\n'), done.stderr


def test_what_cannot_be_written_says_so_without_naming_our_lock_file(read_only):
    path, words = read_only
    done = run(words("-m", "stator", "tag", "here"), path)
    assert done.returncode == 5
    assert "agent.db cannot be written: it is read-only" in done.stderr
    assert "Bad file descriptor" not in done.stderr
