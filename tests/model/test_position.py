"""Positions: what parses, what it means, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadPosition
from stator.model.values.position import (
    AtHead,
    AtName,
    AtSeq,
    AtTurn,
    Range,
    Ref,
    parse_position,
    parse_range,
    parse_ref,
)

POSITIONS = {
    "head": AtHead(),
    "head~0": AtHead(),
    "head~3": AtHead(3),
    "t5": AtTurn(5),
    "t0": AtTurn(0),
    "t-1": AtTurn(-1),
    "t5.1": AtTurn(5, 1),
    "t5.2": AtTurn(5, 2),
    "@42": AtSeq(42),
    "@0": AtSeq(0),
    "release": AtName("release"),
    "v1.0": AtName("v1.0"),
    "3fa9c1": AtName("3fa9c1", maybe_hash=True),
    "k_3fa9c1": AtName("k_3fa9c1", maybe_hash=True),
    "3fa9": AtName("3fa9"),
    "t5x": AtName("t5x"),
    "HEAD": AtHead(),
    "HEAD~1": AtHead(1),
    "Head": AtName("Head"),
}
REFUSED = [
    "",
    "@",
    "@x",
    "~3",
    "-1",
    ".5",
    "t0.2",
    "t-1.2",
    "t5.0",
    "a..b",
    "a\nb",
    "\ud800",
    "x" * 401,
]


@pytest.mark.parametrize(("text", "position"), POSITIONS.items())
def test_each_form_of_position_parses(text, position):
    assert parse_position(text) == position


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_of_an_invalid_position_gives_examples(text):
    with pytest.raises(BadPosition, match="head~3"):
        parse_position(text)


def test_a_ref_may_name_a_session():
    assert parse_ref("t5") == Ref(AtTurn(5), "", "t5")
    assert parse_ref("fix-login:t5") == Ref(AtTurn(5), "fix-login", "fix-login:t5")
    assert parse_ref("a:b:@3").session == "a:b"
    assert parse_ref("fix-login:") == Ref(AtHead(), "fix-login", "fix-login:")


def test_a_range_has_two_ends_or_names_one_turn():
    assert parse_range("t4..t5") == Range(parse_ref("t5"), parse_ref("t4"))
    assert parse_range("a:t4..b:head") == Range(parse_ref("b:head"), parse_ref("a:t4"))
    assert parse_range("t5") == Range(parse_ref("t5"))
    assert parse_range("t5..").end.position == AtHead()
    start = parse_range("..t5").start
    assert start is not None
    assert start.position == AtTurn(0)


@pytest.mark.parametrize("value", [None, 5, b"head", ["t5"]])
def test_a_position_that_is_not_text_is_refused(value):
    with pytest.raises(BadPosition):
        parse_ref(value)
    with pytest.raises(BadPosition):
        parse_range(value)


@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused(text):
    for parse in (parse_position, parse_ref, parse_range):
        with contextlib.suppress(BadPosition):
            parse(text)


@given(st.integers(0, 10**12 - 1), st.integers(2, 99))
def test_numbers_in_positions_are_parsed(number, retry):
    assert parse_position(f"head~{number}") == AtHead(number)
    assert parse_position(f"t{number}") == AtTurn(number)
    turn = number or 1
    assert parse_position(f"t{turn}.{retry}") == AtTurn(turn, retry)
    assert parse_position(f"@{number}") == AtSeq(number)
