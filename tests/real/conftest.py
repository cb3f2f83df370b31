"""Installs the real agents once, and starts one with a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from real.model import Script, serving
from real.programs import PROGRAMS, Program, installed


@pytest.fixture(scope="session")
def programs(tmp_path_factory) -> Path:
    return installed(tmp_path_factory.mktemp("agents"))


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
