"""Two tenants in one file: through the library, neither sees anything of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stator
from stator.connect import connect
from stator.errors import InvalidInput, NotFound, StatorError
from stator.store.memory import MemoryStore

SECRET = "umbrella"


def work(store: Any, word: str) -> str:
    with store.open("story", agent="shopper") as s, s.turn(f"buy the {word}", key="k") as t:
        t.call(stator.tool(lambda what: what, name="pay"), what=word)
        t.decide(word, topic="what to buy", why=f"it rains on the {word}")
        t.fact("bought", word)
        t.file("list.txt", "modified")
        t.artifact("receipt", word)
        t.say(f"the {word} is yours")
    store.contribute("story").tag(word)
    return str(s.id)


@pytest.fixture
def two(tmp_path, monkeypatch) -> Iterator[tuple[Any, Any, str]]:
    """Connections of two tenants to one file, and the other's session."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shared.db"
    with (
        connect(path, tenant="us", project="shop") as us,
        connect(path, tenant="them", project="shop") as them,
    ):
        work(us, "parasol")
        yield us, them, work(them, SECRET)


def test_no_answer_of_a_store_shows_another_tenants_words(two):
    us, _, theirs = two
    answers = [
        us.sessions().rows,
        us.calls().rows,
        us.search(SECRET),
        us.search("yours"),
        us.state(project="shop"),
        us.brief("buy the umbrella"),
        us.verify(),
        us.doubts.open(),
        us.approvals.waiting(),
        us.read("story").brief(),
        us.read("last").state(),
        us.why("list.txt"),
        us.info(),
    ]
    assert [a for a in answers if SECRET in repr(a) or theirs in repr(a)] == []
    assert "parasol" in repr(answers)


@pytest.mark.parametrize("cut", [0, 2, 20, 26])
def test_a_session_of_another_tenant_is_not_found_by_its_id_or_the_end_of_it(two, cut):
    us, _, theirs = two
    absent = "f" * len(theirs[cut:]) if cut else "s_" + "f" * 32
    said = []
    for name in (theirs[cut:], absent):
        with pytest.raises(StatorError) as caught:
            us.read(name)
        said.append((type(caught.value), caught.value.what.replace(name, "…")))
    assert said[0] == said[1]


def test_each_tenant_drives_its_own_session_of_a_name(two):
    us, them, theirs = two
    with us.open("story") as s:
        assert s.id != theirs
    assert them.read("story").id == theirs


def test_a_forked_session_and_a_child_are_of_the_connections_tenant(two):
    us, them, _ = two
    us.fork("story", as_name="branch")
    with us.open("parent") as s, s.turn("go") as t, s.child("helper"):
        t.say("ok")
    assert {row.record.tenant for row in us.sessions().rows} == {"us"}
    assert [row.record.name for row in them.sessions().rows] == ["story"]


def test_opening_a_session_of_another_tenant_is_refused(two):
    us, _, _ = two
    with pytest.raises(InvalidInput, match="tenant"):
        us.open("new", tenant="them")
    with pytest.raises(NotFound):
        us.read("new")


def test_a_file_opened_without_a_tenant_shows_all(two, tmp_path):
    with connect(tmp_path / "shared.db", project="shop") as every:
        assert {row.record.tenant for row in every.sessions().rows} == {"us", "them"}


def test_a_store_that_needs_a_tenant_is_not_opened_without_one(monkeypatch):
    class Server(MemoryStore):
        needs_tenant = True

    def opened(url: str, *, tenant: str = "", **how: Any) -> MemoryStore:
        store = Server()
        store.tenant = tenant  # type: ignore[attr-defined]
        return store

    monkeypatch.setattr("stator.extensions.store_opener", lambda scheme, elsewhere: opened)
    monkeypatch.setattr("stator.connect._ownership", lambda store, place, trust: store.ownership)
    with pytest.raises(InvalidInput, match="several tenants"):
        connect("server://here")
    assert getattr(connect("server://here", tenant="us").port, "tenant", "") == "us"


def test_what_a_tenant_prefers_for_the_user_is_not_anothers(two, tmp_path, monkeypatch):
    us, them, _ = two
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    them.prefer("colour", SECRET, user=True)
    us.prefer("size", "small", user=True)
    assert [one.key for one in us.state(user=True)["preferences"]] == ["size"]
    assert [one.key for one in us.state()["preferences"]] == ["size"]
    assert [one.key for one in them.state(user=True)["preferences"]] == ["colour"]
