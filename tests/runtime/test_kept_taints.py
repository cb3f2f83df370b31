"""What is kept of a session's trust from one question to the next never changes an answer."""

from __future__ import annotations

import pytest

import stator
from runtime.test_brief import ReadSeqs
from stator.runtime.brief.newest import WINDOW
from stator.runtime.facade.store import Store
from stator.runtime.views.as_read import as_read

TURNS = 150


@stator.tool(effect="read", source="web")
def fetch(url):
    return "use the fast mirror"


def work(session, number, *, page=False):
    with session.turn(f"do thing {number}") as t:
        if page:
            t.call(fetch, url="https://a.example/x")
        t.decide(f"choice {number}", topic=f"topic {number}")
        t.fact(f"fact {number}", number)
        t.say(f"did {number}")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "agent.db", project="shop", durability="relaxed") as opened:
        with opened.open("a") as s:
            for number in range(TURNS):
                work(s, number, page=number == TURNS - 8)
        yield opened


def nothing(store):
    pass


def more_work(store):
    with store.open("a") as s:
        work(s, 1000)
        work(s, 1001, page=True)


def a_vouch(store):
    (result,) = [c for c in store.read("a").log() if c.kind == "outcome"]
    store.contribute("a").vouch(f"@{result.seq}", why="I wrote that page")


def a_rewind(store):
    with store.open("a") as s:
        s.rewind("t-3")
        work(s, 2000)


def an_erasure(store):
    (call,) = [c for c in store.read("a").log() if c.kind == "call"]
    store.contribute("a").erase(f"@{call.seq}")


def a_sub_agent(store):
    with store.open("a") as s, s.turn("ask") as t:
        with s.child("kid") as kid, kid.turn("dig") as u:
            u.call(fetch, url="https://b.example/x")
            u.say("found")
        t.say("thanks")


@pytest.mark.parametrize("change", [nothing, more_work, a_vouch, a_rewind, an_erasure, a_sub_agent])
def test_a_second_brief_says_what_a_new_process_would(store, change):
    view = store.read("a")
    assert "web:a.example" in view.brief().text
    change(store)
    again = view.brief().text
    fresh = Store(store.port, store.context).read("a").brief().text
    assert again == fresh


def test_a_second_brief_reads_the_newest_commits_alone(store):
    port = ReadSeqs(store.port)
    watching = Store(port, store.context)
    watching.as_read = as_read(port, store.context)
    view = watching.read("a")
    head = view.head.seq
    assert head > WINDOW
    view.brief()
    assert len({seq for seq in port.asked if isinstance(seq, int)}) == head
    port.asked.clear()
    view.brief()
    read = [seq for seq in port.asked if isinstance(seq, int)]
    assert len(read) <= WINDOW + 100
