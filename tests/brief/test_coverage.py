"""What the next agent must know of recorded sessions is in their briefs."""

from __future__ import annotations

import pytest

from brief.coverage import ITEMS, MAX_TOKENS, RECORDINGS, SECOND, is_in, item_lists, measured

LEAST = 0.88
"""The share that a change must not fall below; what was reached is in the design page."""


def test_an_item_is_in_a_text_if_each_of_its_parts_is_in_any_of_its_words():
    item = {"all": [["branch main", "on main"], ["pushed"]]}
    assert is_in(item, "It is ON\n main, and pushed.")
    assert not is_in(item, "It is on main.")


@pytest.mark.parametrize("lists", [ITEMS, SECOND], ids=["first", "second"])
def test_every_list_has_items_with_words_to_look_for(lists):
    for name, one in item_lists(lists).items():
        assert one["items"], name
        for item in one["items"]:
            assert item["all"], (name, item["id"])
            assert all(item["all"]), (name, item["id"])


@pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="set STATOR_TRANSCRIPTS to a folder of recorded sessions"
)
@pytest.mark.parametrize("lists", [ITEMS, SECOND], ids=["first", "second"])
def test_briefs_of_recorded_sessions_say_what_the_next_agent_must_know(lists):
    found = [one for one in measured(RECORDINGS, lists=lists) if not one.short]
    assert all(one.tokens <= MAX_TOKENS for one in found)
    there = sum(len(one.present) for one in found)
    assert there / (there + sum(len(one.missing) for one in found)) >= LEAST
