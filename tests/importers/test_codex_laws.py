"""Tests the law of reading on Codex's rollouts: real ones, and generated ones of three versions."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from importers.codex_writer import STYLES, Rollout, rollouts, write_cost
from importers.import_helpers import DATA, RECORDINGS
from importers.reading_laws import line_ends, read, read_in_parts, recorded
from stator.importers.registry import load
from stator.model.exchange.items import Answered, Called, Cursor, Noted, Prompted, Returned
from stator.model.values.json_text import canonical

NAME = "rollout-2026-10-01T09-00-00-x.jsonl"
FILES = [
    *sorted((DATA / "codex").glob("rollout-*.jsonl")),
    DATA / "codex" / "exec-json.stdout.jsonl",
    *sorted(RECORDINGS.glob("codex/*/*.jsonl")),
    *sorted(RECORDINGS.glob("generated/codex-*/rollout-*.jsonl")),
]
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


def whole_of(data, path, name="codex"):
    path.write_bytes(data)
    return read(path, name)[0]


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.name[:40])
@settings(max_examples=6, deadline=None)
@given(st.lists(st.floats(0, 1), max_size=6))
def test_a_real_rollout_gives_the_same_items_however_it_grows(source, shares):
    data = source.read_bytes()
    first = line_ends(data)[0]
    places = [first + int((len(data) - first) * share) for share in shares]
    with TemporaryDirectory() as folder:
        path = Path(folder) / source.name
        whole = whole_of(data, path)
        assert read_in_parts(data, places, path, "codex")[0] == whole


@SLOW
@given(rollouts(), st.data())
def test_the_items_of_a_part_are_the_first_items_of_the_whole(out, data):
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        whole = whole_of(out.data, path)
        ends = line_ends(out.data)
        place = data.draw(st.sampled_from(ends) | st.integers(ends[0], ends[-1]))
        path.write_bytes(out.data[:place])
        part, cursor = read(path, "codex")
        assert part == whole[: len(part)]
        assert len(canonical(cursor.state)) < 4_000
        path.write_bytes(out.data)
        assert part + read(path, "codex", cursor)[0] == whole


@SLOW
@given(rollouts(), st.data())
def test_reading_after_each_of_many_lines_gives_the_whole(out, data):
    ends = line_ends(out.data)
    places = data.draw(st.lists(st.sampled_from(ends), max_size=8))
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        whole = whole_of(out.data, path)
        assert read_in_parts(out.data, places, path, "codex")[0] == whole


@SLOW
@given(rollouts(), st.data())
def test_what_is_given_at_rest_and_then_continued_is_the_whole(out, data):
    ends = line_ends(out.data)
    places = [ends[number - 1] for number in out.rests[:-1]]
    chosen = data.draw(st.sets(st.sampled_from(places))) if places else set()
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(out.data)
        whole = recorded(read(path, "codex", at_rest=True)[0])
        everywhere = frozenset(range(len(chosen) + 1))
        parts, _ = read_in_parts(out.data, chosen, path, "codex", everywhere)
        assert recorded(parts) == whole


@SLOW
@given(rollouts())
def test_a_cursor_before_each_prompt_continues_there(out):
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(out.data)
        (found,) = load("codex").conversations(path)
        told = list(load("codex").read(found, None, None, at_rest=False))
        for place, item in enumerate(told):
            if isinstance(item, Cursor):
                later = [one for one in told[place:] if not isinstance(one, Cursor)]
                assert read(path, "codex", item)[0] == later


# -- what closes an answer --------------------------------------------------------------------------


def answering(style=STYLES[2]):
    """A rollout that ends within an answer."""
    out = Rollout(style)
    out.add("session_meta", id="0199dddd", cwd="/home/dev/garden")
    out.message("user", "go")
    out.say("reasoning", summary=[])
    return out


def answers(out, path, *, at_rest=False):
    path.write_bytes(out.data)
    told, _ = read(path, "codex", at_rest=at_rest)
    return [item for item in told if isinstance(item, Answered)]


def test_an_answer_is_held_back_while_nothing_follows_it(path):
    assert answers(answering(), path) == []
    assert len(answers(answering(), path, at_rest=True)) == 1


CLOSERS = {
    "its cost": write_cost,
    "a result": lambda out: out.say("function_call_output", call_id="c", output=""),
    "a prompt": lambda out: out.message("user", "more"),
    "a note": lambda out: out.message("developer", "more"),
    "a message of another agent": lambda out: out.say("agent_message", content=[]),
    "the end of the turn": lambda out: out.notice("task_complete"),
    "an abort": lambda out: out.notice("turn_aborted"),
    "the next turn": lambda out: out.notice("task_started", turn_id="t2"),
    "a compaction": lambda out: out.add("compacted", message="so far"),
}


@pytest.mark.parametrize("closer", CLOSERS)
def test_an_answer_is_given_when_something_follows_that_cannot_precede_its_end(path, closer):
    out = answering()
    CLOSERS[closer](out)
    assert len(answers(out, path)) == 1


OPEN = {
    "a notice": lambda out: out.notice("agent_reasoning", text="x"),
    "a result of a call that ran meanwhile": lambda out: out.notice(
        "item_completed", item={"type": "CommandExecution", "id": "c", "exit_code": 0}
    ),
    "a total that is known": lambda out: out.notice("token_count", info=None),
}


@pytest.mark.parametrize("line", OPEN)
def test_an_answer_stays_open_after_what_can_come_within_it(path, line):
    out = answering()
    OPEN[line](out)
    assert answers(out, path) == []


def test_an_answer_that_continues_after_a_rest_gets_the_rest_as_another_answer(path):
    out = answering()
    first, cursor = begun_at_rest(out, path)
    out.message("assistant", "Done.")
    write_cost(out)
    path.write_bytes(out.data)
    more, _ = read(path, "codex", cursor)
    (answer,) = [item for item in more if isinstance(item, Answered)]
    (begun,) = [item for item in first if isinstance(item, Answered)]
    assert answer.id == f"{begun.id}+1"
    assert answer.usage["tokens"] == 13


def begun_at_rest(out, path):
    path.write_bytes(out.data)
    return read(path, "codex", at_rest=True)


def test_notes_before_a_prompt_wait_for_it_even_at_rest(path):
    out = Rollout(STYLES[2])
    out.add("session_meta", id="0199dddd", cwd="/home/dev/garden")
    out.notice("task_started", turn_id="t1")
    out.message("developer", "mind the roses")
    first, cursor = begun_at_rest(out, path)
    assert not [item for item in first if isinstance(item, Noted)]
    out.message("user", "go")
    path.write_bytes(out.data)
    more, _ = read(path, "codex", cursor)
    assert [type(item) for item in recorded(more)] == [Prompted, Noted]


def test_a_result_that_only_a_notice_has_waits_while_a_call_beside_it_runs(path):
    out = answering()
    for name in ("a", "b"):
        out.say("function_call", call_id=name, name="exec_command", arguments="{}")
    write_cost(out)
    done = {"type": "CommandExecution", "id": "a", "exit_code": 0, "aggregated_output": ""}
    out.notice("item_completed", item=done)
    first, cursor = begun_at_rest(out, path)
    assert not [item for item in first if isinstance(item, Returned)]
    out.notice("item_completed", item={**done, "id": "b"})
    path.write_bytes(out.data)
    more, _ = read(path, "codex", cursor, at_rest=True)
    assert [item.id for item in more if isinstance(item, Returned)] == ["a", "b"]


# -- size and time ----------------------------------------------------------------------------------


def long_turn(megabytes):
    """One turn of many steps."""
    out = answering()
    while len(out.lines) * 2_600 < megabytes * 2**20:
        name = out.name("call")
        out.say("function_call", call_id=name, name="exec_command", arguments='{"cmd": "ls"}')
        write_cost(out)
        words = f"Process exited with code 0\nOutput:\n{'word ' * 2_000}"
        out.say("function_call_output", call_id=name, output=words)
    return out


def test_ten_more_lines_of_a_long_turn_are_read_without_the_lines_before(path):
    out = long_turn(3)
    data, ends = out.data, line_ends(out.data)
    assert len(data) > 3 * 2**20
    path.write_bytes(data[: ends[-11]])
    _, cursor = read(path, "codex")
    path.write_bytes(data)
    assert len(data) - cursor.offset < 64 * 1024
    more, _ = read(path, "codex", cursor)
    assert [item for item in more if isinstance(item, Called)]


def test_a_call_that_never_returns_does_not_make_reading_slow(path):
    out = answering()
    out.say("function_call", call_id="lost", name="exec_command", arguments='{"cmd": "ls"}')
    write_cost(out)
    for _ in range(900):
        out.notice("agent_reasoning", text="x")
    path.write_bytes(out.data)
    _, cursor = read(path, "codex")
    assert len(out.lines) - cursor.line < 500
