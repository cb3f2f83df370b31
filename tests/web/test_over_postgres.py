"""The pages over a store on a server: each answers, and shows what was recorded there."""

from __future__ import annotations

from collections.abc import Iterator
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

import stator
from postgres_server import new_tenant, shared_database
from stator.errors import StoreBusy
from stator.runtime.facade.store import Store
from stator.store.postgres import PostgresStore
from web.running import RunningInspector

PAGES = (
    "/",
    "/sessions",
    "/project",
    "/files",
    "/cost",
    "/search?q=okapi",
    "/s/{id}",
    "/s/{id}/t1",
    "/s/{id}/@3",
    "/s/{id}/strip",
    "/s/{id}/files",
    "/s/{id}/decisions",
    "/s/{id}/evicted",
    "/s/{id}/tree",
    "/s/{id}/verify",
    "/v1/sessions",
    "/v1/sessions/{id}/log",
)


@stator.tool(effect="read")
def look_up(word: str) -> str:
    return f"found {word}"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with stator.connect(shared_database(), tenant=new_tenant(), project="zoo") as opened:
        with opened.open("okapi", agent="keeper") as s, s.turn("look for the okapi") as t:
            t.call(look_up, word="okapi")
            t.decide("a larger fence", topic="fence", why="the okapi jumps")
            t.file("fence.py", "modified")
            t.say("The okapi is here.")
        yield opened


@pytest.fixture(scope="module")
def browser_of(store: Store) -> Iterator[tuple[RunningInspector, OpenerDirector]]:
    with RunningInspector(store) as running:
        opener = build_opener(HTTPCookieProcessor(CookieJar()))
        opener.open(running.link, timeout=30).read()
        yield running, opener


@pytest.mark.parametrize("address", PAGES)
def test_a_page_answers_over_a_server(
    address: str, store: Store, browser_of: tuple[RunningInspector, OpenerDirector]
) -> None:
    running, opener = browser_of
    place = running.address + address.format(id=store.read("okapi").id)
    with opener.open(place, timeout=30) as answer:
        assert answer.status == 200
        assert answer.read()


def test_a_session_shows_what_was_recorded_on_the_server(
    store: Store, browser_of: tuple[RunningInspector, OpenerDirector]
) -> None:
    running, opener = browser_of
    with opener.open(f"{running.address}/s/{store.read('okapi').id}", timeout=30) as answer:
        text = answer.read().decode()
    assert "look for the okapi" in text
    assert "a larger fence" in text
    assert "The okapi is here." in text


def test_a_page_that_the_store_cannot_give_now_is_not_called_a_wrong_request(
    monkeypatch: pytest.MonkeyPatch, browser_of: tuple[RunningInspector, OpenerDirector]
) -> None:
    def busy(*args: object, **options: object) -> None:
        raise StoreBusy("others write")

    running, opener = browser_of
    monkeypatch.setattr(PostgresStore, "sessions", busy)
    with pytest.raises(HTTPError) as refused:
        opener.open(f"{running.address}/sessions", timeout=30)
    with refused.value as answer:
        assert answer.code == 503
