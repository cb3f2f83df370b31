"""Every page, on a store with something for each: safe, small, accessible, in light and dark, wide and narrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import stator
from stator.runtime.facade.store import Store
from web.running import RunningInspector
from web.sample_store import fill
from web.shared_stores import SharedStores

BYTES_MAX, NODES_MAX = 300_000, 5_000
SERIOUS = ("serious", "critical")
AXE = Axe()
ONLY_VIOLATIONS = json.dumps({"resultTypes": ["violations"]})


PAGES = (
    "/",
    "/sessions",
    "/project",
    "/files",
    "/cost",
    "/search?q=checkout",
    "/s/{checkout}",
    "/s/{checkout}?before=8",
    "/s/{checkout}/t5",
    "/s/{checkout}/@12",
    "/s/{checkout}/strip",
    "/s/{checkout}/strip?at=t4",
    "/s/{checkout}/files",
    "/s/{checkout}/decisions",
    "/s/{checkout}/evicted",
    "/s/{checkout}/tree",
    "/s/{checkout}/verify",
    "/s/{checkout}/act",
    "/projects/shop/recap",
    "/files/of?path=checkout/charge.py&root=.&project=shop",
    "/s/{pay}",
    "/s/{pay}/calls/{call}",
    "/s/{hostile}",
    "/s/{hostile}/t1",
    "/s/{hostile}/t2",
    "/s/{hostile}/strip",
    "/s/{hostile}/decisions",
    "/compare?a={checkout}&b={keys}",
    "/compare?a={checkout}",
)


@pytest.fixture(scope="module")
def store(shared_stores: SharedStores) -> Iterator[Store]:
    with stator.connect(shared_stores.path("filled", fill), project="shop") as opened:
        yield opened


@pytest.fixture(scope="module")
def inspector(store: Store) -> Iterator[RunningInspector]:
    with RunningInspector(store) as running:
        yield running


@pytest.fixture(scope="module")
def names(store: Store) -> dict[str, str]:
    pay = store.read("pay-acme")
    (call,) = [row.call for row in pay.calls()]
    hostile = next(v for v in store.sessions().rows if v.record.name.startswith("hostile"))
    return {
        "checkout": store.read("checkout").id,
        "keys": store.read("checkout-keys").id,
        "pay": pay.id,
        "call": call,
        "hostile": hostile.id,
    }


def heads(store: Store) -> dict[str, int]:
    return store.port.heads({}, others=True)


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_small_accessible_and_changes_nothing(
    address: str, page: Page, inspector: RunningInspector, store: Store, names: dict[str, str]
) -> None:
    before = heads(store)
    answer = page.goto(inspector.address + address.format(**names))
    assert answer is not None
    assert answer.status == 200
    assert len(answer.body()) <= BYTES_MAX
    assert page.locator("*").count() <= NODES_MAX
    assert page.locator("main").count() == 1
    assert page.locator("h1").count() == 1
    assert "49" not in page.title()
    page.evaluate(AXE.axe_script)
    for scheme, width in (("light", 1280), ("dark", 390), ("light", 360)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        wide: Any = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"scrolls sideways at {width} px"
        if width != 360:
            found = page.evaluate(f"axe.run({ONLY_VIOLATIONS})")["violations"]
            bad = [
                f"{one['id']}: {one['nodes'][0]['html'][:200]}"
                for one in found
                if one["impact"] in SERIOUS
            ]
            assert not bad, f"{scheme} {width}: {bad}"
    assert heads(store) == before
