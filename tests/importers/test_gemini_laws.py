"""Tests the law of reading on Gemini CLI's chats: real ones, and generated ones."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from importers.gemini_writer import SESSION, Chat, chats, write_resume
from importers.import_helpers import DATA, RECORDINGS
from importers.reading_laws import line_ends, read, read_in_parts, recorded
from stator.model.exchange.items import Answered, Called, Compacted, Prompted, Returned
from stator.model.values.json_text import canonical

NAME = "session-2026-10-02T08-00-5d1f0000.jsonl"
FILES = [
    *sorted((DATA / "gemini").glob("garden/chats/**/*.jsonl")),
    *sorted(RECORDINGS.glob("generated/gemini-*/session-*.jsonl")),
]
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


def whole_of(data, path):
    path.write_bytes(data)
    return read(path, "gemini")[0]


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.name[:40])
@settings(max_examples=6, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=6))
def test_a_real_chat_gives_the_same_items_however_it_grows(source, shares):
    data = source.read_bytes()
    first = line_ends(data)[0]
    places = [first + int((len(data) - first) * share) for share in shares]
    with TemporaryDirectory() as folder:
        path = Path(folder) / source.name
        whole = whole_of(data, path)
        assert read_in_parts(data, places, path, "gemini")[0] == whole


@SLOW
@given(chats(), st.data())
def test_the_items_of_a_part_are_the_first_items_of_the_whole(chat, data):
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        whole = whole_of(chat.data, path)
        ends = line_ends(chat.data)
        place = data.draw(st.sampled_from(ends) | st.integers(ends[0], ends[-1]))
        path.write_bytes(chat.data[:place])
        part, cursor = read(path, "gemini")
        assert part == whole[: len(part)]
        assert len(canonical(cursor.state)) < 8_000
        path.write_bytes(chat.data)
        assert part + read(path, "gemini", cursor)[0] == whole


@SLOW
@given(chats(), st.data())
def test_reading_after_each_of_many_lines_gives_the_whole(chat, data):
    places = data.draw(st.lists(st.sampled_from(line_ends(chat.data)), max_size=8))
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        whole = whole_of(chat.data, path)
        assert read_in_parts(chat.data, places, path, "gemini")[0] == whole


@SLOW
@given(chats(), st.data())
def test_what_is_given_at_rest_and_then_continued_is_the_whole(chat, data):
    ends = line_ends(chat.data)
    places = [ends[number - 1] for number in chat.rests]
    chosen = data.draw(st.sets(st.sampled_from(places)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(chat.data)
        whole = recorded(read(path, "gemini", at_rest=True)[0])
        everywhere = frozenset(range(len(chosen) + 1))
        assert recorded(read_in_parts(chat.data, chosen, path, "gemini", everywhere)[0]) == whole


@SLOW
@given(chats())
def test_every_prompt_call_and_result_is_given_once(chat):
    with TemporaryDirectory() as folder:
        told = whole_of(chat.data, Path(folder) / NAME)
    for kind in (Prompted, Called, Returned, Answered):
        names = [item.id for item in told if type(item) is kind]
        assert len(names) == len(set(names))
    calls = {item.id for item in told if isinstance(item, Called)}
    assert all(item.id in calls for item in told if isinstance(item, Returned))


# -- one document, rewritten ------------------------------------------------------------------------


def document(chat, number):
    """The first messages of a chat as older versions wrote them."""
    newest = {line["id"]: line for line in chat.lines if "id" in line}
    messages = list(newest.values())
    meta = {"sessionId": SESSION, "projectHash": "h", "messages": messages[:number]}
    return json.dumps(meta, indent=2).encode()


@SLOW
@given(chats(), st.lists(st.integers(1, 30), max_size=4), st.booleans())
def test_a_document_that_is_rewritten_with_more_messages_gives_the_same_items(chat, sizes, rests):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session-x.json"
        path.write_bytes(document(chat, 99))
        whole = read(path, "gemini", at_rest=True)[0]
        cursor, parts = None, []
        for number, size in enumerate([*sorted(sizes), 99]):
            path.write_bytes(document(chat, size))
            more, cursor = read(path, "gemini", cursor, at_rest=rests or number == len(sizes))
            parts += more
        assert parts == whole


def test_a_document_that_begins_differently_is_read_from_the_start(tmp_path):
    chat = Chat()
    for words in ("go", "more", "last"):
        chat.record("user", [{"text": words}])
    path = tmp_path / "session-x.json"
    path.write_bytes(document(chat, 2))
    _, cursor = read(path, "gemini")
    path.write_bytes(document(chat, 3).replace(b'"go"', b'"stop"'))
    more, _ = read(path, "gemini", cursor)
    assert [item.content for item in more if isinstance(item, Prompted)] == ["stop", "more", "last"]


def test_calls_that_a_document_adds_after_a_rest_become_another_answer(tmp_path):
    chat = Chat()
    chat.record("user", [{"text": "go"}])
    answer = chat.record("gemini", "First the hole.")
    path = tmp_path / "session-x.json"
    path.write_bytes(document(chat, 9))
    _, cursor = read(path, "gemini", at_rest=True)
    call = {"id": "c1", "name": "delegate", "args": {}, "status": "success", "result": []}
    chat.push({**answer, "toolCalls": [call]})
    path.write_bytes(document(chat, 9))
    more, _ = read(path, "gemini", cursor, at_rest=True)
    assert [type(item) for item in more] == [Answered, Called, Returned]
    assert more[0].id == f"{answer['id']}+1"


# -- what closes an answer --------------------------------------------------------------------------


def answering():
    """A chat that ends within an answer."""
    chat = Chat()
    chat.lines.append({"sessionId": SESSION, "projectHash": "h", "kind": "main"})
    chat.record("user", [{"text": "go"}])
    chat.record("gemini", "Done.", tokens=None)
    return chat


def answers(chat, path, *, at_rest=False):
    path.write_bytes(chat.data)
    told, _ = read(path, "gemini", at_rest=at_rest)
    return [item for item in told if isinstance(item, Answered)]


def test_an_answer_is_held_back_while_its_next_version_may_come(path):
    assert answers(answering(), path) == []
    assert len(answers(answering(), path, at_rest=True)) == 1


CLOSERS = {
    "a prompt": lambda chat: chat.record("user", [{"text": "more"}]),
    "another answer": lambda chat: chat.record("gemini", ""),
    "a notice": lambda chat: chat.record("info", "x"),
    "a rewind": lambda chat: chat.lines.append({"$rewindTo": "user-1"}),
    "a new view of the model": write_resume,
}


@pytest.mark.parametrize("closer", CLOSERS)
def test_an_answer_is_given_when_something_follows_that_cannot_precede_its_end(path, closer):
    chat = answering()
    CLOSERS[closer](chat)
    assert len(answers(chat, path)) == 1


# -- what the model sees ----------------------------------------------------------------------------


def compactions(chat, path):
    return [item for item in whole_of(chat.data, path) if isinstance(item, Compacted)]


def test_a_resumed_session_was_not_compacted(path):
    chat = answering()
    chat.record("info", "Goodbye.")
    write_resume(chat)
    chat.record("user", [{"text": "on"}])
    told = whole_of(chat.data, path)
    assert not [item for item in told if isinstance(item, Compacted)]
    assert [item.content for item in told if isinstance(item, Prompted)] == ["go", "on"]


def test_an_aborted_turn_that_left_the_view_is_no_compaction(path):
    chat = answering()
    known = list(chat.history)
    chat.record("user", [{"text": "and now"}])
    chat.see(known)
    assert compactions(chat, path) == []


def test_an_aborted_first_turn_is_no_compaction(path):
    chat = answering()
    chat.see([])
    assert compactions(chat, path) == []


def test_a_summary_in_place_of_the_first_messages_is_a_compaction(path):
    chat = answering()
    kept = chat.record("user", [{"text": "go"}])
    summary = {"id": "s", "type": "user", "content": [{"text": "<state_snapshot>so far"}]}
    chat.see([summary, kept])
    (found,) = compactions(chat, path)
    prompts = [item.id for item in whole_of(chat.data, path) if isinstance(item, Prompted)]
    assert (found.summary, found.keeps_from) == ("<state_snapshot>so far", prompts[1])


CONTEXT = {
    "id": "c",
    "type": "user",
    "content": [{"text": "<session_context>here</session_context>"}],
}


def test_a_summary_is_known_after_a_resume_that_left_out_the_prompts(path):
    chat = answering()
    chat.see([CONTEXT, *(one for one in chat.history if one["type"] != "user")])
    chat.see([CONTEXT, {"id": "s", "type": "user", "content": [{"text": "roses so far"}]}])
    told = whole_of(chat.data, path)
    assert [item.summary for item in told if isinstance(item, Compacted)] == ["roses so far"]
    assert [item.content for item in told if isinstance(item, Prompted)] == ["go"]


def test_a_resume_after_a_compaction_is_no_second_one(path):
    chat = answering()
    summary = {"id": "s", "type": "user", "content": [{"text": "<state_snapshot>so far"}]}
    chat.see([CONTEXT, summary])
    chat.record("user", [{"text": "on"}])
    chat.see([CONTEXT, summary])
    assert len(compactions(chat, path)) == 1


def test_a_resume_that_begins_with_an_empty_view_repeats_no_call(path):
    chat = answering()
    call = {"id": "w1", "name": "write_file", "args": {"file_path": "a"}, "status": "success"}
    for _ in range(6):
        chat.record("gemini", "", toolCalls=[{**call, "timestamp": "2026-01-01T00:00:00Z"}])
    chat.record("info", "Goodbye.")
    before = whole_of(chat.data, path)
    known = list(chat.history)
    chat.see([CONTEXT])
    asked = {"content": [{"functionCall": {"name": "write_file", "args": call["args"]}}]}
    chat.see([CONTEXT, *({**one, **asked} if one.get("toolCalls") else one for one in known)])
    after = whole_of(chat.data, path)
    assert len([item for item in before if isinstance(item, Called)]) == 6
    assert [item for item in after if isinstance(item, (Called, Answered, Prompted))] == [
        item for item in before if isinstance(item, (Called, Answered, Prompted))
    ]


def test_the_context_before_a_summary_is_not_what_a_compaction_keeps(path):
    chat = answering()
    chat.see([CONTEXT, *chat.history])
    chat.record("user", [{"text": "on"}])
    summary = {"id": "s", "type": "user", "content": [{"text": "roses so far"}]}
    under_another_id = {"id": "k", "type": "user", "content": [{"text": "on"}]}
    chat.see([CONTEXT, summary, under_another_id])
    (found,) = compactions(chat, path)
    prompts = [item.id for item in whole_of(chat.data, path) if isinstance(item, Prompted)]
    assert found.keeps_from == prompts[1]


def test_a_second_compaction_replaces_the_summary_of_the_first(path):
    chat = answering()
    for name in ("s1", "s2"):
        words = f"<state_snapshot>{name}"
        chat.see([{"id": name, "type": "user", "content": [{"text": words}]}])
    assert [item.id for item in compactions(chat, path)] == ["compact/1", "compact/2"]


def test_a_cursor_in_a_long_chat_stays_small(path):
    chat = answering()
    for number in range(2_500):
        chat.record("user", [{"text": f"prompt {number}"}])
    path.write_bytes(chat.data)
    _, cursor = read(path, "gemini")
    assert len(canonical(cursor.state)) < 64 * 1024
