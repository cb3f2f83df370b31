"""A word is found in any case as by a pattern that ignores case, also beside characters whose case is odd."""

from __future__ import annotations

import re
import string
import sys

from hypothesis import given
from hypothesis import strategies as st

from stator.model.brief.any_case import AnyCase

PATTERN = r"\b(?:is|fix(?:ed)?|don['’]t|all \d+)\b|\?\s*\Z"
WORDS = AnyCase(PATTERN)
ORACLE = re.compile(PATTERN, re.IGNORECASE)


@given(
    st.lists(
        st.sampled_from(
            ["is", "FIX", "fixed", "Don’t", "ſ", "İ", "ı", "K", "ALL 12", "ß", " ", "?", "é", "x"]
        )
    )
)
def test_it_finds_what_a_pattern_that_ignores_case_finds(parts):
    text = "".join(parts)
    assert WORDS.is_in(text) == (ORACLE.search(text) is not None)
    assert WORDS.count(text) == len(ORACLE.findall(text))


def test_only_three_characters_are_taken_for_letters_that_are_not_their_small_ones():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    taken = set(re.findall("[a-z]", every, re.IGNORECASE))
    small = {char for char in every if char.lower() in set(string.ascii_lowercase)}
    assert taken ^ small == set("ſİı")
