"""A page does not wait for an index that takes long to fill."""

from __future__ import annotations

import threading

import pytest

from stator.errors import BadQuery
from stator.surfaces.web.slow_answers import SlowAnswers


def test_a_question_that_takes_long_is_asked_once_and_answers_later_ones() -> None:
    slow, go, asked = SlowAnswers(patience=0.01), threading.Event(), []

    def fill() -> str:
        asked.append("filled")
        go.wait(30)
        return "the first"

    assert slow.soon("words", fill) is None
    assert slow.soon("words", fill) is None
    assert slow.soon("projects", lambda: "another index") == "another index"
    go.set()
    slow.patience = 30
    assert slow.soon("words", lambda: "the second") == "the second"
    assert asked == ["filled"]


def test_an_error_of_a_question_is_raised_where_its_answer_is_wanted() -> None:
    def refuse() -> str:
        raise BadQuery("no such words")

    with pytest.raises(BadQuery, match="no such words"):
        SlowAnswers().soon("words", refuse)
