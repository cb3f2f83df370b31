"""The pages of one session in a real browser: what a turn changed, its conversation, and every page beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import stator
from runtime.test_why import record_revision
from stator.runtime.facade.store import Store
from web.running import RunningInspector
from web.sessions import long_session, read_file, work

pytestmark = pytest.mark.filterwarnings("ignore:the synchronous API blocks:RuntimeWarning")
"""The browser's loop runs in the thread of the test."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("pages") / "store.db"
    with stator.connect(path, durability="relaxed") as opened:
        yield opened


@pytest.fixture(scope="module")
def inspector(store: Store) -> Iterator[RunningInspector]:
    """One for all tests of this file: they only look, or make sessions of their own."""
    with RunningInspector(store) as running:
        yield running


@pytest.fixture(scope="module")
def session(store: Store) -> str:
    return work(store)


def at(inspector: RunningInspector, session: str, path: str = "") -> str:
    return f"{inspector.address}/s/{session}{path}"


def test_a_turn_opens_with_what_it_changed(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    newest = page.locator(".turn").first
    expect(newest).to_have_attribute("id", "t2")
    changed = newest.get_by_role("region", name="What t2 changed")
    expect(changed).to_contain_text("login.py")
    expect(changed).to_contain_text("+2 −1")
    expect(changed.locator("del")).to_have_text("keep sessions in memory")
    expect(changed).to_contain_text("they must survive a restart")
    expect(changed.locator(".plan .done, .plan .claim")).to_contain_text("write the test")
    box, talk = changed.bounding_box(), newest.locator(".talk").bounding_box()
    assert box is not None
    assert talk is not None
    assert box["y"] < talk["y"]


def test_a_failed_call_is_open_and_leads_to_what_repaired_it(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    failed = page.locator("details[open]", has_text="no upstream")
    expect(failed).to_contain_text("failed, 128")
    link = failed.get_by_role("link", name="git push --set-upstream origin fix")
    target = (link.get_attribute("href") or "").removeprefix("#")
    expect(page.locator(f"[id='{target}']")).to_contain_text("--set-upstream")


def test_a_call_in_doubt_says_what_is_known_and_what_is_not(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    unsure = page.locator(".call.unsure")
    expect(unsure).to_contain_text("Not known")
    expect(unsure).to_contain_text("whether it happened")
    assert unsure.evaluate("e => getComputedStyle(e).borderTopStyle") == "dashed"
    expect(page.locator(".facts")).to_contain_text("1 in doubt")
    unsure.get_by_role("link", name="What it was given").click()
    expect(page.locator(".unsure")).to_contain_text("It is not run again")
    expect(page.locator("main")).to_contain_text("4200")
    expect(page.get_by_role("button", name="It happened")).to_be_visible()


def test_a_call_in_doubt_is_settled_where_its_evidence_is(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    found = work(store, name="unsettled")
    page.goto(at(inspector, found))
    page.get_by_label("How do you know?").fill("the bank shows it")
    page.get_by_role("button", name="It happened").click()
    expect(page.locator(".call.unsure")).to_have_count(0)
    assert store.read(found).calls(status="in doubt") == []


def test_good_calls_in_a_row_are_one_line_that_opens(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    run = page.locator("details", has_text="6 calls").first
    expect(run).to_contain_text("6 reads; none failed")
    run.locator("summary").first.click()
    inner = run.locator(".run details")
    expect(inner).to_have_count(6)
    inner.first.locator("summary").click()
    expect(inner.first).to_contain_text("content of src/part_0.py")


def test_a_small_edit_is_open_as_a_diff(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    diff = page.get_by_role("group", name="Difference")
    expect(diff.locator("tr.d")).to_have_text("−b = 2")
    expect(diff.locator("tr.a")).to_have_text(["+b = 3", "+c = 4"])


def test_what_was_said_keeps_its_lines(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    said = page.locator(".say .words", has_text="Pushed.")
    assert said.inner_text() == "Pushed. b is 3 now.\n\n- one\n- two"
    expect(said.locator("code")).to_have_text("b")


def test_the_timeline_is_a_picture_with_words(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    words = page.locator(".rail svg[role=group]").get_attribute("aria-label") or ""
    assert "t1 make the login safe" in words
    assert "git push failed, repaired" in words
    assert "in doubt: pay" in words


PAGES = {
    "": "make the login safe",
    "/t2": "store sessions on disk",
    "/@3": "Commit @3",
    "/decisions": "they must survive a restart",
    "/tree": "Nothing was forked",
    "/verify": "Every commit holds the hash",
    "/verify?check=1": "match their hash and their place",
    "/evicted": "Nothing left the view",
    "/files": "login.py",
    "/calls?after=1&upto=9": "Calls of t1",
}
"""Pages of a session, and words that each shows."""


def test_a_turn_has_a_picture_of_its_time_with_words(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session, "/t2"))
    picture = page.get_by_role("group", name="Where the time went, the model above its calls")
    for kind, number in {"tool": 2, "bad": 1, "unsure": 1}.items():
        expect(picture.locator(f"rect.{kind}")).to_have_count(number)
    expect(page.get_by_role("region", name="Where the time went")).to_contain_text("1 tried again")


def test_a_fork_counts_what_it_did_itself(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    fork = store.fork(work(store, "to-fork"), at="t1", as_name="another-try")
    with store.open(fork.id) as s, s.turn("try it otherwise") as t:
        t.call(read_file, path="src/login.py")
    page.goto(at(inspector, fork.id))
    numbers = page.locator(".nums").inner_text().split("\n")
    said = dict(zip(numbers[1::2], numbers[::2], strict=True))
    assert said["call"] == "1"
    assert said["turn, after 1 of another session"] == "1"


def test_every_page_of_a_session_has_one_title_and_one_main_part(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    for path, text in PAGES.items():
        answer = page.goto(at(inspector, session, path))
        assert answer is not None
        assert answer.status == 200, path
        expect(page.locator("main")).to_contain_text(text)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("main")).to_have_count(1)


def test_a_superseded_decision_is_struck_and_names_what_took_its_place(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session, "/decisions"))
    expect(page.locator(".when li.old del")).to_have_text("keep sessions in memory")
    expect(page.locator(".when li.old")).to_contain_text("superseded by keep sessions on disk")


def test_a_fork_and_a_sub_agent_are_drawn_in_the_tree(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("parent") as s:
        with s.turn("look around") as t, t.session.child("scout") as c, c.turn("look") as u:
            u.say("I saw three files.")
        s.fork(name="other-way")
    page.goto(at(inspector, s.id, "/tree"))
    expect(page.locator(".tree li")).to_have_count(3)
    expect(page.locator(".tree")).to_contain_text("sub-agent in t1")
    page.goto(at(inspector, s.id))
    expect(page.locator(".sub")).to_contain_text("I saw three files.")
    page.locator(".sub").get_by_role("link", name="open").click()
    expect(page.locator("h1")).to_contain_text("scout")


def test_what_left_the_view_is_listed_and_linked_from_the_turn(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("shortened") as s:
        for number in range(8):
            with s.turn(f"question {number} " + "word " * 200) as t:
                t.say("answer " * 200)
        s.compact(strategy=("summarise",), keep=1, summary=lambda *_: "eight questions")
    page.goto(at(inspector, s.id))
    page.locator(".cutline a").click()
    expect(page.locator(".rows.keys li").first).to_be_visible()


def test_older_turns_are_on_pages_of_their_own(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    found = long_session(store, 45)
    page.goto(at(inspector, found))
    expect(page.locator(".turn")).to_have_count(20)
    seen = []
    while True:
        seen += [turn.get_attribute("id") for turn in page.locator(".turn").all()]
        older = page.get_by_role("link", name="Older turns")
        if not older.count():
            break
        older.click()
        page.wait_for_load_state()
    assert seen == [f"t{number}" for number in range(45, 0, -1)]


def test_a_turn_that_is_not_there_is_a_page_that_says_so(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    answer = page.goto(at(inspector, session, "/t9"))
    assert answer is not None
    assert answer.status == 404
    expect(page.locator("h1")).to_contain_text("has no turn 9")


def test_a_long_text_is_folded_and_fetched_when_asked_for(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("long-text") as s, s.turn("write much") as t:
        t.say("\n".join(f"line {number}" for number in range(4000)))
    page.goto(at(inspector, s.id))
    expect(page.locator(".say")).not_to_contain_text("line 3999")
    page.locator(".say .rest a").click()
    expect(page.locator(".say")).to_contain_text("line 3999")


def test_pages_work_without_scripts(inspector: RunningInspector, session: str, page: Page) -> None:
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(inspector.link)
    plain.goto(at(inspector, session))
    run = plain.locator("details", has_text="6 calls").first
    run.locator("summary").first.click()
    run.get_by_role("link", name="Show them").click()
    expect(plain.locator("h1")).to_have_text("Calls of t1")
    expect(plain.locator("details")).to_have_count(6)
    context.close()


def test_new_commits_never_move_the_page_and_a_button_shows_them(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("live") as s:
        with s.turn("begin") as t:
            t.say("one")
        page.goto(at(inspector, s.id))
        page.evaluate("() => { window.kept = document.querySelector('.turn'); }")
        with s.turn("more") as t:
            t.say("two")
        button = page.locator(".news")
        expect(button).to_have_text("3 new")
        expect(page.locator(".turn")).to_have_count(1)
        assert page.evaluate("() => window.kept.isConnected && scrollY === 0")
        page.keyboard.press(".")
        expect(page.locator(".turn")).to_have_count(2)
        expect(button).to_be_hidden()


def test_keys_move_between_turns_and_pages(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    page.goto(at(inspector, session))
    page.keyboard.press("j")
    expect(page.locator("#t2")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#t1")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#t2")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_url(f"{inspector.address}/sessions")


def test_no_page_scrolls_sideways_from_360_pixels_to_4k(
    page: Page, inspector: RunningInspector, session: str
) -> None:
    for path in ("", "/t2", "/@3", "/decisions", "/tree", "/verify", "/files"):
        page.goto(at(inspector, session, path))
        for width in (360, 390, 1280, 3840):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, (path, width)


def test_a_session_says_what_it_committed(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("pushed") as s, s.turn("commit it") as t:
        t.say("It is pushed.")
    record_revision(store, s.id, "64f1b9a0c1", pushed="origin")
    page.goto(f"{inspector.address}/s/{s.id}")
    expect(page.locator(".facts")).to_contain_text("committed 64f1b9a and pushed")


def test_what_a_system_message_says_is_folded(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("told") as s, s.turn("go") as t:
        t.say("# Open tabs\n- basket.py", actor="system")
    page.goto(f"{inspector.address}/s/{s.id}")
    line = page.locator("details.call", has_text="System")
    expect(line).to_contain_text("# Open tabs - basket.py")
    expect(line.locator(".words")).to_be_hidden()
