"""The queue of hook lines: `stator ingest`, commands that read it, and what doctor reports about it."""

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


def test_ingest_of_an_empty_queue_does_nothing(hooked, ask):
    done = ask("ingest")
    assert (done.code, done.out) == (0, "the queue is empty\n")


def test_ingest_imports_the_queue_and_counts_it(hooked, ask):
    hooked.write(*conversation_lines())
    done = ask("ingest")
    assert done.code == 0
    assert done.out.startswith("imported 6 hook lines, 6 commits in 1 session")


def test_ingest_as_json(hooked, ask):
    hooked.write(*conversation_lines())
    found = json.loads(ask("ingest", "--json").out)
    assert found["schema"] == "stator.ingest/1"
    assert (found["lines"], found["bad"], found["all"]) == (6, 0, True)


def test_hook_lines_that_cannot_be_imported_are_a_finding(hooked, ask):
    hooked.write(prompt(), agent="nobody")
    done = ask("ingest")
    assert done.code == 1
    assert "no agent 'nobody'" in done.out


def test_reading_commands_import_queued_hook_lines(hooked, ask):
    hooked.write(*conversation_lines())
    assert "do it" in ask("ls").out
    assert "Shell" in ask("calls").out
    assert hooked.lines() == []


def test_doctor_counts_queued_hook_lines(hooked, ask):
    hooked.write(*conversation_lines())
    done = ask("doctor")
    assert done.code == 0
    assert "6 hook lines queued in 1 file" in done.out


def test_doctor_warns_about_an_old_queue(hooked, ask, monkeypatch):
    now = time.time_ns()
    with monkeypatch.context() as earlier:
        earlier.setattr("time.time_ns", lambda: now - 2 * 3600 * 10**9)
        hooked.write(*conversation_lines())
    done = ask("doctor")
    assert done.code == 1
    assert "the oldest 2 h ago" in done.out
    assert "stator ingest" in done.out


def test_doctor_warns_about_an_import_of_the_queue_that_died(hooked, ask):
    hooked.write(*conversation_lines(), name="taken-0")
    done = ask("doctor")
    assert done.code == 1
    assert "a program that began to import them is gone" in done.out


def test_doctor_counts_unusable_hook_lines_and_failed_hooks(hooked, ask):
    hooked.write(prompt(), agent="nobody")
    ask("ingest")
    (hooked.spool / "note").write_text("1 cursor: No space left on device\n")
    done = ask("doctor")
    assert done.code == 1
    assert "1 hook line could not be imported" in done.out
    assert "a hook failed to record 1 time" in done.out


def test_a_queue_that_cannot_be_imported_is_a_warning_beside_the_answer(hooked, ask, monkeypatch):
    def broken(*_, **__):
        raise OSError("the disk is on fire")

    hooked.write(*conversation_lines())
    monkeypatch.setattr("stator.hooks.ingest.ingest", broken)
    done = ask("ls")
    assert done.code == 0
    assert "the disk is on fire" in done.err
    assert "RuntimeWarning" not in done.err


def test_doctor_warns_about_a_queue_of_another_user(hooked, ask, monkeypatch):
    hooked.write(*conversation_lines())
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    result = ask("doctor")
    assert result.code == 1
    assert "belongs to another user" in result.out
