"""Inputs of drafts: how they are written, and how they move with a graft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange.graft import Graft
from stator.model.log import chain
from stator.model.log.commit import Commit, Draft, Named
from stator.model.log.edges import resolved as resolve
from stator.model.records.types import SessionRecord
from stator.store.contract.drive import Ids

IDS = [Ids("here")("commit")] + [Ids(f"here {n}")("commit") for n in range(1, 40)]
ELSEWHERE = [Ids(f"elsewhere {n}")("commit") for n in range(5)]


class Log:
    """A log of forty commits, each with the id at its place."""

    def find(self, collection: str, key: str) -> None:
        return None

    def all(self, collection: str) -> list[Any]:
        return []

    def locate(self, identifier: str) -> int:
        return IDS.index(identifier) + 1 if identifier in IDS else 0


def resolved(inputs: Sequence[Named], log: Log, seq: int) -> list[int | str]:
    draft = Draft(id=ELSEWHERE[0], session="s_" + "0" * 32, kind="entry", inputs=tuple(inputs))
    return resolve(draft, log, seq)


other = st.sampled_from([*IDS, *ELSEWHERE])
names = st.lists(st.one_of(st.integers(1, 40), other, st.tuples(other, other)), max_size=8)


@given(names)
def test_what_is_in_the_log_becomes_numbers_and_the_rest_stays_text(inputs):
    found = resolved(inputs, Log(), 41)
    told = {text for text in found if isinstance(text, str)}
    assert not told & set(IDS) or any(
        isinstance(item, tuple) and {*item} & set(ELSEWHERE) for item in inputs
    )
    for n, item in enumerate(found):
        if isinstance(item, int) and item < 0:
            begins = found[n - 1]
            assert isinstance(begins, int)
            assert 0 < begins < -item


@given(names)
def test_resolving_again_changes_nothing(inputs):
    found = resolved(inputs, Log(), 41)
    singles = [item for item in inputs if not isinstance(item, tuple)]
    assert resolved(singles, Log(), 41) == resolved(resolved(singles, Log(), 41), Log(), 41)
    assert resolved([i for i in found if isinstance(i, int)], Log(), 41) == [
        i for i in found if isinstance(i, int)
    ]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=5))
def test_a_graft_moves_both_ends_of_a_range(ends):
    fork = Commit(
        id=IDS[0], session="s_" + "0" * 32, seq=16, kind="fork", turn=1, at=1, hash="h", prev="p"
    )
    record = SessionRecord(id="s_" + "1" * 32, name="there")
    graft = Graft(fork, record, [15], lambda seq: "")
    inputs = [n for low, size in ends for n in (low, -(low + size))]
    commit = Commit(
        id=IDS[1], session=fork.session, seq=70, kind="entry", turn=1, at=1, hash="", prev="",
        inputs=inputs,
    )  # fmt: skip
    moved = graft.take(commit)
    assert moved.inputs == [(abs(n) + (abs(n) > 15)) * (1 if n > 0 else -1) for n in inputs]
    assert moved.hash == chain.rehash(moved)
