"""The pages and the service say what a session cost, by stator.toml or list prices where nothing was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stator import testing
from stator.runtime.facade.store import Store
from stator.store.sqlite import create
from stator.surfaces.web import spans
from web.asking import PlainBrowser
from web.running import RunningInspector
from web.sample_store import opened

USAGE = {"input_tokens": 100_000, "output_tokens": 10_000}
ANSWER = {
    "role": "assistant", "model": "claude-opus-4-5", "content": [{"type": "text", "text": "x"}], "usage": USAGE,
}  # fmt: skip
NOW, DAY_US = 1_790_000_000_000_000, 86_400_000_000
COST = "~$0.75"  # 100,000 tokens at $5 for a million, and 10,000 at $25


@pytest.fixture
def session(store: Store) -> str:
    with store.open("priced", agent="codex") as s, s.turn("go") as t:
        t.reply(ANSWER)
    return s.id


@pytest.fixture
def asked(store: Store) -> Iterator[PlainBrowser]:
    with RunningInspector(store) as running:
        yield PlainBrowser(running)


@pytest.mark.parametrize(
    "path", ["/s/{}", "/s/{}/t1", "/s/{}/strip", "/s/{}/tree", "/sessions", "/cost"]
)
def test_a_page_says_what_a_session_cost(asked: PlainBrowser, session: str, path: str) -> None:
    assert COST in asked.page(path.format(session)).decode()


def test_the_service_says_that_money_was_computed(asked: PlainBrowser, session: str) -> None:
    (found,) = json.loads(asked.get("/v1/sessions")[1])["items"]
    assert (found["id"], found["spend"]["money:usd"], found["computed"]) == (session, 750_000, True)


def test_a_page_says_once_what_the_sign_before_a_cost_means(
    asked: PlainBrowser, session: str
) -> None:
    assert 'href="/cost#prices">computed' in asked.page(f"/s/{session}").decode()
    told = asked.page("/cost").decode()
    assert 'id="prices"' in told
    assert "public list prices of" in told


@pytest.mark.parametrize(("ages", "by"), [((0, 20), "day"), ((0, 50), "week"), ((0, 300), "month")])
def test_the_picture_draws_all_that_was_spent(tmp_path: Path, ages: list[int], by: str) -> None:
    path = tmp_path / "store.db"
    create(str(path))
    for age in ages:
        clock = testing.FakeClock(NOW - age * DAY_US)
        with opened(path, clock) as store, store.open(f"{age} days ago") as s, s.turn("go") as t:
            t.reply(ANSWER)
    with opened(path, testing.FakeClock(NOW)) as store, RunningInspector(store) as running:
        found = PlainBrowser(running).page("/cost").decode()
    assert (f"<h2>By {by}</h2>" in found, found.count('class="bar"')) == (True, 2)
    assert "The picture shows" not in found


def test_a_picture_that_holds_a_part_says_how_much(asked: PlainBrowser, session: str) -> None:
    found = asked.page("/cost?by=day&until=2020-02-03").decode()
    assert "The picture shows <b>nothing</b> of ~$0.75" in found


@pytest.mark.parametrize(
    ("period", "first", "last", "number"),
    [("day", "2024-02-28", "2024-03-01", 3), ("week", "2025-12-22", "2026-01-05", 3),
     ("month", "2025-11", "2026-01", 3)],
)  # fmt: skip
def test_periods_are_counted_across_years(period: str, first: str, last: str, number: int) -> None:
    assert spans.between(period, first, last) == number
    assert spans.back(period, last, number - 1) == first


@pytest.mark.parametrize(
    ("period", "name"), [("day", "2026-11-18"), ("week", "2026-11-16"), ("month", "2026-11")]
)
def test_a_day_is_in_a_period(period: str, name: str) -> None:
    assert spans.begin(period, "2026-11-18") == name


@pytest.mark.parametrize("text", ["", "2026", "yesterday", "2026-13", "2026-02-30"])
def test_what_is_no_day_is_in_no_period(text: str) -> None:
    assert spans.begin("week", text) == ""
