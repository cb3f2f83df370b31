"""The line before content that nobody here vouches for, in what a model is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stator
from model.providers import ACCEPTS
from runtime.support import says
from stator.model.window.messages import MARK
from stator.runtime.window.transcript import Rendering

DIALECTS = ["anthropic", "openai", "openai-chat", "plain"]


def fetched(session: Any, value: Any = "a page", *, source: str = "web") -> None:
    def fetch(url: str) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    with session.turn("look it up") as t:
        said = says(("fetch", {"url": "https://a.example/x"}), text="fetching")
        t.results(
            t.reply(said), {"fetch": fetch}, effects={"fetch": "read"}, sources={"fetch": source}
        )


def shown(session: Any, dialect: str = "anthropic", **options: Any) -> Any:
    with session.turn("and now?", new=True) as t:
        return t.messages(dialect, **options)


def text(messages: Any) -> str:
    return json.dumps(messages, ensure_ascii=False)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("source", ["web", "import"])
def test_a_result_from_outside_is_marked_in_every_dialect(memory, dialect, source):
    with memory.open("a") as s:
        fetched(s, source=source)
        messages = shown(s, dialect)
        ACCEPTS[dialect](messages)
        assert text(f"{MARK}\na page")[1:-1] in text(messages)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_marks_none_is_shown(memory, dialect):
    with memory.open("a") as s:
        fetched(s)
        assert MARK not in text(shown(s, dialect, marks=False))
        assert MARK in text(shown(s, dialect))


@pytest.mark.parametrize("source", ["tool", "file"])
def test_a_result_of_this_machine_is_not_marked(memory, source):
    with memory.open("a") as s:
        fetched(s, source=source)
        assert MARK not in text(shown(s))


@pytest.mark.parametrize(
    "value",
    [
        [
            {"type": "text", "text": "block"},
            {"type": "image", "source": {"type": "url", "url": "u"}},
        ],
        {"k": 1},
        "",
        ValueError("as the page says"),
    ],
)
def test_blocks_values_and_errors_are_marked_too(memory, value):
    with memory.open("a") as s:
        fetched(s, value)
        result = shown(s)[2]["content"][0]
        assert result["content"].split("\n")[0] == MARK
        assert len(result["content"].split("\n")) == 2


def test_the_mark_is_the_same_bytes_however_the_session_continues(either):
    with either.open("a") as s:
        fetched(s)
        with s.turn("so?") as t:
            t.reply(says(text="so"))
            before = t.messages("openai-chat")
            t.fact("later", 1)
            fetched_again = t.messages("openai-chat")
            assert fetched_again[: len(before)] == before
    with either.open("a") as s:
        assert shown(s, "openai-chat")[: len(before)] == before


def test_a_late_result_from_outside_is_marked_inside_its_note(memory):
    def lost(url: str) -> Any:
        raise stator.InDoubt("the line went dead")

    with memory.open("a") as s, s.turn("look") as t:
        said = says(("fetch", {"url": "https://a.example"}))
        t.results(
            t.reply(said), {"fetch": lost}, effects={"fetch": "write"}, sources={"fetch": "web"}
        )
        t.reply(says(text="hm"))
        commit = next(c for c in s.log() if c.kind == "outcome")
        s._driver.append(
            [s._draft("settlement", call=commit.call, tool="fetch", status="ok", cause="done",
                      output="page", provenance=commit.provenance)]
        )  # fmt: skip
        note = t.messages("plain")[-1]["content"]
        assert note.split("\n")[1] == MARK
        assert note.split("\n")[-1] == "[end of note]"


def test_a_persons_word_takes_the_mark_away_and_its_withdrawal_brings_it_back(either):
    with either.open("a") as s:
        fetched(s)
        assert MARK in text(shown(s))
    who = either.contribute("a")
    who.vouch("tool:fetch", why="it is ours")
    with either.open("a") as s:
        assert MARK not in text(shown(s))
    who.vouch("tool:fetch", why="no more", withdraw=True)
    with either.open("a") as s:
        assert MARK in text(shown(s))


def test_a_persons_word_reaches_a_transcript_that_is_being_rendered(memory):
    with memory.open("a") as s:
        fetched(s)
    rendering = Rendering(memory.port, memory.read("a").id)
    assert MARK in text(rendering.current().render("anthropic"))
    memory.contribute("a").vouch("tool:fetch", why="it is ours")
    assert MARK not in text(rendering.current().render("anthropic"))


def test_what_came_with_a_bundle_is_marked(tmp_path):
    file = tmp_path / "a.stator"
    with stator.connect(tmp_path / "there.db", project="there") as there:
        with there.open("a") as s:
            fetched(s, source="tool")
        there.export("a", file)
    with stator.connect(tmp_path / "here.db", project="here") as here:
        here.import_bundle(file)
        with here.open("a") as s:
            messages = shown(s)
    assert messages[0]["content"][0]["text"] == f"{MARK}\nlook it up"
    assert messages[2]["content"][0]["content"] == f"{MARK}\na page"
    assert MARK not in text(messages[-1]["content"][-1])


def test_the_mark_counts_as_tokens(memory):
    with memory.open("a") as s:
        for _ in range(8):
            fetched(s, "page " * 100)
        with s.turn("now") as t:
            for window in (300, 600, 900):
                wire = json.dumps(t.messages("plain", max_tokens=window), separators=(",", ":"))
                assert len(wire) <= window * 4


def test_what_is_recorded_has_no_mark(memory):
    with memory.open("a") as s:
        fetched(s)
        shown(s)
        outcome = next(c for c in s.log() if c.kind == "outcome")
        assert outcome.value("output") == "a page"
        assert s.recall(f"call:{outcome.call}").content["output"] == "a page"
