"""A real browser in front of a real service: what the tests of pages are given."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, sync_playwright

import stator
from stator.owner import ancestry
from stator.runtime.facade.store import Store
from web.running import RunningInspector
from web.shared_stores import SharedStores

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture
def by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent may run these tests; what the service runs below must not depend on it."""
    everything = ancestry.ancestors

    def up_to_here(pid: int) -> Iterable[ancestry.Process]:
        for process in everything(pid):
            yield process
            if process.pid == os.getpid():
                return

    monkeypatch.setattr(ancestry, "ancestors", up_to_here)
    for name in ancestry.VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_stores(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> SharedStores:
    own = tmp_path_factory.getbasetemp()
    return SharedStores((own if worker_id == "master" else own.parent) / "shared-stores")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with stator.connect(tmp_path / "store.db", durability="relaxed") as opened:
        yield opened


@pytest.fixture
def inspector(store: Store) -> Iterator[RunningInspector]:
    with RunningInspector(store) as running:
        yield running


class BrowserLoop:
    """The event loop of playwright, which stays marked as running in this thread between the calls of a test. Tests of
    other folders run loops of their own here, so the mark is taken away after each test, and put back."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def resume(self) -> None:
        if self._loop is not None:
            asyncio._set_running_loop(self._loop)

    def leave(self) -> None:
        self._loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def browser_loop() -> BrowserLoop:
    return BrowserLoop()


@pytest.fixture(autouse=True)
def _apart_from_other_loops(browser_loop: BrowserLoop) -> Iterator[None]:
    browser_loop.resume()
    yield
    browser_loop.leave()


@pytest.fixture(scope="session")
def browser(browser_loop: BrowserLoop) -> Iterator[Browser]:
    found = subprocess.run(
        ["sh", str(ROOT / "scripts/browser")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.stdout.strip(), args=FLAGS)
        yield started
        browser_loop.resume()
        started.close()


@pytest.fixture
def page(browser: Browser, inspector: RunningInspector) -> Iterator[Page]:
    """A browser that has come through the link. What a page must never do fails the test at its end: a request to
    elsewhere, a violation of the policy, a script error, a dialog."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([inspector.cookie])  # `test_access` goes through the link itself
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda line: wrong.append(line.text) if "Policy" in line.text else None)
    opened.on("pageerror", lambda error: wrong.append(f"script error: {error}"))

    def dismissed(dialog: Dialog) -> None:
        wrong.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def sent(request: Request) -> None:
        if not request.url.startswith((inspector.address, "data:")):
            wrong.append(f"a request to {request.url}")

    opened.on("dialog", dismissed)
    opened.on("request", sent)
    yield opened
    context.close()
    assert not wrong
