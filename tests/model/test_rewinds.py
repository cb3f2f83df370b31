"""Which commits of a log are visible after rewinds, compared with a naive list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.model.log.rewinds import (
    Rewind,
    agree_upto,
    stands,
    visible,
)


@st.composite
def rewound_logs(draw: st.DrawFn) -> tuple[list[Rewind], int]:
    """Rewinds in the order of a log, and its length."""
    known: list[Rewind] = []
    head = draw(st.integers(1, 6))
    for _ in range(draw(st.integers(0, 6))):
        left = head
        known.append(Rewind(left + 2, draw(st.integers(0, left - 1)), left))
        head = left + 2 + draw(st.integers(0, 3))
    return known, head


def by_hand(known: list[Rewind], upto: int) -> list[int]:
    """The visible seqs, computed with a list that is cut at each rewind."""
    at: dict[int, list[int]] = {0: []}
    back = {rewind.seq: rewind.to for rewind in known}
    for seq in range(1, upto + 1):
        at[seq] = at[back[seq]] if seq in back else [*at[seq - 1], seq]
    return at[upto]


@given(rewound_logs(), st.data())
def test_visible_commits_equal_those_of_a_list_rewound_by_hand(log, data):
    known, head = log
    upto = data.draw(st.integers(0, head))
    stretches = visible(known, upto)
    assert [seq for seq in range(1, head + 1) if stands(stretches, seq)] == by_hand(known, upto)


@given(rewound_logs(), st.data())
def test_two_views_agree_up_to_their_last_common_commit(log, data):
    known, head = log
    one, other = (data.draw(st.integers(0, head)) for _ in range(2))
    upto = agree_upto(visible(known, one), visible(known, other))
    left, right = by_hand(known, one), by_hand(known, other)
    assert [s for s in left if s <= upto] == [s for s in right if s <= upto]
    if left != right:
        assert {s for s in left if s > upto}.isdisjoint(s for s in right if s > upto)


def test_a_log_without_rewinds_is_all_visible():
    assert visible([], 7) == [(0, 7)]
    assert visible([], 0) == []


def test_rewinding_to_an_abandoned_head_makes_it_visible_again():
    there = Rewind(12, 4, 10)
    back = Rewind(15, 10, 13)
    assert visible([there, back], 16) == [(0, 10), (15, 16)]
