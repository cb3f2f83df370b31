"""Tests that damaged Claude Code transcripts are imported as far as they can be read, and that
unreadable lines are reported."""

from __future__ import annotations

import codecs
import json
import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from importers.claude_code_writer import (
    SESSION,
    TranscriptWriter,
    import_files,
    items,
    items_of_type,
    kinds,
    prompts,
    view,
)
from stator.errors import InvalidInput
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.reading import jsonl
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.items import (
    Answered,
    Called,
    Cursor,
    Noise,
    Prompted,
    Returned,
    Skipped,
)


@pytest.fixture
def file(tmp_path) -> TranscriptWriter:
    return TranscriptWriter(tmp_path / f"{SESSION}.jsonl")


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="demo") as opened:
        yield opened


def turn(file: TranscriptWriter, number: int) -> None:
    file.prompt(f"turn {number}")
    file.says(f"msg_{number}", (f"toolu_{number}", "Bash", {"command": "make"}))
    file.result(f"toolu_{number}", "ok")
    file.says(f"msg_{number}b", "Done.", stop="end_turn")


def test_a_cut_last_line_is_reported_and_the_rest_is_imported(file, store):
    turn(file, 1)
    file.prompt("turn 2")
    data = file.path.read_bytes()
    file.path.write_bytes(data[:-20])
    report = import_files(store, file.path)
    assert [(skip.line, skip.why) for skip in report.skips] == [(5, "cut off")]
    assert prompts(view(store)) == ["turn 1"]
    file.path.write_bytes(data)
    import_files(store, file.path)
    assert prompts(view(store)) == ["turn 1", "turn 2"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"type":"user","mess', "not JSON"),
        (b"\0" * 512, "NUL bytes"),
        (b"[1, 2]", "not an object"),
        (b"\xff\xfe\xfa", "not JSON"),
    ],
)
def test_a_bad_line_in_the_middle_is_counted_and_the_rest_is_imported(file, store, bad, why):
    turn(file, 1)
    file.raw(bad)
    turn(file, 2)
    report = import_files(store, file.path)
    assert [(skip.line, skip.why) for skip in report.skips] == [(5, why)]
    assert report.calls == 2


@pytest.mark.parametrize("depth", [300, 900])
def test_a_value_nested_too_deeply_is_shortened_and_the_rest_is_imported(file, store, depth):
    turn(file, 1)
    deep: list[object] = []
    for _ in range(depth):
        deep = [deep]
    file.prompt(deep)
    turn(file, 2)
    report = import_files(store, file.path)
    assert (report.calls, report.mended) == (2, 1)


def test_lone_surrogates_are_kept(file, store):
    file.prompt("half \ud83d of it")
    import_files(store, file.path)
    assert prompts(view(store)) == ["half \ud83d of it"]


@pytest.mark.parametrize(
    "fields",
    [
        {"message": None},
        {"message": {"content": {"a": 1}}},
        {"message": {"content": [7, None, {"type": 3}]}},
        {"message": {"content": [{"type": "tool_use", "id": 7, "name": None, "input": "x"}]}},
        {"message": {"content": [{"type": "tool_result", "content": {"x": 1}}]}},
        {"timestamp": "yesterday", "message": {"content": "x"}},
        {"timestamp": 10**30, "message": {"content": "x"}},
        {"uuid": 5, "parentUuid": {"a": 1}, "message": {"content": "x"}},
        {"isSidechain": "yes", "agentId": 3, "message": {"content": "x"}},
        {"toolUseResult": [[]], "message": {"content": [{"type": "tool_result"}]}},
    ],
)
@pytest.mark.parametrize("kind", ["user", "assistant", "attachment", "system"])
def test_values_of_wrong_types_do_not_raise(file, store, kind, fields):
    turn(file, 1)
    file.line(kind, **fields)
    turn(file, 2)
    report = import_files(store, file.path)
    assert report.turns >= 2
    assert not report.refused


def test_a_repeated_line_counts_once(file):
    turn(file, 1)
    data = file.path.read_bytes()
    file.path.write_bytes(data + data)
    told = items(file.path)
    assert len(items_of_type(Prompted, told)) == 1
    assert len(items_of_type(Noise, told)) == 4


def test_lines_with_missing_or_cyclic_parents_are_read_in_file_order(file):
    file.prompt("one", uuid="a", parentUuid="b")
    file.says("msg_1", "x", uuid="b", parentUuid="a")
    file.prompt("two", uuid="c", parentUuid="nobody")
    file.prompt("three", uuid="d", parentUuid="d", isSidechain=True)
    told = items(file.path)
    assert [item.content for item in items_of_type(Prompted, told)] == ["one", "two", "three"]


def test_equal_or_unordered_times_change_nothing(file, store):
    for number, moment in enumerate(["2026-03-02T00:00:00Z", "2026-03-01T00:00:00Z"] * 2):
        file.prompt(f"turn {number}", timestamp=moment)
    import_files(store, file.path)
    assert prompts(view(store)) == ["turn 0", "turn 1", "turn 2", "turn 3"]


def test_a_call_and_a_result_that_do_not_match_are_both_stored(file, store):
    file.prompt("go")
    file.says("msg_1", ("toolu_1", "Bash", {"command": "make"}))
    file.result("toolu_2", "of another")
    report = import_files(store, file.path)
    assert (report.calls, report.orphans) == (2, 1)


def test_a_file_that_grew_adds_only_what_is_new(file, store):
    for number in range(5):
        turn(file, number)
        report = import_files(store, file.path)
        assert (report.turns, report.calls) == (1, 1)
    assert kinds(view(store)).count("turn") == 5


def test_a_rewritten_file_is_read_from_its_start(file, store):
    turn(file, 1)
    import_files(store, file.path)
    file.path.unlink()
    again = TranscriptWriter(file.path)
    again.count = 100
    again.prompt("a longer line than the one that stood there before, by far")
    turn(again, 2)
    assert import_files(store, file.path).turns == 2


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: codecs.BOM_UTF8 + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
        lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    ],
)
def test_other_encodings_and_line_ends_are_read(file, store, encode):
    turn(file, 1)
    file.path.write_bytes(encode(file.path.read_text()))
    assert FORMAT.recognizes(file.path, read_beginning(str(file.path)))
    report = import_files(store, file.path)
    assert (report.turns, report.calls, report.skipped) == (1, 1, 0)


def test_a_line_above_the_limit_is_skipped(file, store, monkeypatch):
    monkeypatch.setattr(jsonl, "LINE_MAX", 100_000)
    turn(file, 1)
    file.prompt("x" * 200_000)
    turn(file, 2)
    report = import_files(store, file.path)
    assert [skip.line for skip in report.skips] == [5]
    assert prompts(view(store)) == ["turn 1", "turn 2"]


def test_a_pipe_is_refused_without_waiting(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    os.mkfifo(path)
    with pytest.raises(InvalidInput):
        list(FORMAT.conversations(path))


def test_a_symbolic_link_among_the_sub_agents_is_not_followed(file, tmp_path):
    turn(file, 1)
    elsewhere = TranscriptWriter(tmp_path / "elsewhere.jsonl")
    elsewhere.prompt("not yours", isSidechain=True, agentId="a1")
    folder = file.path.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").symlink_to(elsewhere.path)
    assert len(list(FORMAT.conversations(file.path))) == 1


def test_a_message_with_thousands_of_results_is_yielded_in_parts(file):
    file.prompt("go")
    for number in range(1200):
        file.says("msg_1", (f"toolu_{number}", "Read", {}))
        file.result(f"toolu_{number}", "x")
    told = items(file.path)
    assert len(items_of_type(Called, told)) == len(items_of_type(Returned, told)) == 1200
    assert (
        len({answer.id for answer in items_of_type(Answered, told)})
        == len(items_of_type(Answered, told))
        == 3
    )


def test_a_line_nested_too_deeply_is_skipped(file):
    turn(file, 1)
    file.raw('{"type":"user","x":' + "[" * 100_000 + "]" * 100_000 + "}")
    assert items_of_type(Skipped, items(file.path))


def test_an_empty_file_contains_no_conversation(file):
    assert list(FORMAT.conversations(file.path)) == []


def test_an_import_does_not_change_the_source(tmp_path, store):
    file = TranscriptWriter(tmp_path / "source" / f"{SESSION}.jsonl")
    turn(file, 1)
    before = (file.path.read_bytes(), file.path.stat().st_mtime_ns)
    import_files(store, file.path)
    assert (file.path.read_bytes(), file.path.stat().st_mtime_ns) == before
    assert os.listdir(file.path.parent) == [file.path.name]


def test_a_line_with_nan_is_imported(file, store):
    file.raw(
        json.dumps({"type": "user", "uuid": "u0", "parentUuid": None, "sessionId": SESSION})[:-1]
        + ', "message": {"content": "x"}, "cost": NaN}'
    )
    import_files(store, file.path)
    assert prompts(view(store)) == ["x"]


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    "type subtype uuid parentUuid sessionId timestamp message content role id isSidechain agentId cwd"
    " isMeta promptId toolUseResult attachment rendered compactMetadata forkedFrom session_id origin"
    " permissionMode effort version isCompactSummary".split()
)
line_kinds = st.sampled_from(
    "user assistant system attachment result summary new mode permission-mode ai-title".split()
)
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image"])},
    optional={
        "id": junk,
        "name": junk,
        "input": junk,
        "tool_use_id": junk,
        "content": junk,
        "text": junk,
    },
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda fields, kind, content: {**fields, "type": kind, "message": {"content": content}},
            st.dictionaries(names, junk, max_size=6),
            line_kinds,
            st.lists(blocks, max_size=3) | junk,
        ),
        max_size=6,
    )
)
def test_any_line_is_read_or_reported(lines):
    with tempfile.TemporaryDirectory() as folder, stator.connect("memory:") as store:
        file = TranscriptWriter(Path(folder) / f"{SESSION}.jsonl")
        file.prompt("go", uuid="first")
        for line in lines:
            file.raw(json.dumps(line))
        told = items(file.path)
        assert not [item for item in told if isinstance(item, Skipped)]
        assert [item for item in told if not isinstance(item, (Cursor, Noise))]
        msgspec.json.encode(told[-1].state)
        import_files(store, file.path)
        assert import_files(store, file.path).commits == 0
