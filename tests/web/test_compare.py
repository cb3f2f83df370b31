"""Comparing two tries: the common log, the first difference, and what each led to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

import stator
from stator.runtime.facade.store import Store
from stator.surfaces.web.lanes import LaneStep, laid_out
from web.asking import PlainBrowser
from web.running import RunningInspector

steps = st.lists(
    st.builds(
        LaneStep,
        seq=st.just(1),
        turn=st.just(1),
        verb=st.sampled_from(["read", "run"]),
        words=st.sampled_from("abc"),
        status=st.sampled_from(["ok", "error"]),
    ),
    max_size=40,
)


@stator.tool(effect="read")
def read_file(path: str) -> str:
    return path


@stator.tool(effect="write")
def run(command: str) -> str:
    if "broken" in command:
        raise RuntimeError("3 tests failed")
    return "passed"


def fork_checkout(store: Store) -> None:
    """A trunk of one turn, and two ways to do the second."""
    with store.open("checkout") as s:
        with s.turn("read the code") as t:
            t.call(read_file, path="pay.py")
        with s.turn("fix the double charge") as t:
            t.decide("lock the row", topic="charge", why="one writer at a time")
            t.try_call(run, command="pytest broken")
            t.say("It is locked.")
    store.fork("checkout", at="t1", as_name="with-keys")
    with store.open("with-keys") as f, f.turn("fix the double charge") as t:
        t.decide("idempotency keys", topic="charge", why="they survive a restart")
        t.call(run, command="pytest")
        t.say("Keys are in.")


@given(steps, steps)
def test_rows_hold_every_step_of_both_lanes_once(a: list[LaneStep], b: list[LaneStep]) -> None:
    rows = laid_out(a, b).rows
    folded = sum(row.same for row in rows)
    alone = {side: sum(row.alone for row in rows if row.side == side) for side in "AB"}
    assert sum(row.a is not None for row in rows) + folded + alone["A"] == len(a)
    assert sum(row.b is not None for row in rows) + folded + alone["B"] == len(b)


@given(steps)
def test_a_lane_compared_with_itself_has_no_difference(a: list[LaneStep]) -> None:
    lanes = laid_out(a, a)
    assert lanes.first is None
    assert lanes.shared == len(a)


@given(steps, steps, steps)
def test_what_both_did_first_is_shared(
    trunk: list[LaneStep], a: list[LaneStep], b: list[LaneStep]
) -> None:
    assert laid_out([*trunk, *a], [*trunk, *b]).shared >= len(trunk)


def test_the_page_names_what_each_decided_and_why_and_how_calls_ended(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    fork_checkout(store)
    page.goto(f"{inspector.address}/compare?a=checkout&b=with-keys")
    table = page.locator(".cmp")
    expect(table).to_contain_text("lock the row")
    expect(table).to_contain_text("they survive a restart")
    expect(table).to_contain_text("Keys are in.")
    expect(page.locator(".lanes .fold").first).to_have_text("one log until t1, @6")
    expect(page.locator(".lanes .part")).to_contain_text("First difference")
    expect(page.locator(".lanes .st.fail")).to_contain_text("3 tests failed")


def test_tries_that_acted_alike_part_where_only_one_gave_an_answer(
    store: Store, inspector: RunningInspector
) -> None:
    with store.open("trunk") as s, s.turn("begin") as t:
        t.say("yes")
    fork = store.fork(s.id, at="t1", as_name="went-on")
    with store.open(fork.id) as s, s.turn("go on") as t:
        t.say("Done.")
    text = PlainBrowser(inspector).page(f"/compare?a={fork.id}&b=trunk").decode()
    assert "Where they part" in text
    assert "Only A gave an answer." in text


def test_a_file_that_several_turns_changed_is_counted_once(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    for name in ("one", "two"):
        with store.open(name) as s:
            for _ in range(2):
                with s.turn("go on") as t:
                    t.file("pay.py", "modified")
    page.goto(f"{inspector.address}/compare?a=one&b=two")
    assert page.locator(".cmp tr", has_text="Files").inner_text().split("\t")[1:] == [
        "1 changed",
        "1 changed",
    ]


def test_a_session_that_is_too_long_to_compare_whole_has_its_whole_cost(
    page: Page, inspector: RunningInspector, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stator.surfaces.web.pages.compare.COMMITS_MAX", 5)
    for name, turns in (("short", 1), ("long", 4)):
        with store.open(name) as s:
            for _ in range(turns):
                with s.turn("go on") as t:
                    t.say("x", usage={"tokens": 1, "money:usd": 100_000})
    page.goto(f"{inspector.address}/compare?a=short&b=long")
    cost = page.locator(".cmp tr", has_text="Cost").inner_text()
    assert cost.split("\t")[1:] == ["$0.10", "$0.40"]
    expect(page.locator(".head")).to_contain_text("B cost $0.30 more.")
    expect(page.locator(".cmp tr", has_text="Result")).to_contain_text("it goes on")


def test_a_range_of_a_session_leads_to_the_comparison(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    fork_checkout(store)
    page.goto(f"{inspector.address}/s/checkout/compare/t2..with-keys:t2")
    expect(page.locator("h1")).to_have_text("Where they part")


def test_one_session_alone_offers_its_branches_to_compare_with(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    fork_checkout(store)
    page.goto(f"{inspector.address}/compare?a=checkout")
    page.get_by_role("link", name="with-keys").click()
    expect(page.locator("h1")).to_have_text("Where they part")
