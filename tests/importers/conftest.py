"""Fixtures for the tests of importers and hooks."""

from __future__ import annotations

import pytest

from importers.hook_lines import HookedStore


@pytest.fixture
def hooked(tmp_path):
    return HookedStore(tmp_path)
