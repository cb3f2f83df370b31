"""The pages and the service say what a session cost, by stator.toml or list prices where nothing was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from stator.runtime.facade.store import Store
from web.asking import PlainBrowser
from web.running import RunningInspector

USAGE = {"input_tokens": 100_000, "output_tokens": 10_000}
ANSWER = {
    "role": "assistant", "model": "claude-opus-4-5", "content": [{"type": "text", "text": "x"}], "usage": USAGE,
}  # fmt: skip
COST = "~$0.75"  # 100,000 tokens at $5 for a million, and 10,000 at $25


@pytest.fixture
def session(store: Store) -> str:
    with store.open("priced", agent="codex") as s, s.turn("go") as t:
        t.reply(ANSWER)
    return s.id


@pytest.fixture
def asked(store: Store) -> Iterator[PlainBrowser]:
    with RunningInspector(store) as running:
        yield PlainBrowser(running)


@pytest.mark.parametrize(
    "path", ["/s/{}", "/s/{}/t1", "/s/{}/strip", "/s/{}/tree", "/sessions", "/cost"]
)
def test_a_page_says_what_a_session_cost(asked: PlainBrowser, session: str, path: str) -> None:
    assert COST in asked.page(path.format(session)).decode()


def test_the_service_says_that_money_was_computed(asked: PlainBrowser, session: str) -> None:
    (found,) = json.loads(asked.get("/v1/sessions")[1])["items"]
    assert (found["id"], found["spend"]["money:usd"], found["computed"]) == (session, 750_000, True)
