"""The pytest plugin: the fixture `stator_replay`. Loaded by every run of pytest, so it loads nothing else."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def stator_replay() -> Any:
    """Replay a recorded session, and fail the test where the agent diverges from its record.

    `stator_replay("tests/login.stator", agent)`; options as of `stator.testing.replay`.
    """
    from stator.testing import checked_replay

    return checked_replay(lambda report: pytest.fail(report, pytrace=False))
