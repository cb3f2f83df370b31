"""Fixtures: an environment of nothing but a store, and the command line to ask about it."""

from __future__ import annotations

import os
import time

import pytest

from stator.owner import ancestry
from stator.owner.projects import trust_project
from stator.surfaces.cli.main import main
from surfaces.recorded import Answer, World, record


def up_to(pid, processes):
    for process in processes:
        yield process
        if process.pid == pid:
            return


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """Nothing of the machine's own: its stores, its terminal, its time zone."""
    names = ("STATOR_STORE", "STATOR_SESSION", "FORCE_COLOR", "NO_COLOR", "PAGER", "LESS")
    for name in (*names, *ancestry.VARIABLES):
        monkeypatch.delenv(name, raising=False)
    # An agent may run these tests; what a command in this process runs below must not depend on it.
    everything = ancestry.ancestors
    monkeypatch.setattr(ancestry, "ancestors", lambda pid: up_to(os.getpid(), everything(pid)))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    work = tmp_path / "work"
    (work / ".stator").mkdir(parents=True)
    (work / ".stator" / "project").write_text("shop\n")
    assert trust_project(os.environ, work)
    monkeypatch.chdir(work)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def world():
    return World()


@pytest.fixture
def store(tmp_path, world, monkeypatch):
    """The path of a store that holds the recorded session, as the store that is meant."""
    path = tmp_path / "agent.db"
    with world.open(path) as opened:
        record(opened)
    monkeypatch.setenv("STATOR_STORE", str(path))
    return path


@pytest.fixture
def ask(capsys):
    """Run a command in this process."""

    def run(*words: str) -> Answer:
        capsys.readouterr()
        code = main(list(words))
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def anyio_backend():
    """Tests that are coroutines run on asyncio."""
    return "asyncio"


@pytest.fixture
def opened(tmp_path, world):
    """An empty store, open."""
    with world.open(tmp_path / "agent.db") as found:
        yield found
