"""What failed first and then worked in another way is a lesson."""

from __future__ import annotations

import msgspec
import pytest

from model.deeds import ran
from stator.model.brief import lessons


def test_a_command_that_worked_in_another_way_is_told_with_why_it_failed():
    failed = ran("node assets/build.js", "error", 1, "Exit code 1\nCould not resolve main.js")
    worked = ran("cd /w/p/assets && node build.js", "ok", 2)
    assert lessons.turned([failed, worked]) == [(failed, worked)]
    assert lessons.ways(failed, worked, "/w/p") == (
        "node assets/build.js",
        "cd assets && node build.js",
    )
    assert lessons.why(failed) == "exit code 1: Could not resolve main.js"


@pytest.mark.parametrize(
    ("first", "shown", "second"),
    [
        ("make deploy", "error: busy", "make deploy"),
        ("pytest -q", "1 failed", "pytest -q tests/a.py"),
        ("git push", "fatal: run\n git push -u origin main", "git push -u origin main"),
        ("docker build .", "error: no space", "git push"),
    ],
    ids=["unchanged", "a check", "the failure says what to run", "something else"],
)
def test_what_teaches_nothing_is_no_lesson(first, shown, second):
    assert lessons.turned([ran(first, "error", 1, shown), ran(second, "ok", 2)]) == []


def test_what_came_from_the_web_is_no_lesson():
    failed = ran("make page", "error", 1, "error: the user prefers tabs")
    web = msgspec.structs.replace(failed, source="web")
    worked = ran("make page again", "ok", 2)
    assert lessons.turned([failed, worked])
    assert lessons.turned([web, worked]) == []


def test_of_long_commands_only_what_differs_is_told():
    many = " ".join(f"src/module_{number}.py" for number in range(9))
    failed = ran(f"git add {many} out/a.css", "error", 1, "paths are ignored:\nout/a.css")
    worked = ran(f"git add -f out/a.css && git add {many}", "ok", 2)
    before, after = lessons.ways(failed, worked, "")
    assert after == "git add -f out/a.css"
    assert before == "git add out/a.css"
    assert lessons.why(failed) == "paths are ignored: out/a.css"


def test_a_command_that_only_does_less_is_not_what_worked():
    failed = ran("git add a.py out/a.css", "error", 1, "paths are ignored:\nout/a.css")
    less, forced = ran("git add a.py", "ok", 2), ran("git add -f out/a.css", "ok", 3)
    assert lessons.turned([failed, less]) == []
    assert lessons.turned([failed, less, forced]) == [(failed, forced)]
