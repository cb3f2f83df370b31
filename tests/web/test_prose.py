"""What was said, in pieces: code and stressed words are set apart, and nothing that was said is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.surfaces.web.shape.prose import Piece, pieces, unmarked

MARKS = st.text(st.sampled_from("ab `*#\n[](<"), max_size=80)


def test_code_and_stressed_words_are_pieces_of_their_own() -> None:
    assert pieces("Use `a_b` **now**.") == [
        Piece("", "Use "),
        Piece("code", "a_b"),
        Piece("", " "),
        Piece("strong", "now"),
        Piece("", "."),
    ]


def test_a_fenced_block_keeps_its_lines() -> None:
    said = "Then:\n\n```python\nif x:\n    y = `1`\n```\nDone."
    assert pieces(said) == [
        Piece("", "Then:"),
        Piece("block", "if x:\n    y = `1`"),
        Piece("", "Done."),
    ]


def test_a_block_without_an_end_reaches_to_the_end() -> None:
    assert pieces("```\na\nb") == [Piece("block", "a\nb")]


def test_a_heading_is_stressed() -> None:
    assert pieces("## What `b` does\nIt adds.") == [
        Piece("strong", "What b does"),
        Piece("", "\nIt adds."),
    ]


def test_links_and_markup_stay_text() -> None:
    said = "[x](javascript:alert(1)) <b>y</b> ![z](data:,)"
    assert pieces(said) == [Piece("", said)]


@given(MARKS)
def test_every_character_but_marks_and_fence_lines_is_kept_in_order(text: str) -> None:
    whole = "".join(piece.text for piece in pieces(text))
    kept = [line for line in text.split("\n") if not line.lstrip().startswith("```")]
    letters = [char for line in kept for char in line if char in "ab[](<"]
    assert [char for char in whole if char in "ab[](<"] == letters


def test_the_words_alone_are_one_line() -> None:
    assert unmarked("## Done\n\n- `a` is **b**\n```\nx\n```\n") == "Done - a is b x"
