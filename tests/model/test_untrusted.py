"""What is kept of the untrusted parts of a log: equal to the definition, bounded, and never too little."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.log.commit import Commit
from stator.model.log.edges import is_shown
from stator.model.views import untrusted
from stator.model.views.untrusted import Rooted, SessionTaint, newer

logs = st.lists(
    st.tuples(
        st.sampled_from(["entry", "fact", "outcome"]),
        st.sampled_from(["root", "clean", "range", "single"]),
        st.integers(1, 40),
        st.integers(1, 40),
    ),
    max_size=60,
)


def commit(seq: int, kind: str) -> Commit:
    return Commit(
        id=f"k_{seq:032x}", session="s", seq=seq, kind=kind, turn=1, at=1, hash="", prev=""
    )


def fed(steps, taint: SessionTaint) -> tuple[SessionTaint, dict[int, int], set[int]]:
    """The log of some steps; by the definition, the newest root of each commit, and the commits that are shown."""
    roots: dict[int, int] = {}
    shown: set[int] = set()
    for seq, (kind, how, one, other) in enumerate(steps, 1):
        made = commit(seq, kind)
        first, last = sorted((min(one, seq - 1), min(other, seq - 1)))
        rooted = expected = None
        if how == "root":
            rooted, expected = Rooted(seq, f"web:{seq % 7}"), seq
        elif how == "range" and first > 0:
            rooted = taint.within(first, last)
            within = [roots[at] for at in range(first, last + 1) if at in roots and at in shown]
            expected = max(within, default=None)
        elif how == "single" and first > 0:
            rooted = taint.at(first)
            expected = roots.get(first)
        taint.mark(made, rooted)
        if expected is not None:
            roots[seq] = expected
        if is_shown(made):
            shown.add(seq)
    return taint, roots, shown


@given(logs)
def test_a_commit_rests_on_the_newest_root_that_its_edges_lead_to(steps):
    taint, roots, _ = fed(steps, SessionTaint())
    found = {seq: taint.at(seq) for seq in range(1, len(steps) + 1)}
    assert {seq: one.seq for seq, one in found.items() if one is not None} == roots


@given(logs, st.integers(0, 60))
def test_what_is_kept_can_be_written_down_at_any_place_and_continued(steps, at):
    whole, _, _ = fed(steps, SessionTaint())
    part, _, _ = fed(steps[:at], SessionTaint())
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=SessionTaint)
    for seq, (kind, how, one, other) in list(enumerate(steps, 1))[at:]:
        first, last = sorted((min(one, seq - 1), min(other, seq - 1)))
        rooted = None
        if how == "root":
            rooted = Rooted(seq, f"web:{seq % 7}")
        elif how == "range" and first:
            rooted = again.within(first, last)
        elif how == "single" and first:
            rooted = again.at(first)
        again.mark(commit(seq, kind), rooted)
    assert again == whole


@given(logs)
def test_where_the_bound_is_exceeded_more_is_untrusted_never_less(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrusted, "RUNS_MAX", 3)
        patch.setattr(untrusted, "MERGED", 2)
        taint, _, _ = fed(steps, SessionTaint())
    _, roots, _ = fed(steps, SessionTaint())
    assert len(taint.runs) <= 3
    assert len(taint.shown) <= 3
    assert all(taint.at(seq) is not None for seq in roots)


def test_more_origins_than_are_kept_are_several_places():
    taint = SessionTaint()
    for seq in range(1, untrusted.ORIGINS_MAX + 50):
        taint.mark(commit(seq, "outcome"), Rooted(seq, f"web:{seq}.example"))
    assert len(taint.origins) <= untrusted.ORIGINS_MAX + 1
    late = taint.at(untrusted.ORIGINS_MAX + 20)
    assert late is not None
    assert late.origin == untrusted.SEVERAL


def test_of_two_roots_the_newer_one_is_named():
    assert newer(Rooted(3, "web:a"), Rooted(9, "web:b")) == Rooted(9, "web:b")
    assert newer(None, Rooted(0, "web:b")) == Rooted(0, "web:b")
