"""What this machine says of the process: its user, how long the machine has run, and what the process runs below.
Also new ids, which are made of its time and randomness.

`connect` puts it into the context; nothing here reads the environment by itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stator.model.log.query import Holder, SessionQuery
from stator.model.values.ids import PREFIXES, Kind
from stator.runtime.base.context import Launch
from stator.runtime.base.pages import matching
from stator.store.port import StorePort

PID_MAX = 2**22
"""No process has a larger number on Linux."""


def user() -> str:
    """The name of the user, else the number."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def jitter() -> float:
    """From 0 to 1, at random."""
    import random  # few programs ever wait

    return random.random()


def boot() -> str:
    """The boot of this machine and the µs since, suspended time included; empty where the system does not say."""
    from stator.runtime.runs.folder import boot_id

    kind = getattr(time, "CLOCK_BOOTTIME", None)
    known = boot_id() if kind is not None else ""
    return f"{known}:{time.clock_gettime_ns(kind) // 1000}" if known and kind is not None else ""


def process() -> str:
    """This process, told apart from all others: its machine's boot, its pid namespace, its id and its start. Empty
    where the system does not say."""
    from stator.runtime.runs.folder import boot_id
    from stator.runtime.runs.processes import start_ticks

    boot, pid = boot_id(), os.getpid()
    start = start_ticks(pid)
    return f"{boot}:{_pid_space()}:{pid}:{start}" if boot and start else ""


def is_gone(process: str) -> bool:
    """Whether the kernel says that a process has ended. False where it cannot know: of another machine, boot or
    container, or of a process whose start is not shown."""
    from stator.runtime.runs.folder import boot_id
    from stator.runtime.runs.processes import start_ticks

    boot, *numbers = process.split(":")
    # Another machine wrote it, so that it may be anything.
    if len(numbers) != 3 or not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
        return False
    space, pid, start = map(int, numbers)
    if not boot or boot != boot_id() or space != _pid_space() or not 0 < pid <= PID_MAX:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it runs, or another does that has its number now
    return start_ticks(pid) not in (0, start)


def _pid_space() -> int:
    """The namespace that process ids are counted in."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def below(store: StorePort, environ: Mapping[str, str]) -> str:
    """The driver or agent of a store that this process runs below; empty if none is found."""
    from stator.owner import ancestry

    drivers = _drivers(row.holder for row in matching(store, SessionQuery(status="active")))
    return ancestry.below({**_agents(store), **drivers}, environ)


def started_by(store: StorePort, session: str) -> str:
    """The driver of a session, or an agent whose hooks record in the store, if one of them started this process;
    of a project's own session, the driver of any. Empty if none did."""
    from stator.owner import ancestry

    row = store.session(session)
    everyone = SessionQuery(status="active")
    rows = matching(store, everyone) if row.record.mode == "project" else [row]
    return ancestry.started_by({**_agents(store), **_drivers(one.holder for one in rows)})


def _drivers(holders: Iterable[Holder | None]) -> dict[int, str]:
    """The processes on this machine that hold a lease, in words."""
    here = os.uname().nodename
    return {
        holder.pid: f"driver {holder.pid} ({holder.program})"
        for holder in holders
        if holder is not None and holder.live and holder.host == here
    }


def _agents(store: StorePort) -> dict[int, str]:
    """The processes of the agents that are recorded, in words."""
    from stator.hooks.ingest import agent_processes

    return {pid: f"agent {name}, process {pid}" for pid, name in agent_processes(store).items()}


def _uuid7() -> Callable[[], Any]:
    if sys.version_info >= (3, 14):
        from uuid import uuid7
    else:
        from uuid_utils import uuid7
    return uuid7


_new = _uuid7()


def mint(kind: Kind) -> str:
    """A fresh id."""
    return PREFIXES[kind] + str(_new().hex)


def launch(environ: Mapping[str, str]) -> Launch | None:
    """The supervised run that started this program (`stator run`). One that had succeeded and was started again
    by a person is another run in this respect: it does everything again."""
    identifier = environ.get("STATOR_RUN", "")
    finished, _, start = environ.get("STATOR_RUN_START", "").partition(".")
    if not identifier or not (finished.isdecimal() and start.isdecimal()):
        return None
    return Launch(f"{identifier}.{finished}", int(start), str(os.getpid()))
