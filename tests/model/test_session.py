"""Sessions: the lifecycle table, who may append what, names and budgets."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadBudget, InvalidInput, LeaseLost, WrongState
from stator.model.records.tables import AFTER_THE_END, CONTRIBUTIONS, KINDS
from stator.model.records.types import Status
from stator.model.sessions.lifecycle import (
    TRANSITIONS,
    check_budget,
    check_lease,
    check_name,
    check_transition,
)

STATUSES = get_args(Status)
LEGAL = {
    ("run", "open"): "active",
    ("run", "active"): "active",
    ("resume", "active"): "active",
    ("resume", "paused"): "active",
    ("resume", "closed"): "active",
    ("pause", "open"): "paused",
    ("pause", "active"): "paused",
    ("pause", "paused"): "paused",
    ("close", "open"): "closed",
    ("close", "active"): "closed",
    ("close", "paused"): "closed",
    ("archive", "closed"): "archived",
}
"""The whole table, written down a second time."""


@pytest.mark.parametrize(("kind", "status"), list(product(TRANSITIONS, STATUSES)))
def test_the_lifecycle_allows_exactly_the_transitions_of_this_table(kind, status):
    if (kind, status) in LEGAL:
        assert check_transition(kind, status, "s") == LEGAL[kind, status]
    else:
        with pytest.raises(WrongState, match="s"):
            check_transition(kind, status, "s")


@pytest.mark.parametrize("kind", sorted(KINDS - TRANSITIONS.keys()))
def test_an_ended_session_accepts_only_a_fixed_list_of_kinds(kind):
    assert check_transition(kind, "active", "s") is None
    for status in ("closed", "archived"):
        if kind in AFTER_THE_END:
            assert check_transition(kind, status, "s") is None
        else:
            with pytest.raises(WrongState, match="takes no"):
                check_transition(kind, status, "s")


def lease(kind, *, epoch=0, current=7, mode="driven"):
    check_lease(mode=mode, kind=kind, epoch=epoch, current=current, session="s")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_the_lease_only_contributions_are_accepted(kind):
    if kind in CONTRIBUTIONS:
        lease(kind)
    else:
        with pytest.raises(LeaseLost, match="needs the lease"):
            lease(kind)


@pytest.mark.parametrize("kind", ["turn", "fact"])
def test_a_displaced_driver_can_append_nothing(kind):
    lease(kind, epoch=7)
    with pytest.raises(LeaseLost, match="another program"):
        lease(kind, epoch=6)


@pytest.mark.parametrize("mode", ["recorded", "project"])
def test_recorded_and_project_sessions_have_no_lease(mode):
    lease("turn", mode=mode)


@given(
    st.dictionaries(
        st.sampled_from(["tokens", "calls", "turns", "money:usd"]), st.integers(1, 2**53 - 1)
    )
)
def test_any_positive_whole_limits_are_a_budget(budget):
    assert check_budget(budget) == budget


@pytest.mark.parametrize(
    "budget",
    [{"tokens": 0}, {"tokens": True}, {"tokens": "9"}, {"tokens": 2**53}, {"beer": 1}, {1: 1}],
)
def test_the_error_of_an_invalid_budget_names_the_path(budget):
    with pytest.raises(BadBudget, match=r"\$\."):
        check_budget(budget)


@given(st.text())
def test_any_name_is_valid_unless_it_is_blank_too_long_or_has_a_nul(name):
    if name.strip() and len(name) <= 300 and "\0" not in name:
        assert check_name(name) == name
    else:
        with pytest.raises(InvalidInput):
            check_name(name)
