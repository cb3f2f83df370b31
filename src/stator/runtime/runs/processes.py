"""Starts the supervisor of a run, and ends a program whose supervisor is gone.

The supervisor is another program (`stator.surfaces.supervisor`), as git is to `worktree`: it is
executed, never forked from here, because the caller may have threads, locks and an open store.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput, NotFound, StoreFailed

if TYPE_CHECKING:
    from stator.model.sessions.detached_run import RunInfo

SUPERVISOR = "stator.surfaces.supervisor"
TARGET = "stator.surfaces.target"
LOOK_S = 0.05
"""Between looks whether a process has gone."""


def start(folder: str, lock: int) -> None:
    """Start a supervisor for a run, which inherits the lock; return when its program has started.

    If it could not be started, nothing runs and the reason is raised.
    """
    import subprocess  # takes a while to load; a hook only asks here whether a process is there

    ours, theirs = os.pipe()
    words = [sys.executable, "-P", "-m", SUPERVISOR, folder, str(lock), str(theirs)]
    try:
        first = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,  # until it is ready, so that it can say why it never was
            start_new_session=True,
            pass_fds=(lock, theirs),
        )
    finally:
        os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        said = answer.read()
    first.wait()  # it has left a supervisor that is nobody's child
    try:
        problem = msgspec.json.decode(said, type=str | None)
    except msgspec.DecodeError:
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise StoreFailed(f"the supervisor did not start: {last or 'it died'}") from None
    if problem:
        raise InvalidInput(f"cannot run it: {problem}")


def python_command(document: dict[str, Any]) -> list[str]:
    """The command that calls a Python function."""
    return [sys.executable, "-P", "-m", TARGET, msgspec.json.encode(document).decode()]


def import_path() -> list[str]:
    """Where this program finds its modules, from any working folder."""
    return [os.path.abspath(entry or ".") for entry in sys.path]


def module_of(name: str) -> Any:
    return sys.modules.get(name)


def whole(path: str) -> str:
    return os.path.abspath(path)


def check_program(program: str, cwd: str) -> None:
    """Refuse, before anything is made for it, a program that is not there."""
    import shutil  # reading a store needs none of it

    named = os.path.join(cwd, program) if os.path.dirname(program) else program
    if shutil.which(named) is None:
        raise NotFound(f"no program {program!r:.80}", hint="it must exist and be executable")


# -- processes by pid and start -------------------------------------------------------------------


def start_ticks(pid: int) -> int:
    """When a process started, in the kernel's ticks since boot; 0 if there is none, or it is not known."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    gone = fields[0] in (b"Z", b"X")
    return 0 if gone else int(fields[19])


def is_child(info: RunInfo, boot: str) -> bool:
    """Whether the program of a run still runs: that very process, not another under its number."""
    if not info.child or not info.child_start or info.boot != boot:
        return False
    return start_ticks(info.child) == info.child_start


def end_group(
    info: RunInfo, boot: str, grace_s: float, sleep: Callable[[float], None]
) -> int | None:
    """End a program that has no supervisor any more, and its group; by which signal, None if it was gone."""
    if not is_child(info, boot):
        return None
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(info.child) != info.child:
                raise InvalidInput(f"process {info.child} does not lead its own process group")
            os.killpg(info.child, number)
        waited = 0.0
        while is_child(info, boot) and waited < patience_s:
            sleep(LOOK_S)
            waited += LOOK_S
        if not is_child(info, boot):
            return int(number)
    raise StoreFailed(f"process {info.child} did not exit", hint="look at it with ps")
