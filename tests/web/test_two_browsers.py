"""Two people look at one session while its agent, a process of its own, works in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stator.runtime.facade.store import Store
from web.running import RunningInspector

PROGRAM = Path(__file__).with_name("agent_at_work.py")
TURNS = 12
"""Turns before anybody looks: more than a screen shows."""


class WorkingAgent:
    """A process that drives a session, a turn whenever it is asked for one."""

    def __init__(self, place: Path) -> None:
        words = [sys.executable, str(PROGRAM), str(place)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        self.session = self._read()

    def turn(self, prompt: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{prompt}\n")
        self._process.stdin.flush()
        assert self._read() == "done"

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture
def agent(store: Store, tmp_path: Path) -> Iterator[WorkingAgent]:
    working = WorkingAgent(tmp_path / "store.db")
    for number in range(1, TURNS + 1):
        working.turn(f"step {number}")
    yield working
    working.close()


@pytest.fixture
def people(
    browser: Browser, inspector: RunningInspector, agent: WorkingAgent
) -> Iterator[list[Page]]:
    """Two browsers of their own, each with its own cookie, at the page of the session."""
    with ExitStack() as stack:
        pages = []
        for height in (900, 700):
            context = browser.new_context(viewport={"width": 1280, "height": height})
            stack.callback(context.close)
            page = context.new_page()
            page.goto(inspector.link)
            page.goto(f"{inspector.address}/s/{agent.session}")
            pages.append(page)
        yield pages


def test_both_follow_the_agent_and_neither_loses_the_place_where_they_read(
    people: list[Page], agent: WorkingAgent
) -> None:
    for page in people:
        page.locator("#t4").scroll_into_view_if_needed()
        page.locator("#t4 > * a").first.focus()
    places = [page.evaluate("() => scrollY") for page in people]
    for number in (1, 2, 3):
        agent.turn(f"more {number}")
    for page in people:
        expect(page.locator(".news")).to_have_text("15 new")
        expect(page.locator("#t4 > * a").first).to_be_focused()
    assert [page.evaluate("() => scrollY") for page in people] == places
    for page in people:
        page.locator(".news").click()
        expect(page.locator(".turn").first).to_contain_text("more 3")


def test_what_one_does_the_other_sees_and_the_agent_works_on(
    people: list[Page], agent: WorkingAgent, inspector: RunningInspector
) -> None:
    one, other = people
    one.goto(f"{inspector.address}/s/{agent.session}/act")
    one.locator("form[action='/act/flag'] [name=name]").fill("slow")
    one.locator("form[action='/act/flag'] button").click()
    expect(one.get_by_role("status")).to_contain_text("Flagged")
    expect(other.locator(".news")).to_have_text("1 new")
    agent.turn("go on")
    other.goto(f"{inspector.address}/")
    expect(other.locator("main")).to_contain_text("slow")
    other.goto(f"{inspector.address}/s/{agent.session}")
    expect(other.locator(".turn").first).to_contain_text("go on")
