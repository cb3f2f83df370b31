"""A page does not wait for an index that takes long to fill."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from stator.errors import BadQuery
from stator.runtime.facade.store import Store
from stator.surfaces.web.slow_answers import IndexProgress, SlowAnswers
from web.asking import PlainBrowser
from web.running import RunningInspector
from web.sessions import work


@pytest.fixture
def filling(inspector: RunningInspector, store: Store) -> Iterator[RunningInspector]:
    """An inspector whose two indexes are being filled: each holds one session and lacks another."""
    work(store, "read-already", project="shop")
    store.search("login")
    store.state(project="shop")
    work(store, "not-read-yet", project="shop")
    slow, go = inspector.slow_answers, threading.Event()
    slow.patience = 0.01
    for index in ("search", "projects"):
        slow.reports(index)("reading sessions", 1, 2)
        slow.soon(index, lambda: go.wait(30))
    yield inspector
    go.set()


def test_while_the_index_of_words_is_filled_a_search_shows_what_it_holds_and_how_far_it_is(
    filling: RunningInspector,
) -> None:
    found = PlainBrowser(filling).page("/search?q=login").decode()
    assert "1 of 2 sessions" in found
    assert "read-already" in found
    assert "not-read-yet" not in found


def test_while_the_index_of_projects_is_filled_its_page_shows_what_it_holds_and_looks_again(
    filling: RunningInspector,
) -> None:
    found = PlainBrowser(filling).page("/projects/shop").decode()
    assert "1 of 2 sessions" in found
    assert "keep sessions on disk" in found


def test_how_far_a_question_is_can_be_asked_while_it_is_asked() -> None:
    slow = SlowAnswers()
    assert slow.progress("words") is None
    slow.reports("words")("reading sessions", 3, 7)
    assert slow.progress("words") == IndexProgress(3, 7)


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
