"""The processes of agents that record here, as their hooks reported them."""

from __future__ import annotations

import json
import os

import stator
from importers.hook_lines import HookedStore, hook_input, prompt
from stator import machine
from stator.hooks.ingest import agent_processes
from stator.runtime.runs.processes import start_ticks
from stator.surfaces.hook import line_of


def recorded(at: HookedStore, pid: int, born: int, *more: dict[str, object]) -> None:
    """A conversation that the process with that id and start time reported."""
    process = (pid, born, os.stat("/proc/self/ns/pid").st_ino)
    told = [hook_input("sessionStart"), prompt(), *more]
    at.raw(
        *(
            line_of("cursor", str(at.root), json.dumps(line).encode(), process=process)
            for line in told
        )
    )


def test_a_process_below_an_agent_whose_hooks_record_here_is_recognised(tmp_path):
    at, pid = HookedStore(tmp_path), os.getppid()
    recorded(at, pid, start_ticks(pid))
    with stator.connect(at.path) as store:
        assert machine.below(store.port, {}) == f"agent cursor, process {pid}"


def test_another_process_under_the_number_of_an_agent_is_not_taken_for_it(tmp_path):
    at, pid = HookedStore(tmp_path), os.getppid()
    recorded(at, pid, start_ticks(pid) + 1)
    with stator.connect(at.path) as store:
        assert agent_processes(store.port) == {}
