"""The commands replay, rerun and workflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

import stator
from surfaces.recorded import normal

TOOLS = """
import os
import stator

@stator.tool(effect="read")
def find_order(number):
    print("looking")
    return {"payment": "pay_88", "to": "ann@example.org \\x1b[2J"}

@stator.tool
def refund(payment, cents):
    return {"receipt": "re_19"}

TOOLS = [find_order, refund]
OTHER = {"find_order": stator.tool(lambda number: {"payment": "pay_89"}, effect="read"), "refund": refund}

def main(s):
    with s.turn("refund order A-17") as t:
        order = t.call(find_order, number="A-17")
        t.call(refund, payment=order["payment"], cents=int(os.environ.get("CENTS", "4200")))
        t.decide("refund in full", topic="refund")
"""


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    """A folder with an agent and its tools, and a store in which it ran once."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "agent.db"))
    work = tmp_path / "work"
    (work / "shop_tools.py").write_text(TOOLS)
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.syspath_prepend(str(work))
    import shop_tools  # type: ignore[import-not-found]

    with stator.open("refund") as s:
        shop_tools.main(s)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name == "shop_tools":
            del sys.modules[name]


# -- replay ---------------------------------------------------------------------------------------


def test_an_agent_that_did_not_change_replays_as_recorded(ask):
    answer = ask("replay", "refund", "shop_tools:main")
    assert answer.code == 0
    assert normal(answer.out).startswith(
        "refund s_… · as recorded · 1 turn, 2 calls, 0 answers, 1 record reused\n"
    )
    assert "not captured clock, randomness" in answer.out
    assert "looking" not in answer.out + answer.err


def test_a_divergence_is_shown_with_its_diff_and_is_a_finding(ask, monkeypatch):
    monkeypatch.setenv("CENTS", "4300")
    answer = ask("replay", "refund", "shop_tools.py:main")
    assert answer.code == 1
    assert "t1 no. 2 @6 refund was called with other arguments" in answer.out
    assert '-  "cents": 4200,\n  +  "cents": 4300,' in answer.out
    plain = json.loads(ask("replay", "refund", "shop_tools:main", "--json").out)
    assert plain["schema"] == "stator.replay/1"
    assert plain["divergence"]["got"] == {
        "tool": "refund",
        "arguments": {"payment": "pay_88", "cents": 4300},
    }


def test_a_replay_writes_nothing(ask):
    before = ask("log", "--json").out
    ask("replay", "refund", "shop_tools:main")
    assert ask("log", "--json").out == before


MORTAL = """
import os, signal, stator

@stator.tool(effect="read")
def look(n):
    return n * 2

@stator.tool
def pay(cents):
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

def main(s):
    with s.turn("pay") as t:
        cents = t.call(look, n=21)
        outcome = t.try_call(pay, cents=cents)
        t.say(f"it is {outcome.status}: {t.call(look, n=1)}")

if __name__ == "__main__":
    with stator.open("mortal") as s:
        main(s)
"""


def test_a_killed_session_replays_up_to_the_kill_and_to_the_end_once_continued(ask, tmp_path):
    (tmp_path / "work" / "mortal.py").write_text(MORTAL)
    words = [sys.executable, "mortal.py"]
    assert subprocess.run(words, env={**os.environ, "DIE": "1"}).returncode == -signal.SIGKILL
    answer = ask("replay", "mortal", "mortal.py:main")
    assert answer.code == 0
    assert "as recorded, as far as the record goes · 1 turn, 1 call" in answer.out
    assert "stopped: the record ends in t1, before pay had an outcome" in answer.out
    subprocess.run(words, check=True)
    answer = ask("replay", "mortal", "mortal.py:main", "--strict")
    assert answer.code == 0, answer.out
    assert "as recorded · 1 turn, 3 calls, 0 answers, 1 record reused" in answer.out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("shop_tools", "not a module or file with a name"),
        ("nobody:main", "ModuleNotFoundError"),
        ("nobody.py:main", "no file 'nobody.py'"),
        ("shop_tools:nobody", "AttributeError"),
        ("shop_tools:TOOLS", "is not a function"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_a_usage_error(ask, target, message):
    answer = ask("replay", "refund", target)
    assert answer.code == 2
    assert message in answer.err


def test_replay_of_a_missing_session_is_not_found(ask):
    assert ask("replay", "nobody", "shop_tools:main").code == 3


# -- rerun ----------------------------------------------------------------------------------------


def test_a_rerun_waits_for_approval_before_a_write_and_then_continues(ask):
    answer = ask("rerun", "refund", "--tools", "shop_tools:TOOLS")
    assert answer.code == 1
    assert "· 2 calls · 1 same · 1 not run" in answer.out
    assert "then run the same command again to continue" in answer.out
    call = json.loads(ask("approvals", "--json").lines[0])["call"]
    assert ask("approve", call).code == 0
    answer = ask("rerun", "refund", "--tools", "shop_tools:TOOLS")
    assert answer.code == 0
    assert "· 2 calls · 2 same" in answer.out


def test_a_changed_result_is_a_finding_with_a_diff(ask):
    answer = ask("rerun", "refund", "--tools", "shop_tools:OTHER", "--effects", "run")
    assert answer.code == 1
    assert '-  "payment": "pay_88"' in answer.out
    assert '+  "payment": "pay_89"' in answer.out
    assert "\x1b" not in answer.out
    plain = json.loads(
        ask("rerun", "refund", "--tools", "shop_tools:TOOLS", "--effects", "run", "--json").out
    )
    assert (plain["schema"], plain["same"]) == ("stator.rerun/1", True)


def test_a_rerun_needs_tools(ask):
    assert "--tools is missing" in ask("rerun").err
    assert ask("rerun", "refund").code == 2


# -- workflow -------------------------------------------------------------------------------------


@pytest.fixture
def file(ask, tmp_path):
    path = tmp_path / "refund.json"
    assert ask("workflow", "extract", "refund", "-o", str(path)).code == 0
    return path


def test_a_workflow_is_extracted_to_a_file(file, ask):
    made = json.loads(file.read_text())
    assert made["schema"] == "stator.workflow/1"
    assert made["calls"][1]["input"] == {
        "cents": 4200,
        "payment": {"$from": "c1", "at": "/payment"},
    }
    assert ask("workflow", "extract", "refund").out == file.read_text()
    answer = ask("workflow", "show", str(file))
    assert "  order            A-17  named by the prompt; c1 number\n" in answer.out
    assert "  c2    refund(cents=4200, payment=c1/payment) · write\n" in answer.out
    assert json.loads(ask("workflow", "show", str(file), "--json").out) == made


def test_an_existing_file_is_not_overwritten(file, ask):
    before = file.read_text()
    answer = ask("workflow", "extract", "refund", "-o", str(file))
    assert answer.code == 2
    assert file.read_text() == before


def test_a_workflow_waits_for_approval_and_then_continues(file, ask):
    words = ["workflow", "run", str(file), "--tools", "shop_tools:TOOLS", "--set", "order=A-18"]
    answer = ask(*words)
    assert answer.code == 1
    assert "awaiting approval  refund" in answer.out
    waiting = json.loads(ask(*words, "--json").out)["waiting"]
    assert ask("approve", waiting).code == 0
    answer = ask(*words)
    assert answer.code == 0
    assert "refund · done · workflow/refund s_" in answer.out


def test_a_dry_run_of_a_workflow_runs_no_call(file, ask):
    answer = ask("workflow", "run", str(file), "--tools", "shop_tools:TOOLS", "--dry-run")
    assert answer.code == 0
    assert "dry run: nothing has run yet" in answer.out
    assert "looking" not in answer.err
    assert "workflow/refund" not in ask("ls", "--json").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explode"], "unknown action"),
        (["run"], "the file is missing"),
        (["run", "FILE"], "there is no tool 'find_order'"),
        (["run", "FILE", "--tools", "shop_tools:TOOLS", "--set", "x"], "--set takes name=value"),
        (["run", "FILE", "--tools", "shop_tools:TOOLS", "--set", "x=1"], "no parameter 'x'"),
        (["show", "FILE", "--turns", "t1"], "--turns does not work with workflow show"),
        (["show", "/dev/null"], "not a workflow"),
    ],
)
def test_an_invalid_workflow_command_is_a_usage_error(file, ask, words, message):
    answer = ask("workflow", *(word.replace("FILE", str(file)) for word in words))
    assert answer.code == 2, answer.err
    assert message in answer.err
