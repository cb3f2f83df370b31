"""The commands run, ps, attach, stop and top, and `log --follow`."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

import stator
from surfaces.recorded import normal, program
from waiting import eventually

AGENT = """
import os, sys, time
import stator

@stator.tool(effect="write")
def pay(amount):
    while not os.path.exists("paid"):
        time.sleep(0.01)

with stator.open() as s:
    for n in range(int(sys.argv[1])):
        with s.turn(f"turn {n}") as t:
            t.plan("pay", "in_progress")
            print("turn", n, flush=True)
            if "wait" in sys.argv:
                t.call(pay, amount=n)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A store, as the one that is meant, and an agent to run beside it; nothing is left running."""
    path = tmp_path / "agent.db"
    stator.connect(path, project="shop").close()
    monkeypatch.setenv("STATOR_STORE", str(path))
    (tmp_path / "work" / "agent.py").write_text(AGENT)
    yield path
    with stator.connect(path) as store:
        for run in store.runs():
            run.stop(grace_s=0)


@pytest.fixture
def detach(ask, home):
    """Start a detached run; its whole id."""

    def start(*command, options=()):
        answer = ask("run", "--detach", "--json", *options, "--", *command)
        assert answer.code == 0, answer.err
        found = json.loads(answer.out)
        assert found["schema"] == "stator.run/1"
        return found["id"]

    return start


@pytest.fixture
def spawn():
    """Start the real program beside the test; an interrupt reaches it however the tests were started."""
    started = []

    def start(*words, **options):
        process = subprocess.Popen(
            [sys.executable, "-m", "stator.surfaces.cli.main", *words],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **{"stdout": subprocess.PIPE, **options},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def agent(*words):
    return [sys.executable, "agent.py", *words]


def state(ask, run):
    (found,) = [one for one in items(ask("ps", "--all", "--json")) if one["id"] == run]
    return found


def items(answer):
    assert answer.code in (0, 1), answer.err
    return [json.loads(line) for line in answer.lines]


def ended(ask, run):
    return eventually(lambda: (s := state(ask, run))["status"] != "running" and s)


# -- starting -------------------------------------------------------------------------------------


def test_a_detached_run_is_shown_with_what_to_do_next(ask, home):
    answer = ask("run", "-d", "--", *agent("1"))
    assert answer.code == 0
    shown = re.sub(r"pid \d+", "pid N", normal(answer.out))
    name = re.search(r"agent.py-[0-9a-f]{8}", shown)[0]  # type: ignore[index]
    assert shown == (f"r_… running · {name} s_… · pid N\n  stator attach r_… · stator stop r_…\n")


def test_a_foreground_run_prints_the_output_and_returns_the_exit_code(ask, home):
    answer = ask("run", "--", sys.executable, "-c", "print('hello'); raise SystemExit(7)")
    assert (answer.code, answer.out, answer.err) == (7, "hello\n", "")
    (run,) = items(ask("ps", "--all", "--json"))
    assert (run["status"], run["exit"], run["reason"]) == ("failed", 7, "error")


def test_a_foreground_run_that_is_killed_has_the_exit_code_a_shell_gives_it(ask, home):
    answer = ask("run", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert answer.code == 137


def test_a_foreground_run_reads_stdin(home):
    answer = program("run", "--", "cat", input=b"typed\n")
    assert (answer.code, answer.out) == (0, "typed\n")


def test_an_interrupt_in_the_foreground_is_recorded_as_the_users(ask, home, spawn):
    process = spawn("run", "--", "sh", "-c", "echo up; exec sleep 600")
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    (run,) = items(ask("ps", "--all", "--json"))
    assert (run["status"], run["reason"]) == ("stopped", "user")


def test_a_foreground_run_survives_a_closed_pipe(ask, home, spawn):
    process = spawn("run", "--", sys.executable, "-c", "for n in range(200): print(n, flush=True)")
    process.stdout.close()
    process.stdout = None
    process.wait(timeout=60)
    (run,) = items(ask("ps", "--all", "--json"))
    assert (run["status"], run["exit"]) == ("done", 0)


def test_options_after_the_dashes_belong_to_the_program(ask, home):
    answer = ask("run", "--", "echo", "--detach", "--json", "-h", "--", "x")
    assert answer.out == "--detach --json -h -- x\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run"], 2, "no command"),
        (["run", "-d", "--", "nosuch"], 3, "no program 'nosuch'"),
        (["run", "--", "nosuch"], 3, "no program 'nosuch'"),
        (["run", "--", "/"], 3, "no program '/'"),
        (["run", "--restart", "always", "--", "true"], 2, "no restart policy"),
        (["run", "--repeat", "ffffffff"], 3, "no run 'ffffffff'"),
        (["run", "--repeat", "ffffffff", "--", "true"], 2, "--repeat takes no command"),
        (["run", "--session", "", "--detach", "--", "nosuch"], 3, "no program"),
        (["attach", "nosuch"], 3, "no session 'nosuch'"),
        (["attach", "r_ffffffff"], 3, "no run"),
        (["attach", "nosuch", "--after", "x"], 2, "not a cursor"),
        (["stop", "ffffffff"], 3, "no run"),
        (["top", "--every", "0"], 2, "--every must be from"),
        (["log", "-f", "t1"], 3, "no sessions"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_runs_are_refused_in_one_line(words, code, says, ask, home):
    answer = ask(*words)
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert answer.err.count("\n") == 1
    assert says in answer.err
    assert ask("ps", "--all").out == ""


def test_a_session_in_use_is_busy(ask, detach, home):
    detach(*agent("1", "wait"), options=["--session", "mine"])
    answer = ask("run", "--session", "mine", "--", "true")
    assert answer.code == 4
    assert "is driven by" in answer.err


def test_a_run_is_started_again(ask, detach, home):
    run = detach(*agent("1"))
    ended(ask, run)
    assert ask("run", "--repeat", run).out == "turn 0\n"
    assert state(ask, run)["restarts"] == 1
    assert ask("run", "-d", "--repeat", run[-8:]).code == 0
    assert ended(ask, run)["restarts"] == 2


# -- ps -------------------------------------------------------------------------------------------


def test_ps_lists_lost_runs_first(ask, detach, home):
    running, lost = detach(*agent("1", "wait")), detach(*agent("1", "wait"))
    eventually(lambda: state(ask, lost)["unfinished"] and state(ask, running)["unfinished"])
    os.kill(state(ask, lost)["supervisor"], signal.SIGKILL)
    eventually(lambda: state(ask, lost)["status"] == "lost")
    header, *lines = ask("ps").lines
    assert header.split() == ["RUN", "STATUS", "SESSION", "FOR", "LAST", "COMMIT"]
    assert lines[0].startswith(f"r_{lost[-8:]}  lost     agent.py-{lost[-8:]}")
    assert "@5 call pay(amount=0)" in lines[0]
    assert lines[1].strip() == (
        "its supervisor was killed; program still runs; 1 call without an outcome (pay)"
    )
    assert lines[2].strip() == f"→ stator stop r_{lost[-8:]}"
    assert lines[3].startswith(f"r_{running[-8:]}  running  ")
    found = state(ask, lost)
    assert (found["reason"], found["orphaned"]) == ("process died", True)
    assert found["last"]["seq"] == 5


def test_ps_hides_ended_runs_and_says_so(ask, detach, home):
    ended(ask, detach("true"))
    answer = ask("ps")
    assert answer.out == ""
    assert "--all lists 1 ended run" in answer.err
    assert "done" in ask("ps", "--all").out


def test_the_name_of_a_program_is_escaped(ask, home):
    ask("run", "--session", "\x1b[2Jevil", "--", "sh", "-c", "echo '\x1b[2J'; exit 1")
    (run,) = items(ask("ps", "--all", "--json"))
    for words in (["ps", "--all"], ["attach", run["id"]], ["top", "--all"], ["stop", run["id"]]):
        assert "\x1b" not in ask(*words).out
    assert "│ \\x1b[2J" in ask("attach", run["id"]).lines


# -- attach ---------------------------------------------------------------------------------------


def test_attach_shows_commits_and_output_until_the_run_ends(ask, detach, home):
    run = detach(*agent("2"))
    answer = ask("attach", run)
    assert answer.code == 0
    kinds = [line.split()[4] for line in answer.lines if line.startswith("@") and " t" in line]
    assert kinds.count("plan") == 2
    assert [line for line in answer.lines if line.startswith("│")] == ["│ turn 0", "│ turn 1"]
    assert re.match(r"r_[0-9a-f]{8} done after \d+ s", answer.lines[-1])


def test_attach_exits_with_a_finding_when_the_run_failed(ask, detach, home):
    run = detach("false")
    assert ask("attach", run).code == 1


def test_attach_to_a_session_follows_its_live_run(ask, detach, home, spawn):
    run = detach(*agent("1", "wait"), options=["--session", "mine"])
    eventually(lambda: state(ask, run)["unfinished"])
    reader = spawn("attach", "mine", text=True)
    first = reader.stdout.readline()  # it has found the run, which goes on only now
    (home.parent / "work" / "paid").touch()
    out = reader.stdout.read()  # `communicate` would leave out what came with the first line
    assert reader.wait(60) == 0
    assert "│ turn 0" in (first + out).splitlines()


def test_every_commit_is_delivered_once_even_if_the_reader_is_killed(ask, detach, home, spawn):
    run = detach(*agent("60"))
    cursor, seen, printed = "1+0", [], ""
    for _ in range(40):
        words = ["attach", run, "--json", "--after", cursor]
        reader = spawn(*words)
        lines = [reader.stdout.readline() for _ in range(20)]
        reader.kill()
        lines += reader.stdout.read().splitlines(keepends=True)
        got = [json.loads(line) for line in lines if line.endswith(b"\n")]
        seen += [item["commit"]["seq"] for item in got if "commit" in item]
        printed += "".join(item["output"] for item in got if "output" in item)
        cursor = got[-1]["cursor"] if got else cursor
        if got and "run" in got[-1]:
            break
    head = json.loads(ask("show", state(ask, run)["session"], "--json").out)["head"]["seq"]
    assert seen == list(range(2, head + 1))
    assert printed == "".join(f"turn {n}\n" for n in range(60))


def test_detaching_leaves_the_run_running_and_shows_how_to_attach_again(ask, detach, home, spawn):
    run = detach(*agent("1", "wait"))
    reader = spawn("attach", run, stderr=subprocess.PIPE)
    while not reader.stdout.readline().startswith("│ turn 0".encode()):
        pass
    reader.send_signal(signal.SIGINT)
    _, err = reader.communicate(timeout=60)
    assert reader.returncode == 0
    assert re.fullmatch(
        rf"detached; the run continues; attach again: stator attach r_{run[-8:]} --after \d+\+7\n",
        err.decode(),
    )
    assert state(ask, run)["status"] == "running"
    (home.parent / "work" / "paid").touch()
    again = ask("attach", run, "--after", err.decode().split()[-1])
    assert "│ turn 0" not in again.lines
    assert "outcome" in again.out


def test_attach_counts_lost_output(ask, detach, home):
    run = detach(sys.executable, "-c", "for n in range(40000): print('x' * 99)")
    ended(ask, run)
    first = items(ask("attach", run, "--json"))
    lost = sum(item.get("lost", 0) for item in first)
    kept = sum(len(item.get("output", "")) for item in first)
    assert lost > 0
    assert lost + kept == 4_000_000
    assert "MB of earlier output is no longer kept" in ask("attach", run).out


# -- stop, top, log -f ----------------------------------------------------------------------------


def test_stop_records_who_asked(ask, detach, home):
    run = detach(*agent("1", "wait"))
    answer = ask("stop", run[-8:], "--grace", "1")
    assert answer.code == 0
    assert re.match(r"r_[0-9a-f]{8} stopped \(stopped by local:\w+\) after \d+ s", answer.out)
    assert json.loads(ask("stop", run, "--json").out)["status"] == "stopped"


def test_top_shows_call_plan_and_what_waits_for_you(ask, store, world):
    with world.open(store) as opened, opened.open("at work") as s, s.turn("go") as t:
        t.plan(["one", "two"])
        t.call(stator.tool(name="sh")(lambda command: "fine"), command="make test")
        t.plan("one", "done", check="make test")
        t.say("x", usage={"tokens": 1200, "money:usd": 340_000})
        header, waiting, asked, working = ask("top").lines
    assert header.split() == "ID SESSION STATUS TURN DOING PLAN TOKENS CACHED COST".split()
    assert re.match(
        r"s_\w{8}  fix-login  paused  t3    waits for you   0/2   1\.2 k       –      –$", waiting
    )
    assert re.match(r" {11}→ settle pay   stator settle c_\w{8}$", asked)
    assert re.match(
        r"s_\w{8}  at work    active  t1    between calls   1/2   1\.2 k       –  \$0\.34$", working
    )


def test_top_as_json(ask, store, world):
    (one,) = items(ask("top", "--json"))
    assert one["name"] == "fix-login"
    assert one["plan"] == {"done": 0, "total": 2}
    assert one["spend"]["tokens"] == 1200
    assert [(w["what"], w["tool"]) for w in one["waiting"]] == [("settle", "pay")]
    assert one["call"] is None


def test_top_says_when_no_session_is_running(ask, home):
    answer = ask("top")
    assert (answer.code, answer.out) == (0, "")
    assert "no session is running" in answer.err


def test_top_on_a_terminal_redraws_until_interrupted(store, spawn):
    terminal, theirs = pty.openpty()
    process = spawn(
        "top", "--every", "0.2",
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while shown.count(b"\x1b[H\x1b[J") < 3:
        shown += os.read(terminal, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    os.close(terminal)
    assert b"1 waiting for you" in shown
    assert b"settle pay" in shown


def test_log_can_be_followed(ask, detach, home, spawn):
    run = detach(*agent("3"), options=["--session", "mine"])
    ended(ask, run)
    follower = spawn("log", "-f", "mine", "-n", "2", "--json")
    first = [json.loads(follower.stdout.readline())["seq"] for _ in range(2)]
    assert ask("run", "--repeat", run).code == 0
    head = json.loads(ask("show", "mine", "--json").out)["head"]["seq"]
    rest = [json.loads(follower.stdout.readline())["seq"] for _ in range(head - first[-1])]
    assert first + rest == list(range(first[0], head + 1))
    follower.send_signal(signal.SIGINT)
    assert follower.communicate(timeout=60)[0] == b""
    assert follower.returncode == 0


def test_log_follow_shows_only_the_requested_kinds(ask, store, spawn):
    follower = spawn("log", "-f", "--kind", "decision", text=True)
    head = [follower.stdout.readline() for _ in range(5)]
    assert [line.split()[4] for line in head[2:]] == ["decision"] * 3
    follower.send_signal(signal.SIGINT)
    assert follower.wait(timeout=60) == 0


def test_attach_warns_if_no_program_drives_the_session(ask, store, spawn):
    reader = spawn("attach", "fix-login", stderr=subprocess.PIPE)
    assert reader.stderr.readline() == (
        b"no program drives fix-login now; waiting for new commits, Ctrl-C to leave\n"
    )
    reader.send_signal(signal.SIGINT)
    assert reader.wait(timeout=60) == 0
