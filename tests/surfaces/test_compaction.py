"""The commands compact, evicted and recall."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def long(tmp_path, world, monkeypatch):
    """A session of eight turns; its store is in $STATOR_STORE."""
    path = tmp_path / "long.db"
    with world.open(path) as opened, opened.open("long") as s:
        for number in range(8):
            with s.turn(f"prompt {number}") as t:
                t.decide(f"choice {number}", topic=f"topic {number}", why="it is so")
                t.fact(f"n {number}", number)
                t.say(f"answer {number} " + "word " * 40)
    monkeypatch.setenv("STATOR_STORE", str(path))
    gist = tmp_path / "gist.txt"
    gist.write_text("We talked.\n")
    monkeypatch.chdir(tmp_path)
    return path


def test_a_dry_run_of_compact_lists_keys_and_records_nothing(long, ask):
    before = json.loads(ask("show", "--json").out)["head"]
    answer = ask("compact", "--dry-run", "--summary", "gist.txt")
    assert answer.code == 0
    assert "would be compacted (summarise)" in answer.out
    assert "decision 4" in answer.out
    assert json.loads(ask("show", "--json").out)["head"] == before


def test_compact_and_evicted_list_the_removed_keys(long, ask):
    answer = ask("compact", "--summary", "gist.txt", "--keep", "2")
    assert answer.code == 0
    assert "decision:topic 5" in answer.out
    listed = ask("evicted", "--everywhere").out
    assert "decision:topic 0 — choice 0 — it is so" in listed
    assert "fact:n 5 — 5" in listed
    assert re.search(r"^left the view last: 6 decisions, .* messages? and calls?$", listed, re.M)


def test_undo_names_the_compaction_and_fails_without_one(long, ask):
    ask("compact", "--summary", "gist.txt")
    answer = ask("compact", "--undo")
    assert answer.code == 0
    assert "undid the compaction @" in answer.out
    assert "nothing left an agent's view" in ask("evicted").err
    assert ask("compact", "--undo").code == 3


def test_compact_exits_with_1_if_the_result_does_not_fit(long, ask):
    answer = ask("compact", "--max-tokens", "10", "--summary", "gist.txt")
    assert answer.code == 1
    assert "still too many" in answer.out


def test_compact_of_a_driven_session_is_busy(tmp_path, world, long, ask):
    import stator

    with stator.connect(str(long), project="shop").open("long"):
        assert ask("compact", "--summary", "gist.txt").code == 4


def test_recall_shows_the_content_and_where_it_came_from(long, ask):
    ask("compact", "--summary", "gist.txt")
    answer = ask("recall", "decision:topic 1")
    assert answer.code == 0
    assert "what: choice 1" in answer.out
    assert "from model, unverified" in answer.out
    found = json.loads(ask("recall", "fact:n 1", "--json").out)
    assert found["schema"] == "stator.recalled/1"
    assert (found["content"]["value"], found["status"]) == (1, "recallable")


def test_recall_of_an_unknown_key_suggests_similar_ones(long, ask):
    answer = ask("recall", "decision:topc 1")
    assert answer.code == 3
    assert "decision:topic 1" in answer.err


def test_recall_of_erased_content_says_so_and_exits_with_1(long, world, ask):
    with world.open(long) as opened:
        opened.contribute("long").erase("@3")
    answer = ask("recall", "entry:@3")
    assert answer.code == 1
    assert "erased" in answer.out


def test_compact_as_json_has_every_key(long, ask):
    found = json.loads(ask("compact", "--summary", "gist.txt", "--json").out)
    assert found["schema"] == "stator.compaction/1"
    assert found["levels"] == ["summarise"]
    assert {"key", "rank", "seq", "window"} == found["evicted"][0].keys()
    items = [json.loads(line) for line in ask("evicted", "long", "--json").lines]
    assert {item["key"] for item in items} == {record["key"] for record in found["evicted"]}


@pytest.mark.parametrize(
    "words",
    [
        ["--undo", "--dry-run"],
        ["--undo", "--keep", "2"],
        ["--summary", "nowhere.txt"],
        ["--strategy", "drop"],
        ["--keep", "0"],
        ["--max-tokens", "1.5"],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(long, ask, words):
    assert ask("compact", *words).code == 2


def test_log_shows_a_compaction_on_one_line(long, ask):
    ask("compact", "--summary", "gist.txt")
    assert "tokens · left the view: " in ask("log", "--kind", "compaction").out


def test_what_is_named_together_is_counted_one_by_one(long, ask, monkeypatch):
    monkeypatch.setattr("stator.model.window.compaction.KEYS_MAX", 1)
    said = json.loads(ask("compact", "--summary", "gist.txt", "--json").out)["left"]
    assert any(key["key"].startswith("entries:") for key in stretches(ask))
    words = next(line for line in ask("evicted", "long").lines if line.startswith("left the view"))
    numbers = [int(word) for word in re.findall(r"\d+", words)]
    assert sum(numbers) == sum(said.values())


def stretches(ask):
    return [json.loads(line) for line in ask("evicted", "long", "--json").lines]


def test_the_session_that_lost_most_comes_first(long, world, ask):
    ask("compact", "--summary", "gist.txt")
    with world.open(long) as opened, opened.open("short") as s:
        for number in range(6):
            with s.turn(f"go {number}") as t:
                t.say("done " + "word " * 40)
        s.compact(summary="little")
    lines = ask("evicted", "--everywhere").lines
    rows = [line.split()[0] for line in lines if line.startswith(("long", "short"))]
    assert rows == ["long", "short"]


DEEP = "/home/ann/work/shop/packages/checkout/src/modules/payments/interactive"


@pytest.fixture
def deep(opened, monkeypatch):
    """A session of two compactions with long paths, and more messages than are named one by one."""
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    with opened.open("deep") as s:
        for number in range(3):
            with s.turn(f"early {number}") as t:
                t.say("early " * 60)
        s.compact(keep=1, summary="early")
        for number in range(6):
            with s.turn(f"prompt {number}") as t:
                t.file(f"{DEEP}/mode-{number}.ts", "modified")
                for _ in range(230 if number == 0 else 2):
                    t.say("word " * 40)
        s.compact(keep=1, summary="late")
    return s.id


def test_a_key_that_does_not_fit_is_whole_on_its_own_line(deep, ask, monkeypatch):
    for width in ("50", "80", "100"):
        monkeypatch.setenv("COLUMNS", width)
        lines = ask("evicted", "deep").lines
        assert any(line.strip() == f"file://{DEEP}/mode-0.ts" for line in lines), width


def test_the_command_for_what_is_not_listed_lists_everything(deep, ask):
    first = ask("evicted", "deep").out
    (more,) = re.findall(r"not listed: .*: stator (evicted .*)$", first, flags=re.M)
    assert "not listed" not in ask(*more.split()).out


def test_a_row_for_many_messages_counts_them(opened, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    with opened.open("talk") as s:
        with s.turn("go") as t:
            for _ in range(230):
                t.say("word " * 40)
        for _ in range(2):
            with s.turn("more") as t:
                t.say("ok")
        s.compact(keep=1, summary="talk")
    (many,) = re.findall(r", (\d+) messages and calls$", ask("evicted", "talk").out, re.M)
    rows = ask("evicted", "talk", "-n", "400").lines
    said = [row for row in rows if row.startswith("  said ")]
    (held,) = [row.split(" — ")[1].split()[0] for row in rows if row.startswith("  entries ")]
    assert len(said) + int(held) == int(many)


def test_the_last_of_several_compactions_is_said_to_be_that(deep, ask):
    shown = ask("evicted", "deep").out
    assert "left the view at the last compaction: " in shown
    assert re.search(r"earlier compactions: stator evicted s_\w{8} --all$", shown, re.M)


def test_a_key_is_recalled_by_its_end_its_file_name_or_its_position(deep, ask):
    key = f"file://{DEEP}/mode-2.ts"
    (item,) = [
        json.loads(line) for line in ask("evicted", "deep", "--json").lines if "mode-2.ts" in line
    ]
    for typed in ("mode-2.ts", "interactive/mode-2.ts", "2.ts", f"@{item['seq']}"):
        assert json.loads(ask("recall", typed, "-s", "deep", "--json").out)["key"] == key
    assert ask("recall", "ts", "-s", "deep").code == 3  # too short to be meant


def test_an_end_of_several_keys_names_them(deep, ask):
    answer = ask("recall", ".ts", "-s", "deep")
    assert answer.code != 0
    assert f"file://{DEEP}/mode-0.ts" in answer.err
