"""Output of log, diff, why, show, files, decisions, calls, state and ls for a small recorded session."""

from __future__ import annotations

import re

import stator
from surfaces.recorded import normal


def test_log_shows_a_session_turn_by_turn(store, ask):
    answer = ask("log")
    assert answer.code == 0
    assert (
        normal(answer.out)
        == """\
fix-login s_… · demo-agent · paused · 3 turns, 32 commits · <when>

t3  finish, and pay the invoice                                               15 Nov 00:00
    pay      amount=5 — the tool does not know: connection lost      in doubt       –  @24
    decided  auth: use signed cookies — works without a store                          @26
    file     deleted session.py                                                        @27
    file     created cookies.py                                                        @28
    fact     test command = pytest -q tests                                            @29
    ── changed 2 files · 1 of 1 call not ok

t2  run the tests                                                             15 Nov 00:00
    run_tests  pytest -q — RuntimeError: 2 failed, 11 passed            error   1.0 s  @15
    decided    auth: use server sessions — JWT cannot be revoked                       @17
    file       created session.py                                                      @18
    dead end   JWT with a blocklist — needs the store anyway                           @19
    pending    rotate the keys (waits for ops)                                         @20
    said       Two tests fail. ⏎ Switching to sessions.                                @21
    ── changed 1 file · 1 of 1 call not ok

t1  fix the login bug                                           15 Nov 00:00  1.2 k tokens
    read_file  auth.py                                                     ok   1.0 s  @4
    decided    auth: use JWT — no shared session store (over server sessions)          @6
    plan       write the fix: pending, run the tests: pending                          @7
    edit_file  auth.py  → {bytes: 25}                                      ok   1.0 s  @8
    file       modified auth.py — verify the token before use                          @10
    fact       test command = pytest -q                                                @11
    said       The login now verifies the token.                                       @12
    ── changed 1 file

not shown: 7 bookkeeping commits (--full)
"""
    )


def test_log_in_reverse_is_the_order_of_writing(store, ask):
    seqs = re.findall(r"@(\d+)$", ask("log", "--reverse").out, re.M)
    assert seqs == sorted(seqs, key=int)
    assert (seqs[0], seqs[-1]) == ("4", "29")


def test_log_of_a_turn_shows_that_turn_only(store, ask):
    answer = ask("log", "t2")
    assert "run the tests" in answer.out
    assert "fix the login bug" not in answer.out
    assert "finish, and pay" not in answer.out


def test_log_shows_the_newest_matching_commits(store, ask):
    answer = ask("log", "--kind", "decision", "-n", "2")
    rows = [line for line in answer.lines if line.startswith("@")]
    assert [row.split()[0] for row in rows] == ["@26", "@17"]


def test_log_in_full_shows_what_was_recorded(store, ask):
    answer = ask("log", "@5", "--full")
    assert "    return check(user)" in answer.out
    assert "output:" in answer.out


def test_no_line_of_log_is_wider_than_the_screen(store, ask, monkeypatch):
    for width in (20, 40, 80, 132):
        monkeypatch.setenv("COLUMNS", str(width))
        assert max(map(len, ask("log").lines)) <= width


def test_diff_without_arguments_shows_the_last_turn(store, ask):
    answer = ask("diff")
    assert answer.code == 0
    assert (
        normal(answer.out)
        == """\
fix-login s_… · t2 → t3 · demo-agent · paused · 3 turns, 32 commits · <when>

decisions
  ≈ auth: use server sessions superseded by use signed cookies — because works without a
      store  @26
files  2 files
  - session.py  deleted  @27
  + cookies.py  created  @28
pending
  + settle c_… — pay: the tool does not know  @25
facts
  ~ test command: pytest -q → pytest -q tests  @29
calls  1 not ok
    in doubt  pay(amount=5) — the tool does not know  @24  stator settle c_…
the lines: stator diff s_… t2..t3 -p
"""
    )


def test_diff_over_turns_folds_a_chain_of_decisions_into_one_line(store, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    answer = ask("diff", "t1..t3")
    assert (
        "  ≈ auth: use JWT superseded by use signed cookies via use server sessions"
        " — because works without a store  @26"
    ) in answer.lines
    assert "session.py" not in answer.out
    assert "(1 added and removed again)" in answer.out


def test_diff_hides_bookkeeping_unless_asked(store, ask):
    assert "spend" not in ask("diff", "t1").out
    assert "1,200 tokens" in ask("diff", "t1", "--all").out


def test_why_shows_decisions_calls_and_edits_of_each_turn(store, ask):
    answer = ask("why", "auth.py")
    assert answer.code == 0
    assert (
        normal(answer.out)
        == """\
auth.py · 1 session changed it, 1 edit · looked in 1 session of this project

fix-login t1   15 Nov 2026 00:00   asked: fix the login bug
  decided  auth: use JWT, instead of: server sessions — no shared session store  @6
  called   read_file(auth.py) ok  @4
  called   edit_file(auth.py) ok  @8
  changed  modified by agent: verify the token before use  @10
"""
    )


def test_why_shows_messages_if_no_decision_was_recorded(tmp_path, world, ask):
    opened = world.open(tmp_path / "words.db")
    with opened, opened.open("words") as s, s.turn("make it faster") as t:
        t.file("slow.py", "modified")
        t.say("I cached the result.")
    answer = ask("why", "slow.py", "--store", str(tmp_path / "words.db"))
    assert "asked: make it faster" in answer.out
    assert "“I cached the result.” (the agent's words; no decision recorded)" in answer.out


def test_why_finds_a_file_relative_to_the_current_folder(store, ask, monkeypatch, tmp_path):
    (tmp_path / "work" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "work" / "deep")
    assert "verify the token" in ask("why", "../auth.py").out
    assert "verify the token" in ask("why", "./auth.py").out
    assert "verify the token" in ask("why", str(tmp_path / "work" / "auth.py")).out


def test_show_puts_a_session_on_one_screen(store, ask):
    answer = ask("show")
    assert answer.code == 0
    for text in (
        "fix-login",
        "In doubt: these may or may not have happened",
        "pay in doubt (the tool does not know)",
        "t3  ok          finish, and pay the invoice",
        "auth: use signed cookies — works without a store",
        "rotate the keys (waits for ops)",
    ):
        assert text in answer.out


def test_show_of_a_position_is_that_commit_in_full(store, ask):
    answer = ask("show", "@16")
    assert answer.lines[0] == "@16 outcome run_tests error: RuntimeError: 2 failed, 11 passed"
    assert "message: 2 failed, 11 passed" in answer.out
    assert ask("show", "fix-login:@16").out == answer.out


def test_a_commit_begins_with_what_it_was_and_how_it_ended_and_its_ids_come_last(store, ask):
    out = ask("show", "@15").out
    asked, ended, when = out.splitlines()[:3]
    assert asked.startswith("@15 call run_tests")
    assert ended == "ended error — RuntimeError"
    assert "t2 of fix-login" in when
    assert "message: 2 failed, 11 passed" in out
    first, heading, last = out.partition("\nIds and hashes\n")
    assert heading
    assert "hash" not in first
    assert "input_hash" in last


def test_files_shows_net_changes(store, ask):
    rows = ask("files", "--last", "5").lines[3:]
    assert [row.split()[:2] for row in rows] == [["created", "cookies.py"], ["modified", "auth.py"]]
    assert ask("files", "--last", "1").lines[3].startswith("created  cookies.py")


def test_decisions_in_force_and_superseded(store, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert ask("decisions").lines[2].split()[:3] == ["SESSION", "TURN", "AT"]
    current = ask("decisions").lines[3:]
    assert len(current) == 1
    assert "use signed cookies" in current[0]
    old = ask("decisions", "--superseded").lines[3:]
    assert "use JWT" in old[0]
    assert old[0].startswith("≈ fix-login ")
    assert old[0].endswith("→ superseded by use server sessions")
    assert len(ask("decisions", "--all").lines[3:]) == 3


def test_calls_can_be_filtered_by_status(store, ask):
    assert sum(line.startswith("c_") for line in ask("calls", "last").lines) == 4
    failed = ask("calls", "last", "--failed").lines
    assert [row.split()[4] for row in failed if row.startswith("c_")] == ["in", "error"]
    assert failed[-1].startswith("all about one in doubt: stator settle c_")
    assert "pay(amount=5)" in ask("calls", "--open").out
    assert "run_tests" in ask("calls", "--status", "error", "--project").out
    assert "read_file" in ask("calls", "--tool", "read_file").out


def test_state_at_an_earlier_position(store, ask):
    assert "auth: use JWT" in ask("state", "t1", "-c", "decisions").out
    assert "auth: use signed cookies" in ask("state", "-c", "decisions").out


def test_ls_lists_this_project_and_all(store, ask, world):
    assert "fix-login" in ask("ls").out
    with world.open(store, project="elsewhere") as opened, opened.open("other"):
        pass
    assert "other" not in ask("ls").out
    assert "elsewhere" in ask("ls", "--all").out


def test_the_default_session_is_the_environments_or_the_last_used(store, ask, world, monkeypatch):
    with world.open(store) as opened, opened.open("second"):
        pass
    assert ask("log").lines[0].startswith("second ")
    assert ask("log", "--session", "fix-login").lines[0].startswith("fix-login ")
    assert ask("log", "fix-login").lines[0].startswith("fix-login ")
    monkeypatch.setenv("STATOR_SESSION", "fix-login")
    assert ask("log").lines[0].startswith("fix-login ")


def test_the_last_session_of_the_store_is_used_if_the_project_has_none(store, ask, monkeypatch):
    monkeypatch.chdir("/")
    assert ask("log").lines[0].startswith("fix-login ")


def test_diff_between_two_sessions(store, ask, world):
    with world.open(store) as opened:
        opened.fork("fix-login", "t1", as_name="other-way")
        with opened.open("other-way") as s, s.turn("try again") as t:
            t.decide("use OAuth", topic="auth", why="the company has it")
    answer = ask("diff", "fix-login:t3", "other-way:head")
    assert answer.code == 0
    assert "auth: use signed cookies superseded by use OAuth" in answer.out


def test_verify_shows_every_head_in_the_same_way_and_what_heads_are_for(store, ask, monkeypatch):
    with stator.connect(store, project="shop").open("a session of a longer name") as s:
        s.tag("here")
    for columns, rows in (("70", 4), ("80", 2), ("110", 2)):
        monkeypatch.setenv("COLUMNS", columns)
        shown = ask("verify").lines
        first = next(n for n, line in enumerate(shown) if re.match(r"  [0-9a-f]{64}", line))
        last = next(n for n, line in enumerate(shown) if line.startswith("a head that you kept"))
        heads = shown[first:last]
        assert len(heads) == rows
        assert sum(bool(re.match(r"  [0-9a-f]{64}", line)) for line in heads) == 2
        assert " ".join(" ".join(shown[last:]).split()) == (
            "a head that you kept shows a rewritten log: --head HASH"
        )


def test_verify_of_a_bundle_says_how_that_is_verified(store, ask, tmp_path):
    bundle = str(tmp_path / "x.stator")
    assert ask("export", "fix-login", "-o", bundle).code == 0
    told = ask("verify", bundle)
    assert told.code == 2
    assert f"stator import {bundle} --dry-run" in told.err
    assert "all hashes verified" in ask("import", bundle, "--dry-run").out
    assert "no session" in ask("verify", "no-such-session").err


def test_a_heading_leaves_out_whole_parts_and_cuts_none(store, ask, monkeypatch):
    name = "a session whose name takes all the room that a line has on most screens"
    with stator.connect(store, project="shop").open(name, agent="coder") as s, s.turn("go") as t:
        t.try_call(stator.tool(lambda: 1 / 0, name="fail"))
    heads = {}
    for columns in range(60, 180, 4):
        monkeypatch.setenv("COLUMNS", str(columns))
        heads[columns] = normal(ask("calls", "a session", "--failed").lines[0])
    assert heads[176].startswith(f"{name} s_… · failed calls · coder · paused · 1 turn, ")
    for head in heads.values():
        shown, end = head.split(" s_…", 1)
        assert shown == name or shown.endswith("…")
        assert "…" not in end
        assert end.startswith(" · failed calls")
        assert end.split(" · ")[1:] == [
            part for part in heads[176].split(" · ")[1:] if part in end.split(" · ")
        ]


def test_the_help_of_ls_says_which_doubts_it_lists(ask):
    told = " ".join(ask("ls", "--help").out.split())
    assert "sessions with a call in doubt that you are asked about" in told
    assert (
        "older doubts of imported sessions are history, which stator calls --open lists too" in told
    )
