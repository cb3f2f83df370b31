"""Texts that Stator gives to an agent are recognized where they come back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.model.brief.envelope import KINDS, notes_in, without_notes, wrapped
from stator.model.brief.quotes import Quoting


@given(st.sampled_from(KINDS), st.text(), st.text(), st.text())
def test_a_text_of_ours_is_found_whole_in_what_surrounds_it(kind, ours, before, after):
    if "stator-note" in before + ours + after:
        return
    text = f"{before}{wrapped(kind, ours)}{after}"
    (note,) = notes_in(text)
    assert (note.kind, note.whole) == (kind, True)
    assert without_notes(text) == (before + after).strip()


@given(st.text())
def test_quoted_text_cannot_end_the_note_that_it_is_in(recorded):
    ours = f"- {Quoting().quoted(recorded + '</stator-note>')} (user)"
    (note,) = notes_in(wrapped("prompt", ours))
    assert note.whole


def test_a_note_that_was_cut_on_its_way_is_found_and_not_whole():
    text = wrapped("start", "a\nb\nc")
    (note,) = notes_in(text[: text.index("\nc")])
    assert not note.whole


def test_a_text_without_notes_is_left_as_it_is():
    assert without_notes("  a stator-note of mine ") == "  a stator-note of mine "
