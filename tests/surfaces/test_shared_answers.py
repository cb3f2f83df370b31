"""What answers over several sessions make of forks, retries and revisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stator
from runtime.test_why import record_revision
from stator.model.values.ids import short


@stator.tool(files="path")
def write(path, text):
    Path(path).write_text(text)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    path = tmp_path / "shared.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with stator.connect(path) as store:
        yield store


@pytest.fixture
def tried(shop):
    """A turn, and a retry of it that decided otherwise."""
    with shop.open("names") as s, s.turn("rename") as t:
        t.decide("keep an alias", topic="compatibility", over=["no alias", "a shim"])
    with shop.open("names") as s, s.retry("t1") as t:
        t.decide("no alias", topic="compatibility")
    return "names~t1.2"


def statuses(ask, *words):
    reasons = [json.loads(line) for line in ask("why", "compatibility", *words, "--json").lines]
    return {one["text"]: one["status"] for one in reasons if one["kind"] == "decision"}


def standing(ask, *words):
    found = [json.loads(line) for line in ask("decisions", *words, "--json").lines]
    return {one["record"]["what"]: (one["stands"], one["left_out"]) for one in found}


LEFT_OUT = "in a retry that was not adopted"


def test_a_decision_of_a_retry_that_was_not_adopted_is_not_in_force(tried, ask):
    assert statuses(ask) == {"keep an alias": "in force", "no alias": LEFT_OUT}
    assert standing(ask) == {"keep an alias": (True, ""), "no alias": (False, LEFT_OUT)}
    shown = ask("decisions", "compatibility").lines
    assert sorted(line[0] for line in shown[-2:]) == ["-", "✓"]
    assert [line.endswith(f" · {LEFT_OUT}") for line in sorted(shown[-2:])] == [True, False]
    assert "keep an alias" in ask("state", "--project").out
    assert "compatibility: no alias" not in ask("state", "--project").out


def test_within_the_retry_its_decision_is_in_force(tried, ask):
    assert statuses(ask, "-s", tried) == {"no alias": "in force"}
    assert standing(ask, "-s", tried) == {"no alias": (True, "")}


def test_of_an_adopted_retry_the_decision_is_in_force_and_that_of_the_original_is_not(tried, ask):
    assert ask("adopt", "names:t1.2").code == 0
    assert statuses(ask) == {
        "keep an alias": "in an attempt that another one replaced",
        "no alias": "in force",
    }
    assert standing(ask) == {"no alias": (True, "")}


def test_why_reads_what_was_not_chosen_as_such(tried, ask):
    shown = " ".join(ask("why", "compatibility").out.split())
    assert "keep an alias, instead of: no alias, a shim" in shown


def listed(ask, *words):
    found = [json.loads(line) for line in ask("files", *words, "--json").lines]
    return [(one["path"], one["op"], one["seq"]) for one in found]


def test_what_a_fork_inherited_is_listed_for_its_parent_only(shop, ask):
    with shop.open("first") as s, s.turn("make them") as t:
        t.call(write, path="a.py", text="1")
        t.call(write, path="b.py", text="1")
    shop.fork("first", as_name="second")
    with shop.open("second") as s, s.turn("go on") as t:
        t.call(write, path="b.py", text="2")
    found = listed(ask)
    assert sorted((path, op) for path, op, _ in found) == [
        ("a.py", "created"), ("b.py", "created"), ("b.py", "modified"),
    ]  # fmt: skip
    assert sorted(change.path for change in shop.files()) == ["a.py", "b.py", "b.py"]
    assert len(listed(ask, "second")) == 2
    assert "1 file was touched only before the fork of s_" in ask("files", "second").out
    assert "before the fork" not in ask("files", "first").out


def test_files_that_only_a_revision_names_are_named(shop, ask):
    with shop.open("first") as s, s.turn("make it") as t:
        t.call(write, path="a.py", text="1")
    record_revision(shop, s.id, "64f1b9a", files=["a.py", "made/by/shell.py", "mix.lock"])
    note = "revision 64f1b9a names 2 more files, which shell commands may have changed: made/by/shell.py, mix.lock"

    def said():
        return " ".join(ask("files", "first").out.split())

    assert said().endswith(note)
    record_revision(shop, s.id, "7777777", files=["a.py", "mix.lock"])
    assert said().endswith(note)
    record_revision(shop, s.id, "8888888", files=[f"{n}.txt" for n in range(20)])
    assert f"all: stator state s_{s.id[-8:]} -c revisions --json" in said()
    assert "which shell commands" not in ask("files").out


def test_a_diff_says_in_a_pipe_how_to_see_the_lines(shop, ask):
    with shop.open("first") as s, s.turn("make it") as t:
        t.call(write, path="a.py", text="1")
    hint = f"the lines: stator diff {short(s.id)} t0..t1 -p"
    assert hint in ask("diff", "first", "t1").lines
    assert ask(*hint.split()[3:]).code == 0
    assert "the lines:" not in ask("diff", "first", "t1", "-p").out
    assert "the lines:" not in ask("diff", "first", "t1", "--json").out


def test_files_that_end_as_it_was_typed_are_counted_above_their_answers(shop, ask):
    with shop.open("first") as s, s.turn("make them") as t:
        t.file("/one/src/deep.py", "modified")
        t.file("/two/src/deep.py", "modified")
        t.file("/two/src/other.py", "modified")
    assert ask("why", "src/deep.py").lines[0] == "2 files end in src/deep.py"
    (heading, *_) = ask("why", "src/other.py").lines
    assert heading.startswith("/two/src/other.py (the only file that ends in src/other.py) · ")


def test_the_time_of_a_turn_that_changed_a_file_is_that_of_its_last_edit(shop, ask):
    with shop.open("first") as s, s.turn("make it") as t:
        t.call(write, path="a.py", text="1")
        t.decide("later", topic="after")
    (turn,) = shop.why("a.py").answers[0].turns
    edits = [reason.at for reason in turn.reasons if reason.kind == "edit"]
    assert turn.at == max(edits) < max(reason.at for reason in turn.reasons)
