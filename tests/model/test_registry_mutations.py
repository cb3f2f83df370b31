"""Changing any row of the registry makes a test fail."""

from __future__ import annotations

import pytest

from model.mutants import Mutant, mutants, survivors
from stator.model.records.registry import ROWS


def of_row(name: str) -> list[Mutant]:
    return [mutant for mutant in mutants() if mutant.where.split(".")[0] == name]


@pytest.mark.parametrize("name", [*(row.name for row in ROWS), "spend", "fields"])
def test_every_row_has_something_to_change(name):
    assert of_row(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(row.name for row in ROWS), "spend", "fields"])
def test_no_change_of_a_row_goes_unnoticed(name):
    assert [f"{one.where}: {one.text}" for one in survivors(of_row(name))] == []
