"""Projects on pages: by the name of their folder, not by the id that `init` gave them."""

from __future__ import annotations

import re

import msgspec
import pytest

from stator.runtime.facade.store import Store
from web.asking import PlainBrowser
from web.running import RunningInspector

FOLDERS = {"p_1f00aa": "/home/ann/shop"}
PAGES = "/", "/sessions", "/projects/p_1f00aa", "/files", "/cost", "/search?q=basket"


@pytest.mark.parametrize("address", PAGES)
def test_a_page_calls_a_project_by_its_folder(store: Store, address: str) -> None:
    known = msgspec.structs.replace(store.context, folder_of=lambda id: FOLDERS.get(id, ""))
    store = Store(store.port, known)
    for project in ("p_1f00aa", "blog"):
        with store.open("basket", project=project) as s, s.turn("the basket") as t:
            t.file("basket.py", "modified")
            t.say("the basket is mended")
    with RunningInspector(store) as inspector:
        page = PlainBrowser(inspector).page(address).decode()
    words = re.sub(r"<[^>]*>", " ", page)
    assert "shop" in words
    assert "p_1f" not in words
