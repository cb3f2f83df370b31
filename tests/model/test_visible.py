"""Recorded text on one line shows every character as what it is, whether or not there is anything to spell out."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from stator.model.values import escape

ODD = st.sampled_from(list("ab «»é—\n\r\t\x1b\u202e\u200b\u0301\u0308\ufe0f\ufe00\U000e0100日🎉"))


def character_by_character(text: str) -> str:
    """The same without looking ahead: slow, and simple to follow."""
    shown, marks = "", 0
    for char in text.replace("\r\n", "\n"):
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hidden = category in escape._CATEGORIES or ord(char) in escape._HIDDEN
        if char == "\n":
            shown += "⏎"
        else:
            shown += escape._escaped(char) if hidden or marks > escape.MARKS_MAX else char
    return shown


@given(st.text(ODD) | st.text())
def test_a_text_is_shown_as_if_each_character_were_looked_at(text):
    assert escape.visible(text) == character_by_character(text)
