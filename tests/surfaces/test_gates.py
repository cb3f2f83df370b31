"""The commands approvals, approve, deny, budget, settle, resume, pause, close and archive."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time

import pytest

import stator
from runtime.waiting import ask_for
from stator.model.values.ids import short
from stator.surfaces.cli.commands import settle
from stator.surfaces.cli.parts import confirm
from stator.surfaces.cli.render.waiting_calls import older_words
from surfaces.recorded import normal, program

PATIENCE_S = 60


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture
def waits(store):
    """The id of a payment that waits in the recorded session."""
    with stator.connect(store, project="shop").open("fix-login") as s, s.turn("pay"):
        return ask_for(s, "pay", "payments above 100", amount=500, to="ACME\x1b[2J")


def rows(answer):
    return [json.loads(line) for line in answer.lines]


def doubt(ask):
    return rows(ask("settle", "--json"))[0]["call"]


# -- approvals ------------------------------------------------------------------------------------


def test_approvals_lists_waiting_calls_and_how_to_answer(waits, ask):
    answer = ask("approvals")
    assert re.sub(r"waiting for \d+ s   ", "waiting for N s   ", normal(answer.out)) == (
        "CALL       WHAT IT ASKS FOR\n"
        "c_…  pay(amount=500, to=ACME\\x1b[2J) · write · t4 of fix-login · waiting for N s   "
        "stator approve c_…\n"
        "           reason: payments above 100\n"
        "\n"
        "or deny it: stator deny CALL\n"
        "any process of this user can approve, also the agent: no passphrase is set\n"
    ).replace("c_…  ", "c_… ")
    (item,) = rows(ask("approvals", "--json"))
    assert (item["call"], item["answer"]) == (waits, "")
    assert item["arguments"] == {"amount": 500, "to": "ACME\x1b[2J"}


def test_an_approval_of_no_call_names_the_one_that_waits(waits, ask):
    told = normal(ask("approve").err)
    assert told == "stator: name the call: pay in fix-login waits (stator approve c_…)\n"
    assert "stator deny c_" in ask("deny").err


def test_an_empty_list_names_the_store(store, ask):
    answer = ask("approvals")
    assert (answer.code, answer.out) == (0, "")
    assert f"no call waits for approval in this project (store: {store}" in answer.err


def test_a_call_is_approved_once(waits, ask):
    answer = ask("approve", waits[-8:])
    assert answer.code == 0
    assert "approved  pay with arguments" in answer.out
    assert " · once · call c_" in answer.out
    assert "approved; its driver has not acted on it yet" in ask("approvals").out
    assert rows(ask("approvals", "--json"))[0]["answer"] == "approved"
    assert "no call waits" in ask("approve", "--all").err


def test_all_waiting_calls_are_approved_with_an_expiry(waits, ask):
    (grant,) = rows(ask("approve", "--all", "--for", "session", "--expires", "2h", "--json"))
    assert (grant["scope"], grant["verdict"], grant["call"]) == ("session", "approved", "")
    assert 0 < grant["expires"] - time.time() * 1e6 <= 7200 * 1e6
    assert "approved  pay with arguments" in ask("approvals", "--grants").out


def test_a_pattern_applies_to_the_session_by_default(waits, ask):
    assert (
        rows(ask("approve", waits, "--pattern", "pay(amount<=1000)", "--json"))[0]["scope"]
        == "session"
    )
    assert rows(ask("approve", "--pattern", "read_*", "--json"))[0]["pattern"] == "read_*"
    (grant,) = rows(ask("approve", waits, "--pattern", "pay", "--for", "project", "--json"))
    assert grant["name"] == "(project)"
    assert "fix-login" in ask("show").out


def test_a_call_is_denied_with_a_reason(waits, ask):
    assert "denied" in ask("deny", waits, "--why", "ask finance first").out
    shown = normal(ask("log", "-n", "2").out)
    assert "denied pay" in shown
    assert re.search(r"candidate +refused: pay «ask finance first» \(not confirmed\)", shown)
    assert "denied" in ask("deny", "--pattern", "pay(amount>1000)").out


def test_a_grant_is_revoked(waits, ask):
    (grant,) = rows(ask("approve", waits, "--json"))
    assert "revoked: " in ask("approvals", "--revoke", grant["id"][-6:]).out
    assert rows(ask("approvals", "--json"))[0]["answer"] == ""
    assert ask("approvals", "--revoke", grant["id"]).code == 3
    again = json.loads(ask("approve", waits, "--json").out)["id"]
    assert (
        json.loads(ask("approvals", "--revoke", again, "--json").out)["schema"]
        == "stator.revoked/1"
    )


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["approve"], 2, "name the call: pay in fix-login waits"),
        (["deny"], 2, "name the call: pay in fix-login waits"),
        (["approve", "ffffffff"], 3, "no call 'ffffffff'"),
        (["approve", "CALL", "--for", "ever"], 2, "unknown scope 'ever'"),
        (["approve", "CALL", "--expires", "2020-01-01"], 2, "not in the future"),
        (["approve", "CALL", "--expires", "soon"], 2, "not a time"),
        (["approve", "CALL", "--pattern", "pay(amount<5)"], 2, "does not match"),
        (["approve", "CALL", "--pattern", "pay(("], 2, "not a pattern"),
        (["approvals", "--watch", "--grants"], 2, "use only one of"),
        (["settle", "CALL", "--done"], 2, "has not begun"),
    ],
)
def test_an_invalid_answer_says_why(waits, ask, words, code, message):
    answer = ask(*[waits if word == "CALL" else word for word in words])
    assert answer.code == code
    assert message in answer.err


# -- settle ---------------------------------------------------------------------------------------


def test_settle_lists_calls_in_doubt_and_the_three_answers(store, ask):
    told = re.sub(r"Nov 2026 00:00.*?;", "Nov 2026 00:00;", normal(ask("settle").out))
    assert told == (
        "in doubt: pay · call c_… · t3 of fix-login\n"
        "    began     15 Nov 2026 00:00; the tool does not know\n"
        "    asked     finish, and pay the invoice\n"
        "    input     amount: 5\n"
        "    returned  {error: the tool does not know, message: connection lost}  @25\n"
        "    since     not called again with the same arguments; 8 commits followed in its session\n"
        "    It may or may not have happened. Check, then run one of:\n"
        "      stator settle c_… --done        it happened\n"
        "      stator settle c_… --not-done    it did not, and must not run again\n"
        "      stator settle c_… --run-again   it did not, and may run again\n"
        '    how you know is recorded with it: stator settle c_… --done --why "…"\n'
        "    around it: stator log s_…:t3\n"
    )
    (item,) = rows(ask("settle", "--json"))
    assert (item["arguments"], item["cause"]) == ({"amount": 5}, "the tool does not know")


@pytest.mark.parametrize("command", ["why", "show", "settle"])
def test_every_command_about_a_doubt_tells_all_that_is_known_of_it(store, ask, command):
    @stator.tool(effect="write")
    def transfer(cents):
        raise stator.InDoubt("the line was cut")

    with stator.connect(store, project="shop").open("bill") as s, s.turn("pay the bill") as t:
        t.decide("by transfer", topic="payment", why="no cards there", over=["card"])
        t.try_call(transfer, cents=42)
    (row,) = s.calls()
    told = " ".join(ask(command, row.call).out.split())
    assert "asked pay the bill decided payment: by transfer, over card — no cards there" in told
    assert "input cents: 42" in told
    assert f"stator settle {short(row.call)} --not-done" in told


def test_settle_says_how_many_older_doubts_it_does_not_list():
    assert older_words(7) == "7 calls of imported sessions have no known outcome"
    assert older_words(1) == "1 call of imported sessions has no known outcome"


def test_a_verdict_without_a_call_needs_a_word_more_where_nobody_can_be_asked(store, ask):
    call = doubt(ask)
    refused = ask("settle", "--done")
    assert refused.code == 2
    assert "name the call, or add --yes: pay(amount=5) in fix-login is in doubt" in refused.err
    assert normal(ask("settle", "--done", "--yes").out).startswith("settled: pay done · call c_…")
    assert ", settled as done by " in ask("settle", call, "--done").err


def test_a_call_that_is_settled_says_by_whom_and_why(store, ask):
    call = doubt(ask)
    assert ask("settle", call).code == 1
    ask("settle", call, "--not-done", "--why", "the bank has nothing")
    again = ask("settle", call)
    assert again.code == 0
    assert again.out.startswith("already settled as not done by ")
    assert "the bank has nothing" in again.out


def test_a_call_that_was_never_in_doubt_says_how_it_ended(store, ask):
    (ok, *_) = rows(ask("calls", "--status", "ok", "--json"))
    told = ask("settle", ok["call"])
    assert (told.code, told.out[:26]) == (0, "not in doubt: it ended ok ")


@pytest.fixture
def two_doubts(store):
    """A second call in doubt, in another session."""

    @stator.tool(effect="write")
    def refund(amount):
        raise stator.InDoubt("the line was cut")

    with (
        stator.connect(store, project="shop").open("refunds") as s,
        s.turn("refund") as t,
        contextlib.suppress(stator.InDoubt),
    ):
        t.call(refund, amount=7)


def test_a_verdict_without_a_call_never_chooses_between_two(store, two_doubts, ask):
    refused = ask("settle", "--done", "--yes")
    assert refused.code == 2
    assert "stator settle lists all 2" in refused.err
    assert len(rows(ask("settle", "--json"))) == 2


@pytest.fixture
def a_person_says(monkeypatch):
    """A terminal at which somebody types an answer."""

    def says(answer):
        monkeypatch.setattr(confirm, "can_ask", lambda: True)
        monkeypatch.setattr(settle, "can_ask", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))

    return says


def test_a_person_is_shown_the_only_call_in_doubt_and_asked(store, ask, a_person_says):
    a_person_says("n")
    declined = ask("settle", "--done")
    assert (declined.code, "input     amount: 5" in declined.out) == (0, True)
    assert "Settle it as done? [y/N] nothing was settled" in declined.err
    a_person_says("y")
    assert "settled: pay done" in ask("settle", "--done").out


def test_a_call_in_doubt_says_what_was_tried_again_since(store, ask):
    with stator.connect(store, project="shop").open("fix-login") as s, s.turn("pay again") as t:
        t.try_call(stator.tool(effect="write")(pay), amount=5)
    assert "called again with the same arguments: @" in ask("settle", doubt(ask)).out


def pay(amount):
    return {"id": "re_2"}


def test_a_call_is_settled_with_its_return_value(store, ask):
    call = doubt(ask)
    answer = ask(
        "settle", call[-8:], "--done", "--value", '{"id": "re_1"}', "--why", "bank says so"
    )
    assert normal(answer.out) == (
        "settled: pay done · call c_… · fix-login @33 · because bank says so\n"
    )
    assert "pay ok: {id: re_1}" in ask("log", "-n", "1").out
    again = ask("settle", call, "--not-done")
    assert (again.code, "is not in doubt: it ended ok (@33)" in again.err) == (2, True)
    assert "no call is in doubt in this project" in ask("settle").err


def test_settle_of_a_call_without_a_verdict_shows_it_with_the_commands(store, ask):
    call = doubt(ask)
    answer = ask("settle", call)
    assert answer.code == 1
    assert answer.out == ask("settle").out


def test_settle_as_json(store, ask):
    found = json.loads(ask("settle", doubt(ask), "--run-again", "--json").out)
    assert (found["schema"], found["verdict"]) == ("stator.settled/1", "run again")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--done"], 2, "name the call"),
        (["CALL", "--value", "3"], 2, "use exactly one of"),
        (["CALL", "--done", "--not-done"], 2, "use exactly one of"),
        (["CALL", "--done", "--value", "{"], 2, "--value is not JSON"),
        (["CALL", "--not-done", "--value", "3"], 2, "only a call settled as done can have a value"),
        (["ffffffff", "--done"], 3, "no call"),
    ],
)
def test_an_invalid_settlement_says_why(store, ask, words, code, message):
    call = doubt(ask)
    answer = ask("settle", *[call if word == "CALL" else word for word in words])
    assert answer.code == code
    assert message in answer.err


# -- budget ---------------------------------------------------------------------------------------


def test_a_budget_shows_spending_and_unknown_money_as_unknown(store, ask):
    assert ask("budget").lines[2:] == [
        "  UNIT                    LIMIT               SPENT",
        "  tokens                   none        1,200 tokens",
        "  money                    none                   –",
        "  calls                    none             4 calls",
        "  turns                    none             3 turns",
        "  seconds                  none           0 seconds",
    ]


def test_a_budget_can_be_raised_and_shows_when_it_is_used_up(store, ask):
    answer = ask("budget", "fix-login", "+2usd", "1k", "tokens", "1h30m")
    assert "2.00 usd                   –" in answer.out
    assert "1,000 tokens        1,200 tokens" in answer.out
    assert "1h30m           0 seconds" in answer.out
    assert "used up: 1,200 tokens of 1,000 tokens spent" in answer.out
    assert "used up" not in ask("budget", "+5k tokens").out
    assert "3 turns of" in ask("budget", "-s", "fix-login", "turns=2").out
    found = json.loads(ask("budget", "--json").out)
    assert found["limits"] == {"money:usd": 2_000_000, "tokens": 6000, "seconds": 5400, "turns": 2}
    assert (found["known"]["money:usd"], found["known"]["tokens"]) == (False, True)
    assert found["breach"]["unit"] == "turns"
    assert "1h30m, 6,000 tokens, 2 turns" in ask("log", "-n", "1").out


def test_partly_known_money_is_shown_as_a_lower_bound(store, ask):
    with stator.connect(store, project="shop").open("fix-login") as s, s.turn("more") as t:
        t.say("x", usage={"tokens": 10, "money:usd": 1_500_000, "tokens:unpriced": 4})
    answer = ask("budget")
    assert "> 1.50 usd" in answer.out
    assert "4 tokens have no known price" in answer.out


def test_fully_known_money_is_shown(tmp_path, ask):
    path = tmp_path / "priced.db"
    with stator.connect(path, project="shop").open("a") as s, s.turn("go") as t:
        t.say("x", usage={"tokens": 10, "tokens:in": 10, "money:usd": 12_345})
    answer = ask("budget", "--store", str(path))
    assert "0.012345 usd" in answer.out
    assert "tokens: in 10" in answer.out


@pytest.mark.parametrize(
    ("words", "code"), [(["5", "apples"], 2), (["nobody", "+1usd"], 3), (["fix-login", "lots"], 2)]
)
def test_an_invalid_amount_is_a_usage_error(store, ask, words, code):
    assert ask("budget", *words).code == code


# -- resume, pause, close, archive ----------------------------------------------------------------


def test_resume_shows_where_a_session_stopped_and_how_to_continue(waits, ask, store):
    ask("budget", "50k tokens")
    text = normal(ask("resume", "fix-login").out)
    assert "  paused      reason: user\n" in text
    assert "  last turn   t4, ok\n  asked       pay\n" in text
    assert "  budget      1,200 tokens of 50,000 tokens\n" in text
    assert "in doubt: pay(amount=5) · call c_… · t3 · started" in text
    assert "waiting for approval: c_…" in text
    assert "Plan (0 of 2 done)" in text
    assert "rotate the keys (waits for ops)" in text
    assert "  created   cookies.py  t3\n" in text
    assert f"with stator.connect({str(store)!r}).open('fix-login') as s" in text
    assert "stator resume fix-login -- python agent.py" in text


def test_resume_changes_nothing(store, ask):
    before = ask("show", "--json").out
    ask("resume")
    assert ask("show", "--json").out == before


def test_resume_as_json(waits, ask):
    found = json.loads(ask("resume", "--json").out)
    assert found["schema"] == "stator.resume/1"
    assert found["session"]["name"] == "fix-login"
    assert (found["turn"]["turn"], found["turn"]["status"]) == (4, "ok")
    assert [item["call"] for item in found["waiting"]] == [waits]
    assert [item["tool"] for item in found["in_doubt"]] == ["pay"]
    assert len(found["plan"]) == 2


def test_resume_sets_store_and_session_for_the_program(store):
    code = "import os, sys; print(os.environ['STATOR_STORE'], os.environ['STATOR_SESSION'], sys.argv[1:])"
    answer = program("resume", "fix-login", "--", sys.executable, "-c", code, "--json", "-h")
    assert (answer.code, answer.out) == (0, f"{store} fix-login ['--json', '-h']\n")
    missing = program("resume", "fix-login", "--", "no-such-program-here")
    assert missing.code == 3
    assert "program 'no-such-program-here' not found" in missing.err


def test_resume_returns_the_exit_code_of_the_program(store):
    assert (
        program("resume", "fix-login", "--", sys.executable, "-c", "raise SystemExit(7)").code == 7
    )


def test_a_session_is_closed_and_archived(store, ask):
    assert ask("archive", "fix-login").code == 2
    assert normal(ask("close").out) == "fix-login s_…: closed (done)\n"
    found = json.loads(ask("archive", "fix-login", "--json").out)
    assert (found["schema"], found["status"]) == ("stator.moved/1", "archived")
    assert "the session is archived; continue in a fork" in ask("resume", "fix-login").out
    assert program("resume", "fix-login", "--", "true").code == 2


def test_close_records_a_known_reason(store, ask):
    assert "closed (budget)" in ask("close", "--reason", "budget").out


def test_close_records_a_reason_in_a_persons_own_words(store, ask):
    assert "closed (user)" in ask("close", "--why", "the shop is closed").out
    assert "user — the shop is closed" in ask("log", "--full", "--kind", "close").out


# -- two processes --------------------------------------------------------------------------------

DRIVER = """
import sys, time, stator
from stator.runtime.driving import approvals
from runtime.waiting import ask_for

store = stator.connect(sys.argv[1], project="shop")
with store.open("drive") as s, s.turn("pay") as t:
    call = ask_for(s, "pay", amount=5)
    print(call, flush=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [w for w in approvals.waiting(store.port, now=store.context.clock(), session=s.id) if w.answer]
        requests = [c for c in s.log("t1") if c.kind == "pause_request"]
        if found and requests:
            print(found[0].answer, requests[0].cause, s.record.budget, flush=True)
            break
        time.sleep(0.02)
"""


def started(*words, **options):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, text=True, env=env, **options
    )


def test_a_session_driven_by_another_process_can_be_approved_limited_and_paused(tmp_path, ask):
    path = str(tmp_path / "two.db")
    with started("-c", DRIVER, path) as driver:
        call = driver.stdout.readline().strip()
        assert ask("approve", call, "--store", path).code == 0
        assert ask("budget", "drive", "9 turns", "--store", path).code == 0
        busy = ask("close", "drive", "--store", path)
        assert (busy.code, "is driven by" in busy.err) == (4, True)
        asked = ask("pause", "drive", "--reason", "budget", "--store", path)
        assert f"pid {driver.pid}; it stops before its next call" in asked.out
        assert driver.stdout.readline() == "approved budget {'turns': 9}\n"
        assert driver.wait(PATIENCE_S) == 0


@pytest.fixture
def killed(tmp_path):
    """The path of a store with a session whose process was killed while its second turn paid."""
    path = str(tmp_path / "killed.db")
    script = """
import os, signal, sys, stator
@stator.tool(effect="write")
def pay(amount): os.kill(os.getpid(), signal.SIGKILL)
with stator.connect(sys.argv[1], project="shop").open("left") as s:
    with s.turn("count it") as t: t.say("It is 5.")
    with s.turn("pay it") as t: t.call(pay, amount=5)
"""
    with started("-c", script, path) as driver:
        driver.wait(PATIENCE_S)
    return path


def test_a_settled_call_is_told_where_its_session_is_continued(killed, ask):
    settled = ask("settle", "--done", "--yes", "--why", "the bank says so", "--store", killed)
    assert settled.lines[-1] == "next: stator resume left"
    call = "pay(amount=5): done, by local:"
    shown = ask("resume", "left", "--store", killed)
    (line,) = [one for one in shown.lines if one.startswith("  settled")]
    assert line.startswith(f"  settled     {call}")
    assert re.search(r", “the bank says so”  @\d+$", line)
    assert "  last words  It is 5.  t1\n" in shown.out
    recap = ask("recap", "left", "--store", killed).out
    assert f" settled     {call}" in recap
    assert "last words: “It is 5.”  t1\n" in recap
    for command in ("resume", "recap"):
        found = json.loads(ask(command, "left", "--json", "--store", killed).out)["settled"]
        assert [(one["text"], one["verdict"], one["why"]) for one in found] == [
            ("pay(amount=5)", "done", "the bank says so")
        ]


def test_a_settled_call_is_not_told_any_more_once_a_later_turn_began(killed, ask):
    ask("settle", "--not-done", "--yes", "--store", killed)
    with stator.connect(killed, project="shop").open("left") as s, s.turn("leave it") as t:
        t.say("As you wish.")
    for command in ("resume", "recap"):
        assert json.loads(ask(command, "left", "--json", "--store", killed).out)["settled"] == []


def test_a_session_of_a_killed_process_can_be_settled_and_closed(killed, ask):
    path = killed
    assert "interrupted its driver is gone (process died)" in ask("resume", "--store", path).out
    (left,) = rows(ask("settle", "--json", "--store", path))
    assert (left["cause"], left["arguments"]) == ("process died", {"amount": 5})
    assert ask("close", "left", "--store", path).code == 0
    assert ask("settle", left["call"], "--not-done", "--store", path).code == 0
    assert (
        json.loads(ask("show", "left:head", "--json", "--store", path).out)["kind"] == "settlement"
    )
    assert ask("verify", "--store", path).code == 0


def test_watch_shows_each_new_waiting_call_once(store):
    words = ("-m", "stator.surfaces.cli.main", "approvals", "--watch", "--json")
    with started(*words) as watching:
        try:
            with stator.connect(store, project="shop").open("fix-login") as s, s.turn("pay"):
                one, two = ask_for(s, "pay", amount=1), ask_for(s, "pay", amount=2)
            seen = [json.loads(watching.stdout.readline())["call"] for _ in range(2)]
            assert sorted(seen) == sorted([one, two])
        finally:
            watching.terminate()


def test_watch_rings_the_bell_on_a_terminal(waits, store):
    import pty

    parent, child = pty.openpty()
    words = [sys.executable, "-m", "stator.surfaces.cli.main", "approvals", "--watch"]
    plain = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(words, stdin=child, stdout=child, stderr=child, env=plain) as watching:
        os.close(child)
        shown, deadline = b"", time.monotonic() + PATIENCE_S
        while b"\a" not in shown and time.monotonic() < deadline:
            shown += os.read(parent, 65536)
        watching.terminate()
    os.close(parent)
    assert b"pay(amount=500" in shown
    assert b"\x1b[2J" not in shown
    assert b"\a" in shown


# -- other commands ------------------------------------------------------------------------------------


def test_show_lists_waiting_calls_and_doctor_does_not_warn_about_them(waits, ask):
    assert "Waiting for approval\n  pay awaiting approval" in ask("show").out
    assert "without an outcome" not in ask("doctor").out


def test_doctor_reads_the_policy_file(store, ask):
    with open("stator.toml", "w", encoding="utf-8") as file:
        file.write('[[approval]]\ntool = "pay"\naction = "ask"\n')
    assert "stator.toml" not in ask("doctor").out
    with open("stator.toml", "a", encoding="utf-8") as file:
        file.write('[[approval]]\ntoool = "pay"\n')
    assert "stator.toml: unknown key 'toool' - at $.approval[1].toool" in ask("doctor").out
    assert ask("ls").code == 0


def test_an_unreadable_policy_file_is_an_error(store, ask):
    os.mkdir("stator.toml")
    with stator.connect(store, project="shop") as opened, pytest.raises(stator.errors.InvalidInput):
        opened.context.policy()
    assert "stator.toml cannot be read" in ask("doctor").out
