"""The pages of a project, of a search, of files and of what sessions cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import stator
from stator.model.records.types import PreferenceRecord
from stator.runtime.facade.store import Store
from stator.runtime.views.spend_ledger import SpendLedger
from stator.surfaces.cli.render import times
from web.running import RunningInspector

pytestmark = pytest.mark.usefixtures("by_a_person")
HOSTILE = "<img src=x onerror=alert(1)>"


@stator.tool(effect="write")
def write(path: str, text: str) -> str:
    Path(path).write_text(text)
    return "written"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A project in which two sessions disagree, one of them with a file whose contents are kept."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with stator.connect(tmp_path / "store.db", project="shop") as opened:
        with opened.open("older", agent="codex") as one, opened.open("newer", agent="demo") as two:
            with one.turn("Round the basket") as t:
                t.decide("Round up, per line", topic="rounding", why="the tax office asks")
                t.decide("Round to even", topic="rounding", over=[HOSTILE])
                t.prefer("line length", 100)
                t.fact("the ledger", f"is append-only {HOSTILE}")
                t.dead_end("Decimal from floats", why="parse the text instead")
                t.plan("Ship it", check="make test")
            with two.turn("Write the basket") as t:
                two.track(str(folder), contents=True)
                t.prefer("line length", 120)
                t.call(write, path="basket.py", text="total = 0\nround = 2\n")
                t.say("Done", usage={"tokens": 900, "tokens:cache_read": 600, "money:usd": 250_000})
            with two.turn(f"Count the items {HOSTILE}") as t:
                t.call(write, path="basket.py", text="total = 0\nround = 3\nitems = 1\n")
            with one.turn("Go on") as t:
                t.say("Still here")
        yield opened


def test_a_project_shows_conflicts_first_then_what_stands_and_what_it_replaced(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    page.goto(f"{inspector.address}/project")
    assert page.title() == "shop · stator"
    assert page.locator("h2").all_inner_texts() == [
        "Sessions disagree: line length",
        "Decisions",
        "Preferences",
        "Facts",
        "Dead ends",
        "Open plan",
        "What the next session is told",
    ]
    assert page.locator(".when b").all_inner_texts() == ["Round to even"]
    assert page.locator(".when del").all_inner_texts() == ["Round up, per line"]
    assert HOSTILE in page.locator("main").inner_text()
    expect(page.locator("#brief-size")).to_contain_text("of 1,200 tokens")
    page.get_by_label("Budget in tokens").fill("3000")
    expect(page.locator("#brief-size")).to_contain_text("of 3,000 tokens")
    page.locator(".clash li", has_text="100").get_by_role("button", name="Keep this").click()
    expect(page.get_by_role("status")).to_contain_text("line length is 100")
    assert page.locator(".clash").count() == 0
    (kept,) = store.state(project="shop")["preferences"]
    assert kept.record == PreferenceRecord(name="line length", value=100)
    page.goto(f"{inspector.address}/projects/shop/recap")
    expect(page.locator(".recaps")).to_contain_text("Round the basket")


def test_the_pages_work_without_a_script(browser: Browser, inspector: RunningInspector) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(inspector.link)
    page.goto(f"{inspector.address}/project")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#brief-size")).to_contain_text("of 1,200 tokens")
    page.get_by_label("Search everything").fill("basket")
    page.get_by_label("Search everything").press("Enter")
    assert page.locator(".hits li").count() > 1
    page.goto(f"{inspector.address}/files/of?path=basket.py&project=shop")
    page.locator(".turnpatch summary").first.click()
    page.get_by_role("link", name="Show the patch of t2").click()
    expect(page.locator(".diff")).to_contain_text("items = 1")
    context.close()


def test_a_search_finds_as_one_types_and_marks_what_matched(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    page.goto(f"{inspector.address}/search")
    page.get_by_label("Search for").press_sequentially("append-on")
    expect(page.locator(".hits mark").first).to_have_text("append-only")
    hit = page.locator(".hits li").first
    assert HOSTILE in hit.inner_text()
    older = store.read("older")
    fact = next(commit for commit in older.log() if commit.kind == "fact")
    assert hit.locator("a").first.get_attribute("href") == f"/s/{older.id}/@{fact.seq}"
    assert hit.get_by_role("link", name="t1").get_attribute("href") == f"/s/{older.id}/t1"
    page.get_by_label("Search for").fill("nothing-like-this")
    expect(page.locator("#found")).to_contain_text("Nothing matches.")
    page.get_by_label("Search for").fill('"')
    expect(page.locator("#found")).not_to_contain_text("Nothing matches.")


def test_a_file_says_which_prompt_each_line_comes_from_and_what_each_turn_changed(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    page.goto(f"{inspector.address}/files")
    first = page.locator(".changedfiles li").first
    assert "basket.py" in first.inner_text()
    assert "2 edits" in first.inner_text()
    first.get_by_role("link").click()
    page.wait_for_load_state()  # where lines of text end depends on the stylesheet
    blocks = page.locator(".blame .by")
    assert [text.split("\n")[0] for text in blocks.locator(".whose").all_inner_texts()] == [
        "Write the basket",
        f"Count the items {HOSTILE}",
    ]
    assert blocks.last.locator("pre").inner_text().split("\n")[:2] == ["2round = 3", "3items = 1"]
    page.locator(".turnpatch summary").first.click()
    patch = page.locator(".turnpatch .diff").first
    expect(patch.locator("tr.a").first).to_contain_text("round = 3")
    expect(patch.locator("tr.d")).to_contain_text("round = 2")
    assert "changed it 2×" in page.locator("aside").inner_text()


def test_costs_are_by_day_agent_project_and_model_with_cache_reads_apart(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    page.goto(f"{inspector.address}/cost")
    assert page.locator(".nums dd").all_inner_texts() == ["$0.25", "300", "600", "2"]
    assert page.locator(".bars rect").count() == 1
    assert "sessions, 1 report nothing" in page.locator(".nums").inner_text()
    agents = page.get_by_label("By agent").locator("tbody tr")
    assert [row.split() for row in agents.all_inner_texts()] == [
        ["demo", "1", "session", "$0.25", "300", "600"],
        ["codex", "1", "session", "–", "–", "–"],
    ]
    page.get_by_role("link", name="Tokens", exact=True).click()
    expect(page.locator(".bars svg")).to_have_attribute(
        "aria-label",
        "Tokens without cache reads in each of 14 days; the same numbers are in the table below",
    )


def test_the_ledger_reads_what_moved_and_agrees_with_the_budgets(store: Store) -> None:
    ledger = SpendLedger(times.day)
    assert [ledger.advance(store.port, step=1) for _ in range(3)] == [1, 0, 0]
    assert len(ledger.sessions()) == 2
    with store.open("newer") as s, s.turn("More") as t:
        t.configure(model="small")
        t.say("ok", usage={"tokens": 50, "money:usd": 10_000})
    fork = store.fork("newer", as_name="fork")
    with store.open(fork.id) as s, s.turn("Even more") as t:
        t.say("ok", usage={"tokens": 7})
    assert ledger.advance(store.port) == 0
    spent = {one.row.record.name: one.parts for one in ledger.sessions()}
    assert sum(part.spend["tokens"] for part in spent["newer"]) == 950
    assert [(part.model, part.spend) for part in spent["fork"]] == [("small", {"tokens": 7})]
    assert spent["older"] == []


def test_the_arrow_leads_from_the_search_field_to_what_was_found(
    page: Page, inspector: RunningInspector
) -> None:
    page.goto(f"{inspector.address}/search?q=append-only")
    field = page.get_by_label("Search for")
    field.press("ArrowDown")
    expect(page.locator(".hits li").first).to_be_focused()
    expect(field).to_have_value("append-only")
