"""The first page: one card a decision, worst first, and what runs and ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import stator
from stator.runtime.facade.store import Store
from stator.runtime.views.as_read import as_read
from stator.runtime.views.glance.needs import needs
from web.running import RunningInspector
from web.scene import leave_behind

pytestmark = pytest.mark.usefixtures("by_a_person")


class CountedPort:
    """A port that counts what it is asked."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def asked(*args: Any, **options: Any) -> Any:
            self.asked[name] += 1
            return found(*args, **options)

        return asked


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    leave_behind(tmp_path / "store.db")
    with stator.connect(tmp_path / "store.db", project="shop") as opened:
        yield opened


def test_what_may_have_happened_comes_first_with_the_evidence_beside_its_buttons(
    page: Page, inspector: RunningInspector
) -> None:
    with (
        inspector.store.open("basket", agent="codex") as one,
        inspector.store.open("vat", agent="demo") as two,
        one.turn("Fix the basket") as first,
        two.turn("Add <b>Swiss</b> VAT") as second,
    ):
        first.file("src/basket.py", "read")
        second.file("src/basket.py", "modified")
        page.goto(inspector.address)
        assert page.title() == "Five things need you · stator"
        cards = page.locator(".need h2")
        assert cards.all_inner_texts() == [
            "Paid or not? pay(cents=4200, to=ACME)",
            "Let it run migrate(database=shop.db)?",
            "“Write the view” is called done, but its check fails",
            "Two sessions work in src/basket.py",
            "review",
        ]
        assert page.locator(".btn.main").count() == 1
        doubt = page.locator(".need").first
        assert "its process died" in doubt.inner_text()
        assert doubt.locator(".does .btn").all_inner_texts() == [
            "See what led to it",
            "It happened",
            "It did not",
            "It did not: run it again",
        ]
        running = page.locator(".rows.now")
        assert "writing its answer" in running.inner_text()
        assert running.locator("li").count() == 2
        ended = page.locator(".rows.past").inner_text()
        assert "A call is in doubt" in ended


def test_every_other_page_says_how_many_things_need_a_person(
    page: Page, inspector: RunningInspector
) -> None:
    page.goto(inspector.address)
    cards = page.locator(".needs > li").count()
    page.goto(f"{inspector.address}/sessions")
    expect(page.locator(".nav .count")).to_contain_text(str(cards))


def test_an_empty_store_says_one_sentence_and_one_command(browser: Any, tmp_path: Path) -> None:
    with (
        stator.connect(tmp_path / "empty.db") as empty,
        RunningInspector(empty) as running,
    ):
        page = browser.new_page()
        page.goto(running.link)
        expect(page.locator("h1")).to_have_text("Nothing needs you")
        expect(page.locator(".head p")).to_have_text(
            "No session is recorded here yet. Import what your agents did: stator import --everywhere"
        )
        page.close()


def test_the_page_asks_the_store_a_few_times_however_many_sessions_there_are(store: Store) -> None:
    def asked() -> int:
        counted = CountedPort(store.port)
        needs(as_read(counted, store.context), store.context.clock())
        return sum(counted.asked.values())

    few = asked()
    for number in range(40):
        with store.open(f"more-{number}") as s, s.turn("Say hello") as t:
            t.plan("Greet", "done", check="true")
            t.say("Hello")
        store.contribute(f"more-{number}").flag("review")
    assert few <= 10
    assert asked() <= few + 2
