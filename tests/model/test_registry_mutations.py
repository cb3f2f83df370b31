"""Changing any row of the registry makes a test fail."""

from __future__ import annotations

import pytest

from model.mutants import Mutant, mutants, survivors
from stator.model.records.registry import ROWS


def of_row(name: str) -> list[Mutant]:
    return [mutant for mutant in mutants() if mutant.where.split(".")[0] == name]


@pytest.mark.parametrize("name", [*(row.name for row in ROWS), "spend", "fields"])
def test_every_row_has_a_mutation(name):
    assert of_row(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(row.name for row in ROWS), "spend", "fields"])
def test_every_mutation_of_a_row_fails_a_test(name):
    assert [f"{one.where}: {one.text}" for one in survivors(of_row(name))] == []
