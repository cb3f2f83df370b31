"""Installs the real agents once, and starts one with a scripted model."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from real.model import Script, serving
from real.programs import PROGRAMS, Program, installed


@pytest.fixture(scope="session")
def programs(tmp_path_factory, worker_id) -> Path:
    """The folder with the programs, which all processes of a test run share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "agents"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one process installs them
        return installed(folder)


@pytest.fixture
def begin(programs, tmp_path):
    """Return a function that starts an agent with a scripted model."""
    opened = []

    def start(name: str, script: Script | None = None) -> tuple[Program, Script]:
        for folder in ("work", "home"):
            (tmp_path / folder).mkdir(exist_ok=True)
        agent = PROGRAMS[name](name, programs, tmp_path / "work", tmp_path / "home", "")
        said = script or agent.script()
        model = serving(said)
        agent.url = model.__enter__()
        opened.append(model)
        agent.prepare()
        agent.stator("init")
        return agent, said

    yield start
    for model in opened:
        model.__exit__(None, None, None)
