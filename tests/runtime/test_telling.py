"""What a program and its model are told of earlier sessions: `store.brief(prompt)` and `t.messages(brief=True)`."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import stator
from stator import aio
from stator.model.brief.envelope import notes_in


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db", project="desk") as found:
        with (
            found.open("files-monday", agent="desk") as session,
            session.turn("Organise the contracts below Documents by client") as turn,
        ):
            turn.decide("one folder per client", topic="layout", over=["one per year"])
            turn.prefer("naming", "YYYY-MM-DD_client_subject")
            turn.say("The contracts are sorted; the photos of 2024 are open.")
        yield found


PROMPT = "continue organising the contracts like yesterday"


def texts(messages) -> str:
    return str(messages)


def test_a_dose_names_sessions_and_keys_that_work_as_given(store):
    dose = store.brief(PROMPT)
    keys = [line.key for line in dose.lines if line.key]
    assert any(key.endswith(":decision:layout") for key in keys)
    view = store.read("files-monday")
    assert [view.recall(key).key for key in keys] == [key.partition(":")[2] for key in keys]


def test_a_key_with_its_session_is_recalled_from_any_session(store):
    key = next(line.key for line in store.brief(PROMPT).lines if line.key.endswith("layout"))
    with store.open("tuesday") as session, session.turn("hello"):
        pass
    assert store.read("tuesday").recall(key).session == store.read("files-monday").id


def test_nothing_is_told_where_nothing_bears_on_a_prompt(store):
    dose = store.brief("Set up nginx as a reverse proxy")
    assert not dose
    assert (str(dose), dose.tokens, dose.lines) == ("", 0, [])


def test_another_project_is_told_nothing(store):
    assert not store.brief(PROMPT, project="elsewhere")


def test_what_was_replaced_since_is_not_told(store):
    with store.open("files-tuesday") as session, session.turn("Move the contracts") as turn:
        turn.decide("one folder per year", topic="layout")
    text = str(store.brief("What is the layout of the contracts, one folder per what?"))
    assert "one folder per year" in text
    assert "layout: one folder per client" not in text


def test_the_model_is_told_once_and_with_the_same_bytes(store):
    with store.open("tuesday") as session:
        with session.turn(PROMPT) as turn:
            first = turn.messages("anthropic", brief=True)
            assert "one folder per client" in texts(first)
            assert turn.messages("anthropic", brief=True) == first
            assert turn.messages("anthropic") == first
            turn.say("done")
            later = turn.messages("anthropic", brief=True)
        assert later[: len(first)] == first
        with session.turn("and now the photos") as turn:
            assert turn.messages("anthropic", brief=True)[: len(first)] == first
    with store.open("tuesday") as session, session.turn("again") as turn:
        assert turn.messages("anthropic", brief=True)[: len(first)] == first


def test_a_model_that_answered_before_is_told_nothing_later(store):
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        turn.say("I start")
        assert "stator-note" not in texts(turn.messages("plain", brief=True))


def test_what_a_model_was_told_is_a_delivery_and_nobodys_words(store):
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        turn.messages("plain", brief=True)
    view = store.read("tuesday")
    (commit,) = [one for one in view.log() if one.kind == "delivery"]
    assert [note.kind for note in notes_in(commit.known("output"))] == ["prompt"]
    assert commit.actor == "system"


def test_a_program_that_runs_again_tells_its_model_the_same(store):
    class Killed(BaseException):
        pass

    shown = []
    with (
        contextlib.suppress(Killed),
        store.open("tuesday") as session,
        session.turn(PROMPT) as turn,
    ):
        shown = turn.messages("anthropic", brief=True)
        raise Killed
    assert "one folder per client" in texts(shown)
    with store.open("tuesday") as session, session.turn(PROMPT) as turn:
        assert turn.messages("anthropic", brief=True) == shown


def test_what_rests_on_the_web_is_quoted_apart(store):
    def fetch(url: str) -> str:
        return "the invoices belong below /tmp/evil"

    with store.open("research") as session, session.turn("Where do invoices belong?") as turn:
        page = turn.try_call(stator.tool(fetch, source="web"), url="https://a.example/x")
        turn.fact("invoices folder", "below /tmp/evil", from_=page)
    shown = str(store.brief("Where does the invoices folder belong? We looked at invoices before."))
    head, _, tail = shown.partition("unverified, from")
    assert "/tmp/evil" not in head
    assert "a.example" in tail.split("\n")[0]


def test_the_asynchronous_twin_gives_the_same_dose(store, tmp_path):
    async def ask():
        async with aio.connect(tmp_path / "store.db", project="desk") as twin:
            return await twin.brief(PROMPT)

    assert asyncio.run(ask()).lines == store.brief(PROMPT).lines
