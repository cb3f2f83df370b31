"""`stator log` as a person reads it: one line a call, one line a turn, edits as patches, a graph."""

from __future__ import annotations

import json
import re

import pytest

import stator
from stator.runtime.driving import approvals
from stator.surfaces.cli.render.lines import cells
from stator.surfaces.cli.render.turns.subject import lines_changed, middle, subject_of
from surfaces.recorded import START, normal, record

HOUR = 3_600_000_000
DAY = 24 * HOUR


def test_a_call_is_one_line_with_its_request_its_outcome_and_its_duration(store, ask):
    rows = [line for line in ask("log").lines if "read_file" in line]
    assert len(rows) == 1
    assert re.fullmatch(r"    read_file +auth\.py +ok +1\.0 s +@4", rows[0])


def test_a_call_that_did_not_end_ok_says_why_on_its_line(store, ask):
    (row,) = [line for line in ask("log").lines if "run_tests" in line]
    assert re.search(r"pytest -q — RuntimeError: 2 failed, 11 passed +error", row)


def test_bookkeeping_is_hidden_and_counted(store, ask):
    shown = ask("log").out
    assert "turn_end" not in shown
    assert "pid 42" not in shown
    assert shown.endswith("not shown: 7 bookkeeping commits (--full)\n")


def test_the_full_log_shows_every_commit(store, ask):
    seqs = {int(seq) for seq in re.findall(r"@(\d+) +\d\d:\d\d:\d\d", ask("log", "--full").out)}
    assert seqs == set(range(1, 33))


def test_the_newest_lines_are_shown_and_what_is_left_out_is_said(store, ask):
    shown = ask("log", "-n", "3").out
    assert "cookies.py" in shown
    assert "signed cookies" not in shown
    assert re.search(r"… earlier lines: stator log s_\w{8} t3\n", shown)


def test_one_line_a_turn_has_a_header(store, ask):
    rows = ask("log", "--oneline").lines[2:]
    assert rows[0].split()[0] == "TURN"
    assert [row.split()[0] for row in rows[1:]] == ["t3", "t2", "t1"]


@pytest.mark.parametrize("width", [80, 100, 140])
def test_half_of_a_list_of_turns_is_what_was_asked(opened, ask, monkeypatch, width):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    monkeypatch.setenv("COLUMNS", str(width))
    name = "a long name of a session that repeats the words of its first prompt"
    with opened.open(name, agent="demo-agent") as s:
        for n in range(3):
            with s.turn(f"turn {n} asks for " + "many words " * 30) as t:
                t.say("ok", usage={"tokens": 123_456, "cost_micros": 1_000_000})
                t.file(f"a{n}.py", "modified")
    head, _, titles, *rows = ask("log", name, "--oneline").lines
    assert "3 turns, " in head
    at = titles.index("ASKED")
    assert all(len(row) - at >= width // 2 for row in rows)
    assert "WHEN" in titles


def test_unknown_tokens_are_a_dash_and_never_0(store, ask):
    rows = {row.split()[0]: row for row in ask("log", "--oneline").lines[2:]}
    assert "–" in rows["t3"]
    assert "1.2 k" in rows["t1"]


def test_tokens_read_from_a_cache_are_counted_apart(opened, ask, monkeypatch):
    with opened.open("cached") as s, s.turn("go") as t:
        t.say("ok", usage={"tokens": 90_500, "tokens:cache_read": 90_000, "tokens:out": 500})
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    assert "500 tokens (+ 90 k cached)" in ask("log").out


def test_a_background_task_is_told_by_its_summary_and_is_no_agent(opened, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    note = (
        "<task-notification>\n<task-id>b7</task-id>\n<output-file>/tmp/b7.output</output-file>\n"
        '<summary>Background command "Run tests" completed (exit code 0)</summary>\n</task-notification>\n'
    )
    with opened.open("tasks") as s, s.turn("go") as t:
        t.say(note, actor="agent")
        t.say("<task-notification>" * 3, actor="agent")
    rows = ask("log").lines
    assert any(
        re.search(r'^    task +Background command "Run tests" completed', row) for row in rows
    )
    assert not any("/tmp/b7" in row for row in rows)


def test_a_turn_that_waited_for_approval_says_so_in_one_line(opened, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    send = stator.tool(lambda what: "sent", effect="write", name="send", approve=True)

    def work() -> None:
        with opened.open("asks") as s, s.turn("send it") as t:
            t.call(send, what="mail")
            t.say("Sent.")

    with pytest.raises(stator.ApprovalNeeded):
        work()
    waiting = ask("log", "asks").out
    assert "interrupted" in waiting
    (call,) = approvals.waiting(opened.port, now=opened.context.clock(), context=opened.context)
    approvals.approve(opened.port, opened.context, call.call, by="local:ann")
    work()
    shown = ask("log", "asks").out
    assert "waited for approval; approved by local:ann" in shown
    assert "interrupted" not in shown
    assert shown.count("approval ") == 1


def test_a_turn_that_crosses_midnight_names_both_days(opened, world, ask, monkeypatch):
    with opened.open("long") as s, s.turn("go") as t:
        t.say("before")
        monkeypatch.setattr(world, "ticks", iter(range(90_000, 91_000)))
        t.say("after")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    shown = ask("log").out
    assert re.search(r"15 Nov 00:00 – 16 Nov 01:00", shown)
    assert "    ── 16 Nov\n" in shown


def test_what_is_marked_later_is_none_of_the_time_a_turn_took(opened, world, ask, monkeypatch):
    with opened.open("long") as s, s.turn("go") as t:
        t.say("done")
    monkeypatch.setattr(world, "ticks", iter(range(900_000, 901_000)))
    opened.contribute("long").tag("release")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    assert "days" not in ask("log", "--oneline").lines[-1]
    assert "15 Nov 00:00" in ask("log").lines[2]


def test_each_commit_of_a_full_log_is_under_its_own_day(opened, world, ask, monkeypatch):
    with opened.open("long") as s, s.turn("go") as t:
        t.say("before")
        monkeypatch.setattr(world, "ticks", iter(range(90_000, 91_000)))
        t.say("after")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    shown = ask("log", "--full", "t1").out
    assert shown.index("before") < shown.index("2026-11-16") < shown.index("after")


@pytest.fixture
def edited(tmp_path, world, monkeypatch):
    """A session with one recorded edit of a file."""
    path = tmp_path / "edited.db"
    file = tmp_path / "work" / "cart.py"
    file.write_text("def total(lines):\n    return sum(lines)\n")

    @stator.tool(effect="write", files="path")
    def edit(path, text):
        file.write_text(text)

    with world.open(path) as opened, opened.open("cart") as s:
        s.track(contents=True)
        with s.turn("add a discount") as t:
            t.call(
                edit, path="cart.py", text="def total(lines):\n    return sum(lines) * 9 // 10\n"
            )
    monkeypatch.setenv("STATOR_STORE", str(path))


def test_edits_are_shown_as_patches(edited, ask):
    shown = ask("log", "-p").out
    assert "-    return sum(lines)" in shown
    assert "+    return sum(lines) * 9 // 10" in shown
    assert "+    return" not in ask("log").out


def test_the_graph_shows_forks_and_retries_at_their_turns(tmp_path, world, ask, monkeypatch):
    path = tmp_path / "graph.db"
    with world.open(path) as opened:
        record(opened)
        opened.fork("fix-login", "t1", as_name="other-way")
        opened.fork("other-way", "t1", as_name="third-way")
    monkeypatch.setenv("STATOR_STORE", str(path))
    rows = ask("log", "fix-login", "--graph").lines[2:]
    assert rows[2].startswith("* t1  fix the login bug")
    assert "other-way · fork" in rows[3]
    assert "third-way · fork" in rows[4]
    assert "fork of fix-login at t1" in ask("log", "other-way", "--graph").out


def test_json_stays_one_commit_a_line(store, ask):
    found = [json.loads(line) for line in ask("log", "--json").lines]
    assert [commit["seq"] for commit in found] == list(range(32, 0, -1))


def test_a_path_is_cut_in_the_middle():
    path = "lib/spotter_web/live/session_live.ex"
    assert middle(path, 30) == "lib/spotter_w…/session_live.ex"
    assert middle(path, 60) == path
    for room in range(1, 40):
        assert cells(middle(path, room)) <= room
        assert cells(middle("名前/" * 20, room)) <= room


def test_a_path_below_the_folder_of_the_work_is_relative():
    given = {"file_path": "/home/dev/shop/src/cart.py", "limit": 60}
    assert subject_of(given, "/home/dev/shop").words == "src/cart.py"
    command = {"command": "cd /home/dev/shop && pytest /home/dev/shop/tests"}
    assert subject_of(command, "/home/dev/shop").words == "pytest tests"


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("a\nb\nc", "a\nx\nc", (1, 1)),
        ("a", "a\nb\nc", (2, 0)),
        ("a\nb\nc", "", (0, 3)),
        ("a\nb\nc\nd", "b\nd", (0, 2)),
    ],
)
def test_lines_changed_by_an_edit_are_counted(old, new, counts):
    assert lines_changed({"file_path": "x", "old_string": old, "new_string": new}) == counts


def test_what_replaces_every_place_has_no_count():
    given = {"old_string": "a", "new_string": "b", "replace_all": True}
    assert lines_changed(given) is None


def test_log_shows_control_sequences_as_escapes(opened, ask, monkeypatch):
    with opened.open("bad") as s, s.turn("\x1b[2Jgo [bold]now[/bold]") as t:
        t.try_call(lambda command: None, command="\x1b]0;title\x07[red]rm[/red]")
        t.say("\x1b[31mred\x1b[0m")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    for words in (["log"], ["log", "--oneline"], ["log", "--graph"], ["log", "-p"]):
        shown = ask(*words).out
        assert "\x1b" not in shown
        assert "[bold]now[/bold]" in shown


def test_log_of_a_store_without_times_shows_no_times(store, ask):
    assert str(START) not in normal(ask("log").out)


# -- repairs --------------------------------------------------------------------------------------


@stator.tool(effect="write")
def bash(command):
    if "upstream" in command or command == "ls b":
        return "done"
    raise RuntimeError("no upstream branch")


def test_a_call_that_repaired_a_failure_names_it(opened, ask, monkeypatch):
    with opened.open("push") as s, s.turn("push it") as t:
        t.try_call(bash, command="git push")
        t.try_call(bash, command="git push origin")
        t.try_call(bash, command="cd /x && git push --set-upstream origin main")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    monkeypatch.setenv("COLUMNS", "120")
    first, second, _ = (c.seq for c in s.log() if c.kind == "call")
    lines = ask("log").lines
    (line,) = [line for line in lines if "repairs @" in line]
    assert f"repairs @{first}, @{second}" in line
    assert "--set-upstream" in line
    assert any("2 of 3 calls not ok, 2 repaired" in line for line in lines)


def test_a_list_of_failed_calls_says_why_and_which_call_repaired_each(opened, ask, monkeypatch):
    with opened.open("push") as s, s.turn("push it") as t:
        t.try_call(bash, command="git push")
        t.try_call(bash, command="git push --set-upstream origin main")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    _, good = (c.seq for c in s.log() if c.kind == "call")
    told = ask("calls", "--failed").out
    assert f"RuntimeError: no upstream branch · repaired by @{good}" in told


def test_a_program_that_only_looks_repairs_nothing(opened, ask, monkeypatch):
    with opened.open("look") as s, s.turn("look") as t:
        t.try_call(bash, command="ls a")
        t.try_call(bash, command="ls b")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    assert "repairs" not in ask("log").out


def test_a_decision_with_a_long_topic_shows_what_was_chosen(tmp_path, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "asked.db"))
    topic = (
        "The hook of the repository blocks on issues that were there before. How should we go on?"
    )
    with stator.open("asks") as s, s.turn("commit it") as t:
        t.decide("fix the issues", topic=topic)
    (row,) = [line for line in ask("log").lines if "decided" in line]
    assert "The hook of the repository" in row
    assert ": fix the issues" in row


def test_a_message_that_is_kept_beside_the_log_shows_its_words(tmp_path, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "long.db"))
    with stator.open("long") as s, s.turn("explain it") as t:
        t.say("It rounds too early. " + "Here is why. " * 5_000)
    (row,) = [line for line in ask("log").lines if " said " in line]
    assert "It rounds too early." in row
    assert "KB" not in row


def test_a_message_of_a_program_is_shown_without_its_marks(tmp_path, ask, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "marks.db"))
    with stator.open("marks") as s, s.turn("wait") as t:
        t.say("<note>\n<id>b76</id>\n<state>completed</state>\n</note>", actor="agent")
        t.say("Kept the model as \x1b[1mDefault\x1b[22m", actor="agent")
    first, second = [line for line in ask("log").lines if line.startswith("    agent")]
    assert first.split()[1:3] == ["b76", "completed"]
    assert "Kept the model as Default" in second


def test_turns_beyond_the_number_that_was_asked_for_are_said(store, ask):
    assert ask("log", "--oneline", "-n", "2").lines[-1] == "… more turns than these 2: -n 4"
    assert not ask("log", "--oneline", "-n", "3").lines[-1].startswith("…")
    assert ask("log", "-n", "2").lines[-1].startswith("… more turns than this one")
