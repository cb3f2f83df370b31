"""The film strip: frames, the playhead, and what the model could see at a position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import stator
from stator.model.records.types import SpendRecord, ToolRecord
from stator.model.views.film_strip import FRAMES_MAX
from stator.runtime.facade.store import Store
from stator.runtime.window.film_strip import KeptStrips, read_strip
from web.running import RunningInspector

CALLS_MAX = 8
"""Port calls that a position may take."""


class CountedStore:
    """Counts the calls of a store's port."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **options)

        return counted


@stator.tool(effect="read")
def look_up(word: str) -> str:
    if word == "missing":
        raise LookupError(word)
    return f"found {word}"


def drive(store: Store, turns: int) -> str:
    """A session in which each turn calls, spends and edits; every seventh turn fails a call."""
    with store.open("long", agent="tester") as s:
        for n in range(1, turns + 1):
            with s.turn(f"request {n}") as t:
                t.try_call(look_up, word="missing" if n % 7 == 0 else f"w{n}")
                t.file(f"src/part{n % 3}.py", "modified")
                t.decide(f"choice {n}", topic=f"topic {n % 5}", why="because")
        return s.id


def test_frames_add_up_to_the_state_at_their_end(store: Store) -> None:
    session = drive(store, 30)
    page = read_strip(store.as_read, session, "head", KeptStrips())
    assert page is not None
    tools = [e.record for e in store.port.entries(session, "tools")]
    spend = {
        e.record.unit: e.record.amount
        for e in store.port.entries(session, "spend")
        if isinstance(e.record, SpendRecord)
    }
    assert sum(page.strip.calls) == sum(r.uses for r in tools if isinstance(r, ToolRecord)) == 30
    assert sum(page.strip.failed) == 4
    assert page.strip.spent[-1] == spend
    assert sum(sum(file.writes) for file in page.strip.files) == 30


def test_a_position_is_the_frame_that_holds_it_and_shows_the_state_then(store: Store) -> None:
    session = drive(store, 30)
    page = read_strip(store.as_read, session, "t12", KeptStrips())
    assert page is not None
    assert page.strip.frames[page.current].position == "t12"
    assert {getattr(e.record, "what", "") for e in page.decisions} == {
        f"choice {n}" for n in range(8, 13)
    }


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """A store with a session of three times as many turns as a strip draws, which is only read; the session's id."""
    path = tmp_path_factory.mktemp("strip") / "store.db"
    with stator.connect(path, durability="relaxed") as opened:
        yield opened, drive(opened, 3 * FRAMES_MAX)


def test_a_long_session_is_read_in_few_calls_at_any_position(long: tuple[Store, str]) -> None:
    store, session = long
    for position in ("head", "t1", f"t{FRAMES_MAX + 3}"):
        counted = CountedStore(store.port)
        page = read_strip(counted, session, position, KeptStrips())  # type: ignore[arg-type]
        assert page is not None
        assert len(page.strip.frames) == FRAMES_MAX
        assert counted.calls.total() <= CALLS_MAX, counted.calls


def test_a_stretch_in_the_middle_counts_only_its_own_calls(long: tuple[Store, str]) -> None:
    store, session = long
    page = read_strip(store.as_read, session, f"t{FRAMES_MAX + 3}", KeptStrips())
    assert page is not None
    turns = [frame.turn for frame in page.strip.frames]
    assert turns[0] > 1
    assert page.strip.calls == [1] * FRAMES_MAX
    assert page.strip.failed == [int(turn % 7 == 0) for turn in turns]


def test_the_curve_over_a_whole_session_is_read_once_for_all_positions(
    long: tuple[Store, str],
) -> None:
    store, session = long
    kept = KeptStrips()
    first = read_strip(store.as_read, session, "t3", kept)
    counted = CountedStore(store.port)
    page = read_strip(counted, session, f"t{2 * FRAMES_MAX}", kept)  # type: ignore[arg-type]
    assert first is not None
    assert page is not None
    assert page.samples == first.samples
    assert counted.calls["together"] <= 2  # how it is now, and what is around the position


def test_moving_along_a_strip_reads_no_stretch_again(store: Store) -> None:
    session, kept = drive(store, 20), KeptStrips()
    read_strip(store.as_read, session, "t3", kept)
    counted = CountedStore(store.port)
    read_strip(counted, session, "t4", kept)  # type: ignore[arg-type]
    assert counted.calls["versions"] == 0
    assert counted.calls.total() <= CALLS_MAX


def test_a_strip_is_drawn_anew_when_its_session_moved(store: Store) -> None:
    session, kept = drive(store, 20), KeptStrips()
    read_strip(store.as_read, session, "head", kept)
    with store.open("long") as s, s.turn("one more") as t:
        t.try_call(look_up, word="again")
    page = read_strip(store.as_read, session, "head", kept)
    assert page is not None
    assert sum(page.strip.calls) == 21


def test_few_turns_are_cut_into_slices_with_positions_of_their_own(store: Store) -> None:
    with store.open("short") as s:
        with s.turn("one long request") as t:
            for n in range(100):
                t.try_call(look_up, word=f"w{n}")
        page = read_strip(store.as_read, s.id, "head", KeptStrips())
    assert page is not None
    assert len(page.strip.frames) > 20
    assert page.strip.frames[0].position.startswith("@")
    assert sum(page.strip.calls) == 100


def test_arrow_keys_move_the_playhead_by_a_turn(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    session = drive(store, 15)
    page.goto(f"{inspector.address}/s/{session}/strip?at=t5")
    expect(page.locator("#film .now")).to_contain_text("t5 of t15")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#film .now")).to_contain_text("t6 of t15")
    page.wait_for_load_state()  # keys work once the page's script has run
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#film .now")).to_contain_text("t5 of t15")


def test_the_slider_moves_the_playhead_without_a_new_page(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    session = drive(store, 15)
    page.goto(f"{inspector.address}/s/{session}/strip")
    expect(page.locator("#film .now")).to_contain_text("t15 of t15")
    loads = []
    page.on("load", lambda _: loads.append(1))
    page.locator("#seek").fill("1")
    expect(page.locator("#film .now")).to_contain_text("t1 of t15")
    assert not loads


def test_a_session_without_a_turn_says_so(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("empty") as s:
        pass
    page.goto(f"{inspector.address}/s/{s.id}/strip")
    expect(page.locator("main")).to_contain_text("no turn yet")


def test_a_position_says_what_its_turn_cost(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("paid") as s:
        for cents in (25, 40):
            with s.turn("go") as t:
                t.say("x", usage={"tokens": 1, "money:usd": cents * 10_000})
                answered = s.head.seq
    page.goto(f"{inspector.address}/s/{s.id}/strip?at=@{answered}")
    expect(page.locator(".now")).to_contain_text("0 calls, $0.40")
    expect(page.locator(".names")).to_contain_text("$0.65")
