"""What pages say in words of how sessions ended, and where a decision is made."""

from __future__ import annotations

from stator.runtime.facade.store import Store
from web.asking import PlainBrowser
from web.running import RunningInspector
from web.sessions import work


def test_a_fork_without_a_turn_of_its_own_is_said_to_have_done_nothing_since(
    inspector: RunningInspector, store: Store
) -> None:
    with store.open("trunk") as s, s.turn("look at it") as t:
        t.say("nothing to mend")
    store.fork("trunk", at="t1", as_name="branch")
    assert "Nothing was recorded since it was forked" in PlainBrowser(inspector).page("/").decode()


def test_facts_and_the_agents_last_words_are_sentences_of_their_own(
    inspector: RunningInspector, store: Store
) -> None:
    with store.open("a") as s, s.turn("fix it") as t:
        t.file("a.py", "modified")
        t.say("all tests pass")
    assert "Changed 1 file. All tests pass" in PlainBrowser(inspector).page("/").decode()


def test_a_recap_leads_to_the_page_where_a_doubt_is_decided_and_names_no_command(
    inspector: RunningInspector, store: Store
) -> None:
    work(store, project="shop")
    found = PlainBrowser(inspector).page("/projects/shop/recap").decode()
    assert "in doubt: pay" in found
    assert "Decide it" in found
    assert "stator settle" not in found


def test_a_prompt_of_several_lines_is_one_line_above_the_film_strip(
    inspector: RunningInspector, store: Store
) -> None:
    with store.open("a") as s, s.turn("fix it:\n\n1. the test\n2. the code"):
        pass
    found = PlainBrowser(inspector).page(f"/s/{s.id}/strip").decode()
    assert "fix it: 1. the test 2. the code" in found
