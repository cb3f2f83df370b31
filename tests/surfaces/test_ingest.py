"""What hooks left: taken in on demand, seen by every question, told of by doctor when it is stuck."""

from __future__ import annotations

import json
import time

import pytest

from importers.hook_lines import HookedStore, conversation_lines, prompt


@pytest.fixture
def hooked(tmp_path, monkeypatch):
    found = HookedStore(tmp_path / "work")
    monkeypatch.setenv("STATOR_STORE", str(found.path))
    return found


def test_nothing_that_waits_is_nothing_to_do(hooked, ask):
    done = ask("ingest")
    assert (done.code, done.out) == (0, "nothing waits\n")


def test_what_waits_is_taken_in_and_counted(hooked, ask):
    hooked.write(*conversation_lines())
    done = ask("ingest")
    assert done.code == 0
    assert done.out.startswith("6 lines of hooks, 6 commits in 1 session")


def test_programs_are_told_the_same(hooked, ask):
    hooked.write(*conversation_lines())
    told = json.loads(ask("ingest", "--json").out)
    assert told["schema"] == "stator.ingest/1"
    assert (told["lines"], told["bad"], told["all"]) == (6, 0, True)


def test_what_could_not_be_used_is_a_finding(hooked, ask):
    hooked.write(prompt(), agent="nobody")
    done = ask("ingest")
    assert done.code == 1
    assert "no agent 'nobody'" in done.out


def test_a_question_is_answered_with_what_hooks_left(hooked, ask):
    hooked.write(*conversation_lines())
    assert "do it" in ask("ls").out
    assert "Shell" in ask("calls").out
    assert hooked.lines()


def test_doctor_says_what_waits(hooked, ask):
    hooked.write(*conversation_lines())
    done = ask("doctor")
    assert done.code == 0
    assert "6 lines of hooks in 1 file" in done.out


def test_doctor_says_that_a_spool_is_stuck(hooked, ask, monkeypatch):
    now = time.time_ns()
    with monkeypatch.context() as earlier:
        earlier.setattr("time.time_ns", lambda: now - 2 * 3600 * 10**9)
        hooked.write(*conversation_lines())
    done = ask("doctor")
    assert done.code == 1
    assert "nobody took them in" in done.out
    assert "stator ingest" in done.out


def test_doctor_says_that_whoever_began_to_take_it_is_gone(hooked, ask):
    hooked.write(*conversation_lines(), name="taken-0")
    done = ask("doctor")
    assert done.code == 1
    assert "somebody who began to is gone" in done.out


def test_doctor_says_what_could_not_be_used_and_what_was_not_recorded(hooked, ask):
    hooked.write(prompt(), agent="nobody")
    ask("ingest")
    (hooked.spool / "note").write_text("1 cursor: No space left on device\n")
    done = ask("doctor")
    assert done.code == 1
    assert "1 piece of what hooks wrote could not be used" in done.out
    assert "1 time a hook could not record" in done.out


def test_a_spool_that_cannot_be_taken_in_is_said_beside_the_answer(hooked, ask, monkeypatch):
    def broken(*_):
        raise OSError("the disk is on fire")

    hooked.write(*conversation_lines())
    monkeypatch.setattr("stator.hooks.ingest.preview", broken)
    done = ask("ls")
    assert done.code == 0
    assert "the disk is on fire" in done.err
    assert "RuntimeWarning" not in done.err


def test_doctor_says_that_the_spool_is_somebody_elses(hooked, ask, monkeypatch):
    hooked.write(*conversation_lines())
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    result = ask("doctor")
    assert result.code == 1
    assert "is somebody else's" in result.out
