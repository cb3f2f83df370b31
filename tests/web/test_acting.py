"""Acting from a page: never by GET, once per form, and with the records that the commands leave."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from starlette.routing import Route

import stator
from stator.owner.approver import approver_of
from stator.runtime.facade.store import Store
from stator.surfaces.cli.main import main
from stator.surfaces.web.inspector import PAGES
from web.running import RunningInspector
from web.scene import heads, leave_behind, newest

pytestmark = pytest.mark.usefixtures("by_a_person")
WORDS = "correct horse battery"
TESTS = Path(__file__).parents[1]
STORES = 12
"""One for each test below, and one more for each that compares with the command line."""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Stores in which the same was left behind, made by one program."""
    folder = tmp_path_factory.mktemp("left")
    paths = [folder / f"{number}.db" for number in range(STORES)]
    leave_behind(*paths)
    return iter(paths)


@pytest.fixture
def twin(left: Iterator[Path]) -> Path:
    """A second store in which the same was left behind, for the command line."""
    return next(left)


@pytest.fixture
def store(left: Iterator[Path]) -> Iterator[Store]:
    with stator.connect(next(left), project="shop") as opened:
        yield opened


def command(path: Path, *words: str) -> None:
    assert main([*words, "--store", str(path)]) == 0


def needed_call(store: Store, status: str) -> str:
    """The call that is in doubt, or that waits."""
    found: list[Any] = [
        *(store.doubts.open() if status == "in doubt" else store.approvals.waiting())
    ]
    return str(found[0].call)


def same_by_command(store: Store, twin: Path, name: str, kind: str, *words: str) -> dict[str, Any]:
    """Do the same by a command in the other store, and compare what the logs say."""
    command(twin, *words)
    with stator.connect(twin, project="shop") as other:
        by_command = newest(other, name, kind)
    by_page = newest(store, name, kind)
    assert by_page == by_command
    return by_page


def call_in(path: Path, status: str) -> str:
    with stator.connect(path, project="shop") as other:
        return needed_call(other, status)


def test_settling_approving_and_refusing_leave_the_records_of_the_commands(
    page: Page, inspector: RunningInspector, store: Store, twin: Path
) -> None:
    page.goto(inspector.address)
    doubt = page.locator(".need", has_text="Paid or not?")
    doubt.get_by_label("Your word").fill("it is <in> the ledger")
    doubt.get_by_role("button", name="It happened").click()
    expect(page.get_by_role("status")).to_contain_text("Recorded: it happened. pay in pay-acme.")
    assert page.locator(".need", has_text="Paid or not?").count() == 0
    words = ("settle", call_in(twin, "in doubt"), "--done", "--why", "it is <in> the ledger")
    assert same_by_command(store, twin, "pay-acme", "settlement", *words)["cause"] == "done"

    page.locator(".need", has_text="Let it run").get_by_role("button", name="Allow once").click()
    expect(page.get_by_role("status")).to_contain_text("Allowed once: migrate")
    same_by_command(
        store, twin, "move-data", "approval", "approve", call_in(twin, "awaiting approval")
    )
    grant = store.approvals.grants()[0]
    assert (grant.record.proof, grant.record.call) == (
        "local",
        needed_call(store, "awaiting approval"),
    )
    expect(page.locator(".answered")).to_contain_text("its driver has not acted on it yet")


def test_a_refusal_carries_the_persons_words(
    page: Page, inspector: RunningInspector, store: Store, twin: Path
) -> None:
    page.goto(inspector.address)
    card = page.locator(".need", has_text="Let it run")
    card.get_by_label("Your word").fill("ask finance first")
    card.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("status")).to_contain_text("Refused: migrate")
    words = ("deny", call_in(twin, "awaiting approval"), "--why", "ask finance first")
    same_by_command(store, twin, "move-data", "approval", *words)


def test_a_rule_that_demands_proof_is_answered_by_the_passphrase_and_by_nothing_less(
    page: Page, inspector: RunningInspector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approver = approver_of(os.environ)
    assert approver is not None
    approver.set_passphrase(WORDS)
    leave_behind(tmp_path / "strict.db", proof="passphrase")
    with (
        stator.connect(tmp_path / "strict.db", project="shop") as strict,
        RunningInspector(strict) as running,
    ):
        other = page.context.browser.new_page()  # type: ignore[union-attr]
        other.goto(running.link)
        before = heads(strict)
        for typed, said in (("", "demands your passphrase"), ("a guess", "passphrase is wrong")):
            card = other.locator(".need", has_text="Let it run")
            card.get_by_label("the rule demands your passphrase").fill(typed)
            card.get_by_role("button", name="Allow once").click()
            expect(other.get_by_role("alert")).to_contain_text(said)
        assert heads(strict) == before
        card.get_by_label("the rule demands your passphrase").fill(WORDS)
        card.get_by_role("button", name="Allow once").click()
        expect(other.get_by_role("status")).to_contain_text("passphrase")
        (grant,) = strict.approvals.grants()
        assert (grant.record.proof, grant.state) == ("passphrase", "standing")
        other.close()


def test_marks_forks_rewinds_and_adoptions_leave_the_records_of_the_commands(
    page: Page, inspector: RunningInspector, store: Store, twin: Path
) -> None:
    session = store.read("fix-login").id
    address = f"{inspector.address}/s/{session}/act"
    page.goto(address)

    form = page.locator("form", has=page.get_by_role("heading", name="Flag"))
    form.get_by_label("On").fill("t1")
    form.get_by_label("Why").fill("odd")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("Flagged t1: review.")
    words = ("flag", "review", "--on", "t1", "--why", "odd", "-s", "fix-login")
    same_by_command(store, twin, "fix-login", "flag", *words)

    form = page.locator("form", has=page.get_by_role("heading", name="Score"))
    form.get_by_label("Number").fill("much")
    form.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("'much' is not a number")
    form.get_by_label("Number").fill("0.8")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("helpful 0.8")
    same_by_command(store, twin, "fix-login", "score", "score", "helpful", "0.8", "-s", "fix-login")

    form = page.locator("form", has=page.get_by_role("heading", name="Tag"))
    form.get_by_label("Name").fill("t3")
    form.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be a tag")
    form.get_by_label("Name").fill("before")
    form.get_by_label("Where").fill("@4")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("Tagged @4 of fix-login as before.")
    same_by_command(store, twin, "fix-login", "tag", "tag", "before", "@4", "-s", "fix-login")

    form = page.locator("form", has=page.get_by_role("heading", name="Fork"))
    form.get_by_label("Name").fill("plan-b")
    form.get_by_label("Where").fill("@6")
    form.get_by_role("button").click()
    expect(page.get_by_role("status")).to_contain_text("Forked as plan-b.")
    same_by_command(
        store, twin, "plan-b", "fork", "fork", "@6", "--name", "plan-b", "-s", "fix-login"
    )

    before = heads(store)
    form = page.locator("form", has=page.get_by_role("heading", name="Rewind"))
    form.get_by_label("To").fill("before")
    form.get_by_role("button").click()
    expect(page.locator("h1")).to_have_text("Rewind to before?")
    assert heads(store) == before
    page.get_by_role("button", name="Rewind it").click()
    expect(page.get_by_role("status")).to_contain_text("Rewound fix-login to @4")
    same_by_command(store, twin, "fix-login", "rewind", "rewind", "before", "-s", "fix-login")

    page.goto(f"{inspector.address}/s/{store.read('plan-b').id}/act")
    page.get_by_role("button", name="Adopt it").click()
    expect(page.get_by_role("status")).to_contain_text("fix-login is plan-b from now on")
    command(twin, "adopt", "plan-b")
    with stator.connect(twin, project="shop") as other:
        assert other.read("fix-login").name == store.read("fix-login").name == "plan-b"


def test_a_driven_session_cannot_be_rewound_and_its_driver_is_asked_to_pause_instead(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    with store.open("basket") as s:
        with s.turn("one") as t:
            t.say("yes")
        before = heads(store)[s.id]
        page.goto(f"{inspector.address}/s/{s.id}/rewind?to=@2")
        page.get_by_role("button", name="Rewind it").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was changed.")
        assert heads(store)[s.id] == before
        page.get_by_role("button", name="Ask it to pause").click()
        expect(page.get_by_role("status")).to_contain_text("it stops before its next call")
        assert newest(store, "basket", "pause_request")["principal"] == store.context.principal


def test_a_form_that_is_sent_twice_acts_once(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    session = store.read("fix-login").id
    before = heads(store)[session]
    sent = {"form": "a1b2", "back": "/", "session": session, "name": "review"}
    headers = {"origin": inspector.address, "content-type": "application/x-www-form-urlencoded"}
    cookie = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies())

    def send() -> None:
        request = urllib.request.Request(
            f"{inspector.address}/act/flag", urlencode(sent).encode(), {**headers, "cookie": cookie}
        )
        assert urllib.request.urlopen(request).status == 200

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heads(store)[session] == before + 1


def test_no_page_changes_anything(page: Page, inspector: RunningInspector, store: Store) -> None:
    session = store.read("fix-login").id
    before = heads(store)
    routes = [route for module in PAGES for route in module.ROUTES]
    given = {"session": session, "project": "shop", "turn": "t1", "seq": "@3"}
    for route in routes:
        assert isinstance(route, Route)
        path = route.path
        for name in route.param_convertors:
            start, rest = path.index("{" + name), path.index("}", path.index("{" + name)) + 1
            path = path[:start] + given.get(name, "x") + path[rest:]
        answer = page.request.get(f"{inspector.address}{path}?to=@3&q=pay&path=x&budget=400")
        acts = "POST" in (route.methods or ())
        assert (answer.status == 405) == acts, path
        assert answer.status < 500, path
    assert heads(store) == before


def test_a_program_with_the_token_and_a_page_of_another_origin_cannot_act(
    page: Page, inspector: RunningInspector, store: Store
) -> None:
    call = needed_call(store, "awaiting approval")
    before = heads(store)
    sent: dict[str, str | float | bool] = {"form": "f1", "call": call, "verdict": "approved"}
    address = f"{inspector.address}/act/answer"
    bearer = {"authorization": f"Bearer {inspector.access.new_token()}"}
    plain = page.context.browser.new_context()  # type: ignore[union-attr]
    assert plain.request.post(address, form=sent, headers=bearer).status == 403
    assert plain.request.post(address, form=sent).status == 401
    elsewhere = {"origin": "http://evil.example"}
    assert page.request.post(address, form=sent, headers=elsewhere).status == 403
    assert page.request.post(address, form=sent).status == 403
    assert heads(store) == before
    plain.close()


def test_an_agent_that_opens_the_pages_itself_cannot_approve_its_own_call(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "agent.db"))
    agent = [sys.executable, str(TESTS / "surfaces/paying_agent.py"), ""]
    opens = [sys.executable, str(TESTS / "web/opens_the_pages.py"), "CALL"]
    done = subprocess.run(
        [*agent, *opens], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "an agent does not approve its own calls" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "paid").exists()
    with stator.connect(tmp_path / "agent.db") as other:
        assert other.approvals.grants() == []
