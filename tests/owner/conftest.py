"""A user with an empty home folder, for every test of who owns what."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_DATA_HOME", "STATOR_STORE", "STATOR_OWNER_KEY"):
        monkeypatch.delenv(name, raising=False)
    return folder
