"""Tests that the tree of entries in a pi file becomes a session and its forks."""

from __future__ import annotations

import json

import pytest

import stator
from importers.counts_pi import count
from importers.import_helpers import (
    DATA,
    RECORDINGS,
    conversations_in,
    detected_format,
    import_file,
    prompts_of,
    rendered,
    sessions,
    totals,
    views,
)
from importers.import_helpers import needs_recordings as real_only
from stator.model.records.types import SettingRecord

TREE = DATA / "pi" / "tree.jsonl"
FIRST = DATA / "pi" / "first-version.jsonl"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def written(path, entries):
    path.write_text("".join(f"{e if isinstance(e, str) else json.dumps(e)}\n" for e in entries))
    return path


def entries(path=TREE):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_first_branch_is_the_session_and_a_later_branch_its_fork(store):
    import_file(store, TREE, "pi")
    first, second = views(store, TREE, "pi")
    assert prompts_of(first) == ["add tax to the cart", "now the tests"]
    assert prompts_of(second) == ["add tax to the cart", "document it instead"]
    assert (second.record.parent.session, second.record.parent.kind) == (first.id, "fork")


def test_a_fork_begins_where_the_tree_branches(store):
    import_file(store, TREE, "pi")
    first, second = views(store, TREE, "pi")
    last = [c for c in first.log() if c.kind == "entry" and c.origin[1] == "a2"]
    assert second.record.parent.seq == last[0].seq


def test_a_branch_summary_is_a_note_in_the_fork(store):
    import_file(store, TREE, "pi")
    _, second = views(store, TREE, "pi")
    said = [c.value("output") for c in second.log() if c.kind == "entry" and c.actor == "system"]
    assert said == ["The tests were tried and stopped."]


def test_growth_on_either_branch_adds_only_what_is_new(store, tmp_path):
    path = written(tmp_path / "a.jsonl", entries()[:11])
    import_file(store, path, "pi")
    written(path, entries())
    report = import_file(store, path, "pi")
    assert (totals(report), sessions(store)) == ({"turns": 1, "calls": 0}, 2)
    more = {
        "type": "message", "id": "u4", "parentId": "l1", "timestamp": "2026-02-03T11:00:00Z",
        "message": {"role": "user", "content": "the tests after all"},
    }  # fmt: skip
    written(path, [*entries(), more])
    report = import_file(store, path, "pi")
    assert (totals(report), sessions(store)) == ({"turns": 1, "calls": 0}, 2)


def test_a_second_import_adds_nothing(store):
    import_file(store, TREE, "pi")
    assert import_file(store, TREE, "pi").commits == 0


def test_calls_have_their_outcome_and_files(store):
    import_file(store, TREE, "pi")
    first, _ = views(store, TREE, "pi")
    outcomes = {c.tool: (c.status, c.cause) for c in first.log() if c.kind == "outcome"}
    assert outcomes == {
        "write": ("ok", ""),
        "read": ("error", "no such file"),
        "bash": ("cancelled", "never run"),
    }
    assert [(change.path, change.op) for change in first.files()] == [("tax.py", "created")]


def test_an_answer_keeps_signed_thinking_usage_and_model(store):
    import_file(store, TREE, "pi")
    first, _ = views(store, TREE, "pi")
    (answer,) = [c for c in first.log() if c.origin == ("pi", "a1")]
    assert answer.value("output")["content"][0] == {
        "type": "thinking",
        "thinking": "a file",
        "signature": "sig1",
    }
    assert answer.value("usage") == {
        "tokens": 165, "tokens:in": 100, "tokens:out": 20, "tokens:cache_read": 40,
        "tokens:cache_write": 5, "money:usd": 250_000,
    }  # fmt: skip
    assert answer.tool == "claude-x"


def test_the_model_that_a_session_starts_with_is_a_setting(store):
    """pi writes an entry only when the user changes it."""
    import_file(store, TREE, "pi")
    first, _ = views(store, TREE, "pi")
    ((seq, model),) = [
        (commit.seq, op.record.value)
        for commit in first.log()
        for op in commit.delta
        if isinstance(getattr(op, "record", None), SettingRecord) and op.record.name == "model"
    ]
    (answer,) = [c for c in first.log() if c.origin == ("pi", "a1")]
    assert (model, seq < answer.seq) == ("claude-x", True)


def test_an_aborted_answer_ends_its_turn(store):
    import_file(store, TREE, "pi")
    first, _ = views(store, TREE, "pi")
    ends = [
        (c.status, c.value("why") if c.has("why") else "")
        for c in first.log()
        if c.kind == "turn_end"
    ]
    assert ends == [("ok", ""), ("aborted", "Request was aborted.")]


def test_a_compaction_names_the_first_kept_item(store):
    import_file(store, TREE, "pi")
    _, second = views(store, TREE, "pi")
    said = str(rendered(store, second))
    assert "Tax is in, documented." in said
    assert "document it instead" in said
    assert "'I write it.'" not in said


def test_entries_of_version_1_follow_each_other(store):
    report = import_file(store, FIRST, "pi")
    (shown,) = views(store, FIRST, "pi")
    assert prompts_of(shown) == ["look at the cart", "fill it"]
    said = str(rendered(store, shown))
    assert ("fill it" in said, "'It is empty.'" in said) == (True, False)
    assert (report.skipped, import_file(store, FIRST, "pi").commits) == (0, 0)


def test_a_session_with_a_parent_session_is_its_fork(store, tmp_path):
    import_file(store, FIRST, "pi")
    copied = entries(FIRST)[:3]
    copied[0] |= {"id": "5e550000-03", "branchedFrom": "/x/2025-12-09T10_5e550000-02.jsonl"}
    say = {"role": "user", "content": "leave it"}
    copied.append({"type": "message", "timestamp": "2025-12-10T10:00:00Z", "message": say})
    path = written(tmp_path / "b.jsonl", copied)
    import_file(store, path, "pi")
    (fork,) = views(store, path, "pi")
    assert prompts_of(fork) == ["look at the cart", "leave it"]
    assert fork.record.parent.kind == "fork"


def test_names_come_from_the_user_or_the_first_prompt(store, tmp_path):
    names = [found.conversation.name for found in conversations_in(TREE, "pi")]
    assert names == ["Tax", "document it instead"]
    assert [f.conversation.name for f in conversations_in(FIRST, "pi")] == ["look at the cart"]


def test_damaged_lines_are_counted_and_the_rest_is_read(store, tmp_path):
    good = entries()
    lines = [
        good[0],
        '{"type": "mess',
        "\0\0\0\0",
        "[1]",
        "7",
        {"id": "x"},
        good[2],
        good[2],
        *good[1:],
    ]
    report = import_file(store, written(tmp_path / "a.jsonl", lines), "pi")
    assert report.skipped == 4
    assert (report.turns, report.unknown) == (3, 2)
    assert report.noise["written twice"] >= 1


def test_a_cut_last_line_is_reported_and_read_once_it_is_complete(store, tmp_path):
    path = tmp_path / "a.jsonl"
    whole = FIRST.read_text()
    path.write_text(whole[:-40])
    report = import_file(store, path, "pi")
    assert [(skip.line, skip.why) for skip in report.skips] == [(6, "cut off")]
    path.write_text(whole)
    report = import_file(store, path, "pi")
    assert (report.turns, report.sessions, report.skipped) == (0, 1, 0)


def test_entries_with_missing_or_cyclic_parents_are_read(store, tmp_path):
    odd = entries()[:7]
    odd[2]["parentId"] = "gone"
    odd[3]["parentId"] = "a1"
    odd[4]["parentId"] = "a2"
    report = import_file(store, written(tmp_path / "a.jsonl", odd), "pi")
    assert (report.turns, report.calls) == (1, 2)


def test_a_result_without_a_call_is_stored(store, tmp_path):
    alone = [e for e in entries()[:7] if e.get("id") != "a1"]
    alone[3]["parentId"] = "u1"
    report = import_file(store, written(tmp_path / "a.jsonl", alone), "pi")
    assert report.calls == 2


def test_an_image_becomes_a_note_with_type_size_and_digest(store, tmp_path):
    image = {"type": "image", "data": "QUJD" * 400, "mimeType": "image/png"}
    seen = entries()[:3]
    seen[2]["message"]["content"].append(image)
    path = written(tmp_path / "a.jsonl", seen)
    import_file(store, path, "pi")
    (shown,) = views(store, path, "pi")
    _, note = prompts_of(shown)[0].split("\n")
    assert note.startswith("[image/png, 1,200 bytes, sha256 ")
    assert "QUJDQUJD" not in str(prompts_of(shown))


def test_a_file_without_messages_contains_no_conversation(store, tmp_path):
    import_file(store, written(tmp_path / "a.jsonl", entries()[:2]), "pi")
    assert sessions(store) == 0


def test_the_counts_match_an_independent_count(store):
    report = import_file(store, TREE, "pi")
    assert {**totals(report), "forks": sessions(store) - 1} == count(TREE)


@real_only
def test_the_counts_of_real_sessions_match_an_independent_count(tmp_path):
    for number, path in enumerate(RECORDINGS.glob("pi/**/*.jsonl")):
        with stator.connect(tmp_path / f"{number}.db", project="shop") as store:
            assert detected_format(path) == "pi"
            report = import_file(store, path, "pi")
            assert {**totals(report), "forks": sessions(store) - 1} == count(path), path
