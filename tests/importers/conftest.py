"""Fixtures of the tests of importers and hooks."""

from __future__ import annotations

import pytest

from importers.hooking import Hooked


@pytest.fixture
def hooked(tmp_path):
    return Hooked(tmp_path)
