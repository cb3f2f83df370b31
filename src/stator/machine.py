"""What this machine says of the process: its user, how long the machine has run, and what the process runs below.

`connect` puts it into the context; nothing here reads the environment by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from stator.model.log.query import SessionQuery
from stator.runtime.base.pages import matching
from stator.store.port import StorePort


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


def below(store: StorePort, environ: Mapping[str, str]) -> str:
    """The driver or agent of a store that this process runs below; empty if none is found."""
    from stator.hooks.ingest import agent_processes
    from stator.owner import ancestry

    here = os.uname().nodename
    holders = [row.holder for row in matching(store, SessionQuery(status="active")) if row.holder]
    drivers = {
        holder.pid: f"driver {holder.pid} ({holder.program})"
        for holder in holders
        if holder.live and holder.host == here
    }
    agents = {pid: f"agent {name}, process {pid}" for pid, name in agent_processes(store).items()}
    return ancestry.below({**agents, **drivers}, environ)
