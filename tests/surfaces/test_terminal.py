"""On a terminal: colour, a pager when it is needed, and leaving at any time."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from waiting import PATIENCE_S, eventually, is_readable


def on_terminal(*words: str, rows: int = 24, env: dict[str, str] | None = None) -> str:
    """Run the program on a pseudo-terminal of that height; returns what it showed."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 90, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    environ.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "stator.surfaces.cli.main", *words],
        stdin=child, stdout=child, stderr=child, env=environ, close_fds=True,
    )  # fmt: skip
    os.close(child)
    shown = b""
    while is_readable(parent):
        try:
            data = os.read(parent, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    process.wait(timeout=PATIENCE_S)
    os.close(parent)
    assert process.returncode == 0
    return shown.decode()


@pytest.fixture
def pager(tmp_path):
    """A pager that prints a mark before the text."""
    path = tmp_path / "page me"
    path.write_text("#!/bin/sh\necho '<paged>'\ncat\n")
    path.chmod(0o755)
    return f"'{path}'"


def test_a_long_answer_is_paged(store, pager):
    shown = on_terminal("log", rows=10, env={"PAGER": pager})
    assert "<paged>" in shown
    assert "fix the login bug" in shown


def test_an_answer_that_fits_is_not_paged(store, pager):
    assert "<paged>" not in on_terminal("diff", rows=50, env={"PAGER": pager})


@pytest.mark.parametrize(
    "env", [{"PAGER": "cat"}, {"PAGER": ""}, {"PAGER": "'"}, {"PAGER": "/no/such"}]
)
def test_an_unusable_pager_is_skipped(store, env):
    assert "fix the login bug" in on_terminal("log", rows=10, env=env)


def test_no_pager_turns_the_pager_off(store, pager):
    assert "<paged>" not in on_terminal("log", "--no-pager", rows=10, env={"PAGER": pager})


def test_leaving_the_pager_early_is_quiet(store):
    shown = on_terminal("log", "--full", rows=10, env={"PAGER": "head -n 1"})
    assert "Traceback" not in shown
    assert "Broken" not in shown


def test_a_terminal_gets_colour_unless_turned_off(store):
    assert "\x1b[1m" in on_terminal("diff", rows=50)
    assert "\x1b[" not in on_terminal("diff", rows=50, env={"NO_COLOR": "1"})
    assert "\x1b[" not in on_terminal("diff", rows=50, env={"TERM": "dumb"})


def test_help_and_verify_on_a_terminal(store):
    assert "Examples:" in on_terminal("log", "--help", rows=50)
    assert "OK: " in on_terminal("verify", rows=50)


def has_open(pid: int, path: os.PathLike[str]) -> bool:
    """Whether a process has that file open."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed since it was listed
            if os.readlink(f"/proc/{pid}/fd/{fd}") == os.path.realpath(path):
                return True
    return False


def test_an_interrupt_ends_it_quietly(store):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
    process = subprocess.Popen(
        [sys.executable, "-m", "stator.surfaces.cli.main", "sql", endless, "--seconds", "600"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # a shell that started the tests in the background had them ignore interrupts
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    # not before: while Python itself starts, an interrupt is Python's to report
    eventually(lambda: has_open(process.pid, store))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, b"", b"")
