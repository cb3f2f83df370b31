"""The list of sessions in a browser: those at work first, filters, pages, and what moved since."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from stator.runtime.facade.store import Store
from web.running import RunningInspector
from web.sessions import work

pytestmark = pytest.mark.filterwarnings("ignore:the synchronous API blocks:RuntimeWarning")


def many(store: Store, number: int) -> None:
    for place in range(number):
        with (
            store.open(
                f"session {place}", agent="abc"[place % 3], project=f"shop {place % 2}"
            ) as s,
            s.turn(f"question {place}") as t,
        ):
            t.say(f"answer {place}")


def test_sessions_at_work_come_first_and_say_how_the_others_ended(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    work(store)
    with store.open("running", agent="tester") as s, s.turn("go on") as t:
        t.say("I am at it")
        page.goto(f"{inspector.address}/sessions")
        expect(page.locator("#live li")).to_have_count(1)
        expect(page.locator("#live")).to_contain_text("running")
        row = page.locator("li", has_text="fix-login")
        expect(row).to_contain_text("1 in doubt")
        row.get_by_role("link", name="fix-login").click()
        expect(page.locator("h1")).to_have_text("fix-login")


def test_every_session_is_on_one_page_of_the_list(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    many(store, 70)
    page.goto(f"{inspector.address}/sessions")
    seen: list[str] = []
    while True:
        seen += [row.get_attribute("id") or "" for row in page.locator(".rows > li").all()]
        older = page.get_by_role("link", name="Older sessions")
        if not older.count():
            break
        page.goto(inspector.address + (older.get_attribute("href") or ""))
    assert len(seen) == len(set(seen)) == 70
    page.goto(f"{inspector.address}/sessions")
    page.get_by_role("group", name="Show only").get_by_role("link", name="shop 1").click()
    rows = page.locator(".rows > li")
    expect(rows.first).to_contain_text("shop 1")
    expect(page.locator(".rows")).not_to_contain_text("shop 0")
    page.get_by_role("link", name="project: shop 1").click()
    expect(page.locator(".rows")).to_contain_text("shop 0")


def test_an_empty_store_says_what_to_do(page: Page, inspector: RunningInspector) -> None:
    page.goto(f"{inspector.address}/sessions")
    expect(page.locator(".empty")).to_contain_text("stator import")


def test_a_session_that_moves_is_counted_once(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    many(store, 2)
    page.goto(f"{inspector.address}/sessions")
    with store.open("session 1", project="shop 1") as s, s.turn("once more") as t:
        t.say("yes")
    expect(page.locator(".news")).to_have_text("1 new")


def test_sessions_whose_times_nobody_knows_stand_apart(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    work(store)
    with store.open("undated one", labels={"times": "unknown"}) as s, s.turn("go") as t:
        t.say("gone")
    page.goto(f"{inspector.address}/sessions")
    lists = page.locator("ul.rows.past")
    expect(lists.nth(0)).to_contain_text("fix-login")
    expect(lists.nth(1)).to_contain_text("undated one")
    expect(page.get_by_role("heading", name="Undated")).to_be_visible()


def test_a_tag_does_not_move_a_session_up(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    for name in ("older", "newer"):
        with store.open(name) as s, s.turn("go") as t:
            t.say("done")
    store.contribute("older").tag("kept", "t1")
    page.goto(f"{inspector.address}/sessions")
    expect(page.locator("main li a[title]").nth(0)).to_have_text("newer")
    page.goto(inspector.address)
    expect(page.locator("main")).to_contain_text("newer")
    assert (text := page.locator("main").inner_text()).index("newer") < text.index("older")
