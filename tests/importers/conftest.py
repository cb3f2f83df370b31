"""Fixtures for the tests of importers and hooks."""

from __future__ import annotations

import pytest

from importers.hook_lines import HookedStore
from postgres_server import new_tenant, shared_database

IN_A_FILE_AND_ON_A_SERVER = ["file", pytest.param("postgresql", marks=pytest.mark.slow)]


@pytest.fixture(params=IN_A_FILE_AND_ON_A_SERVER)
def hooked(request, tmp_path):
    """A project whose agents have hooks; what they report goes into a file, or onto a server."""
    if request.param == "file":
        return HookedStore(tmp_path)
    return HookedStore(tmp_path, f"{shared_database()}&tenant={new_tenant()}")
