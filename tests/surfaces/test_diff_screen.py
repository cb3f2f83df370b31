"""What `stator diff` puts first, what it counts, and what it lists."""

from __future__ import annotations

from pathlib import Path

import pytest

import stator
from stator.surfaces.cli.commands.diff import CALLS_COUNTED
from stator.surfaces.cli.render.differences.calls_made import LISTED, TOOLS_NAMED


@stator.tool(files="path")
def write(path, text):
    Path(path).write_text(text)


@stator.tool(effect="read")
def look(path):
    return Path(path).read_text()


@stator.tool
def bash(command):
    if command.startswith("fail"):
        raise RuntimeError(command)


def run(turn, command):
    turn.try_call(bash, command=command)


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session that keeps what files contain."""
    path = tmp_path / "diff.db"
    monkeypatch.setenv("STATOR_STORE", str(path))
    with stator.connect(path) as store, store.open("work") as s:
        s.track(contents=True)
        yield s


def title(answer, word):
    """The line that begins a section."""
    return next(line for line in answer.lines if line.startswith(word))


def test_decisions_come_first_then_files_then_the_plan(session, ask):
    with session.turn("one") as t:
        t.configure(model="m-1")
        t.plan(["step"])
        t.call(write, path="a.py", text="one\n")
        t.decide("use sqlite", topic="store")
    lines = ask("diff").lines
    places = [lines.index(title(ask("diff"), word)) for word in ("decisions", "files", "plan")]
    assert places == sorted(places)
    assert places[-1] < lines.index("settings") < lines.index(title(ask("diff"), "calls"))


def test_a_file_shows_how_many_lines_it_gained_and_lost_in_the_end(session, ask):
    with session.turn("one") as t:
        t.call(write, path="a.py", text="one\ntwo\n")
    with session.turn("two") as t:
        t.call(write, path="a.py", text="one\n2\n3\n")
        t.call(write, path="b.py", text="x\n")
    answer = ask("diff", "t2")
    assert title(answer, "files") == "files  2 files · +3 −1"
    assert any(line.split()[:5] == ["~", "a.py", "modified", "+2", "−1"] for line in answer.lines)
    assert any(line.split()[:5] == ["+", "b.py", "created", "+1", "−0"] for line in answer.lines)


def test_a_file_that_was_read_after_it_was_changed_is_shown_as_modified(session, ask):
    with session.turn("one") as t:
        t.call(write, path="a.py", text="one\n")
    with session.turn("two", key="two") as t:
        t.call(write, path="a.py", text="two\n")
    with session.retry("t2") as t:
        t.file("a.py", "read")
    shown = title(ask("diff", "work:t2", "work:t2.2"), "  ~ a.py").split()
    assert shown[:5] == ["~", "a.py", "modified", "+1", "−1"]


def test_calls_that_ended_ok_are_counted_by_tool(session, ask):
    with session.turn("one") as t:
        for n in range(3):
            run(t, f"make {n}")
        t.call(write, path="a.py", text="")
    assert title(ask("diff"), "calls") == "calls  4 ok: bash ×3, write"


def test_tools_beyond_the_most_used_are_counted_together(session, ask):
    with session.turn("one") as t:
        for n in range(TOOLS_NAMED + 2):
            t.call(stator.tool(lambda: None, name=f"tool{n}"))
    assert title(ask("diff"), "calls").endswith(" and 2 more tools")


def test_a_failure_that_a_later_call_repaired_is_counted_and_one_that_was_not_is_listed(
    session, ask
):
    with session.turn("one") as t:
        t.call(write, path="a.py", text="")
        run(t, "fail to build")
        t.try_call(write, path="missing/b.py", text="")
        Path("missing").mkdir()
        t.call(write, path="missing/b.py", text="")
    answer = ask("diff")
    assert title(answer, "calls") == "calls  2 ok: write ×2 · 2 not ok, 1 repaired by a later call"
    listed = [line for line in answer.lines if line.startswith("    error")]
    assert len(listed) == 1
    assert "fail to build" in listed[0]


def test_the_command_that_lists_failures_is_named_where_not_all_are_shown_and_it_works(
    session, ask
):
    with session.turn("one") as t:
        for n in range(LISTED + 3):
            run(t, f"fail {n}")
    answer = ask("diff")
    assert sum(line.startswith("    error") for line in answer.lines) == LISTED
    command = next(line for line in answer.lines if "all that did not end ok" in line)
    words = command.partition("stator ")[2].split()
    assert ask(*words, "-n", "99").out.count("RuntimeError") == LISTED + 3


def test_a_call_in_doubt_is_never_repaired_and_names_the_command_that_settles_it(session, ask):
    @stator.tool
    def pay(amount):
        raise stator.InDoubt("no answer")

    with session.turn("one") as t:
        t.try_call(pay, amount=5)
    [line] = [line for line in ask("diff").lines if line.startswith("    in doubt")]
    assert "stator settle c_" in line


def test_lines_are_not_counted_in_a_long_range_and_that_is_said(session, ask):
    with session.turn("one") as t:
        t.call(write, path="a.py", text="one\n")
        for n in range(CALLS_COUNTED):
            run(t, f"make {n}")
    answer = ask("diff")
    assert not any("+1" in line for line in answer.lines)
    assert f"lines of files are counted up to {CALLS_COUNTED} calls" in answer.out


def test_a_turn_without_a_change_names_the_wider_comparison(session, ask):
    with session.turn("one") as t:
        t.call(write, path="a.py", text="one\n")
    with session.turn("two"):
        pass
    answer = ask("diff", "t2")
    assert "no change" in answer.lines
    wider = answer.lines[-1].partition("stator ")[2].split()
    assert "a.py" in ask(*wider).out


def test_what_left_the_view_is_counted_and_names_the_command_that_lists_it(session, ask):
    for n in range(4):
        with session.turn(f"part {n}") as t:
            t.say("a long answer " * 100)
    session.compact(keep=1, summary="short")
    line = title(ask("diff", "t2..head"), "left the agent's view: ")
    assert ask(*line.partition("stator ")[2].split()).code == 0
