"""Which shell commands prove a check, and what a step then reads. Pure."""

from __future__ import annotations

import pytest

from stator.model.exchange.check_lines import ending_of, tidy
from stator.model.exchange.tool_files import command_of
from stator.model.records.types import PlanRecord
from stator.model.views.checked import CheckRun, FileChanged, read_step

STEP = PlanRecord(step="tests pass", check="pytest -q", files=["a.py"], status="done")


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "  pytest   -q ",
        "make build && pytest -q",
        "pytest -q && echo fine",
        "cd . && pytest -q",
        "cd /repo && pytest -q",
        "cd '/repo/' && pytest -q",
        "echo begin; pytest -q",
        "echo begin\npytest -q",
        "pytest -q && cd /elsewhere && ls",
    ],
)
def test_a_line_that_could_not_succeed_without_the_check_proves_it(command):
    assert ending_of("pytest -q", command, "ok", "", ["/repo"]) == "ok"


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q | tail -5",
        "pytest -q || true",
        "pytest -q; echo done",
        "pytest -q\necho done",
        "pytest -q &",
        "(pytest -q; true)",
        "if pytest -q; then echo; fi",
        "! pytest -q",
        "echo pytest -q",
        "echo 'pytest -q'",
        "pytest -qq",
        "cd /elsewhere && pytest -q",
        "cd sub; pytest -q",
        "command cd sub && pytest -q",
        "CDPATH=x cd sub && pytest -q",
        "set -n && pytest -q",
        "hash -p /bin/true pytest && pytest -q",
        "cat <<E\npytest -q\nE",
        "true # pytest -q",
        "exit 0; pytest -q",
        "pytest(){ true; }; pytest -q",
        "",
    ],
)
def test_a_line_that_may_succeed_without_the_check_says_nothing_of_it(command):
    assert ending_of("pytest -q", command, "ok", "", ["/repo"]) is None


def test_a_check_of_several_commands_is_proved_as_a_whole():
    assert ending_of("make && make test", "make && make test && ls", "ok", "") == "ok"
    assert ending_of("make && make test", "make test && make", "ok", "") is None


@pytest.mark.parametrize("status", ["error", "timeout"])
def test_a_line_with_the_check_that_failed_says_that_it_failed(status):
    assert ending_of("pytest -q", "cd /repo && pytest -q", status, "", ["/repo"]) == "failed"


@pytest.mark.parametrize("status", ["in doubt", "denied", "cancelled", "started", "requested"])
def test_a_call_without_a_known_end_says_nothing(status):
    assert ending_of("pytest -q", "pytest -q", status, "") is None


@pytest.mark.parametrize(
    "output",
    [{"exit_code": 1}, {"exitCode": 2}, {"returncode": -9}, {"metadata": {"exit_code": 1}}],
)
def test_an_exit_code_in_the_output_counts_more_than_the_status(output):
    assert ending_of("pytest -q", "pytest -q", "ok", output) == "failed"


@pytest.mark.parametrize("output", [{"exit_code": 0}, {"exit_code": "x"}, {"a": 1}, None, [1], "1"])
def test_an_output_without_another_exit_code_does_not_contradict_the_status(output):
    assert ending_of("pytest -q", "pytest -q", "ok", output) == "ok"


def test_blanks_in_quotes_are_part_of_a_command():
    assert tidy("grep  'a  b'   f") == "grep 'a  b' f"
    assert ending_of("grep 'a b' f", "grep 'a  b' f", "ok", "") is None


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "ls"}, "ls"),
        ({"cmd": "ls"}, "ls"),
        ({"command": ["bash", "-lc", "ls -l"]}, "ls -l"),
        ({"args": ["pytest", "-q"]}, "pytest -q"),
        ({"args": {"deep": 1}}, ""),
        ({"command": ["ls", 1]}, ""),
        ({"path": "a"}, ""),
        ("ls", ""),
        (None, ""),
    ],
)
def test_the_command_of_a_call_is_found_in_any_vocabulary(arguments, command):
    assert command_of(arguments) == command


def test_a_step_without_a_check_reads_claimed():
    read = read_step(PlanRecord(step="a", status="done"), [CheckRun(5, "ok")], [])
    assert (read.status, read.because) == ("claimed", "it names no check")


def test_a_step_whose_check_succeeded_after_the_last_change_reads_done():
    read = read_step(STEP, [CheckRun(5, "ok")], [FileChanged(4, "a.py")])
    assert (read.status, read.because, read.shown_by) == ("done", "", 5)


def test_a_step_whose_files_changed_since_reads_claimed_and_names_the_file():
    read = read_step(STEP, [CheckRun(5, "ok")], [FileChanged(6, "a.py")])
    assert (read.status, read.because) == ("claimed", "changed since the check: a.py")


def test_what_the_check_itself_changed_is_covered_by_its_success():
    own = [FileChanged(6, "report.xml", "c_1")]
    assert read_step(STEP, [CheckRun(5, "ok", "c_1")], own).status == "done"
    assert read_step(STEP, [CheckRun(5, "ok", "c_2")], own).status == "claimed"


def test_a_step_whose_check_failed_last_reads_claimed_and_says_where():
    read = read_step(STEP, [CheckRun(5, "ok"), CheckRun(9, "failed")], [])
    assert (read.status, read.because) == ("claimed", "its check failed at @9")


def test_what_was_not_looked_at_proves_nothing():
    read = read_step(STEP, [CheckRun(5, "ok")], [], "too much happened")
    assert (read.status, read.because) == ("claimed", "too much happened")
