"""A recorded session that attacks its reader is browsed: nothing of it acts, and every hidden character shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import stator
from stator.runtime.facade.store import Store
from web.running import RunningInspector
from web.sessions import attacked
from web.shared_stores import SharedStores

pytestmark = pytest.mark.filterwarnings("ignore:the synchronous API blocks:RuntimeWarning")
PAGES = (
    "",
    "/t1",
    "/t8",
    "/@4",
    "/decisions",
    "/evicted",
    "/tree",
    "/verify",
    "/files",
    "/calls?after=3&upto=30",
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u200b-\u200f]")


@pytest.fixture
def store(shared_stores: SharedStores) -> Iterator[Store]:
    with stator.connect(shared_stores.path("attacked", attacked)) as opened:
        yield opened


def test_a_hostile_session_is_shown_and_does_nothing(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    (session,) = (row.id for row in store.sessions().rows)
    for path in (*(f"/s/{session}{one}" for one in PAGES), "/sessions"):
        page.goto(f"{inspector.address}{path}")
        assert not HIDDEN.search(page.content()), path
        assert (
            page.locator("main script, main iframe, main img, main base, main style").count() == 0
        ), path
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= 1280, path
    page.goto(f"{inspector.address}/s/{session}")
    expect(page.locator("h1")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator(".facts")).to_contain_text("\\u202e")
    for _ in range(6):
        page.locator("details:not([open]) > summary").first.click()
    expect(page.locator(".body").first).to_be_visible()
    page.locator(".rest > a:not(.part)").first.click()
    assert page.locator("main a[href^='javascript'], main a[href^='data']").count() == 0
    # The path of a file may hold any words; its link still leads to a page of ours.
    assert page.locator("main a[href*='evil']:not([href^='/files/of?'])").count() == 0
