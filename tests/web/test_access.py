"""Who gets in: a link once, a cookie after that, and nobody else."""

from __future__ import annotations

from playwright.sync_api import Browser, Page

from web.running import RunningInspector


def test_a_link_opens_the_pages_and_is_remembered_by_the_browser(
    page: Page, inspector: RunningInspector
) -> None:
    page.goto(f"{inspector.address}/sessions")
    assert page.title() == "Sessions · stator"


def test_a_link_works_only_once(browser: Browser, inspector: RunningInspector) -> None:
    link = inspector.link
    first, second = browser.new_page(), browser.new_page()
    try:
        first.goto(link)
        answer = second.goto(link)
        assert answer is not None
        assert answer.status == 401
        assert "used already" in second.inner_text("main")
    finally:
        first.close()
        second.close()


def test_a_stranger_sees_no_page(browser: Browser, inspector: RunningInspector) -> None:
    stranger = browser.new_page()
    try:
        answer = stranger.goto(f"{inspector.address}/sessions")
        assert answer is not None
        assert answer.status == 401
        assert "stator web" in stranger.inner_text("main")
    finally:
        stranger.close()
