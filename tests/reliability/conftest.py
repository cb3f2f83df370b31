"""Fixtures of the reliability tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from postgres_server import new_tenant, shared_database
from reliability.support import Zygote
from stator.connect import connect


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Run each test in its own folder, not in the one the tests were started from."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def store(path):
    with connect(path, project="test") as store:
        yield store


@pytest.fixture(
    scope="session", params=["file", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def new_store(request) -> Callable[[Path], str]:
    """Gives the URL of a store that is not there yet: in a folder, or of a new tenant of a server."""
    if request.param == "file":
        return lambda folder: str(folder / "store.db")
    return lambda folder: f"{shared_database()}&tenant={new_tenant()}"


@pytest.fixture(scope="session")
def zygote(tmp_path_factory):
    zygote = Zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def uncompressed(monkeypatch):
    """Write every frame uncompressed, so that a search for bytes in the file can find them."""
    from stator.store import compress

    plain = compress.compress

    def as_it_is(data):
        return compress.RAW + data

    for name, module in list(sys.modules.items()):
        if name.startswith("stator.store") and getattr(module, "compress", None) is plain:
            monkeypatch.setattr(module, "compress", as_it_is)
