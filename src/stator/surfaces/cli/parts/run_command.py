"""Runs a command that the user named, with a bound on its time and on what it prints."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import threading

from stator.errors import InvalidInput

SECONDS_MAX = 120.0
BYTES_MAX = 4 * 2**20
"""Bytes that a command may print."""


def run_command(command: str, given: bytes) -> bytes:
    """What a command prints. It is run without a shell; its own errors go where ours do."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"the command cannot be read: {error}", hint=command) from None
    if not words:
        raise InvalidInput("the command is empty")
    with tempfile.TemporaryFile() as asked:
        asked.write(given)
        asked.seek(0)
        try:
            process = subprocess.Popen(
                words, stdin=asked, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise InvalidInput(
                f"{words[0]} cannot be run: {error.strerror}", hint="extract in stator.toml"
            ) from None
    return _printed(process, words[0])


def _printed(process: subprocess.Popen[bytes], name: str) -> bytes:
    """What a process prints until it ends. One that takes too long, or prints too much, is ended, and so is what it
    started: that would hold the pipe open."""
    late = threading.Event()

    def end() -> None:
        late.set()
        _end_group(process)

    timer = threading.Timer(SECONDS_MAX, end)
    timer.start()
    try:
        assert process.stdout is not None  # it is a pipe
        with process.stdout as pipe:
            data = pipe.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            _end_group(process)
        code = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            _end_group(process)
            process.wait()
    if late.is_set():
        problem = f"took longer than {SECONDS_MAX:g} s and was ended"
    elif len(data) > BYTES_MAX:
        problem = f"printed more than {BYTES_MAX:,} bytes and was ended"
    elif code:
        problem = f"failed with {code}"
    else:
        return data
    raise InvalidInput(f"{name} {problem}", hint="nothing that it found was recorded")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started and did not detach."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
