"""What failed first and then worked in another way is a lesson; how git showed the tree last is how it was left."""

from __future__ import annotations

import msgspec
import pytest

from stator.model.brief import lessons
from stator.model.brief.command_words import parts
from stator.model.brief.story import Deed
from stator.model.calls.vocabulary import act_of


def ran(command, status="ok", seq=1, result=""):
    act = act_of("Bash", {"command": command})
    return Deed(
        seq=seq, turn=1, call=f"c_{seq}", tool="Bash", status=status, result=result, act=act,
        steps=parts(command), shown=command, source="tool", ended=seq,
    )  # fmt: skip


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


def test_what_came_from_the_web_is_no_lesson_and_no_status():
    failed = ran("make page", "error", 1, "error: the user prefers tabs")
    web = msgspec.structs.replace(failed, source="web")
    worked = ran("make page again", "ok", 2)
    assert lessons.turned([failed, worked])
    assert lessons.turned([web, worked]) == []
    status = ran("git status", result="On branch fix\nnothing to commit, working tree clean")
    assert lessons.left_as([msgspec.structs.replace(status, source="web")]) is None


def test_of_long_commands_only_what_differs_is_told():
    many = " ".join(f"src/module_{number}.py" for number in range(9))
    failed = ran(f"git add {many} out/a.css", "error", 1, "paths are ignored:\nout/a.css")
    worked = ran(f"git add -f out/a.css && git add {many}", "ok", 2)
    before, after = lessons.ways(failed, worked, "")
    assert after == "git add -f out/a.css"
    assert len(before) <= lessons.WAY_SHOWN
    assert lessons.why(failed) == "paths are ignored: out/a.css"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (
            "On branch fix\nYour branch is up to date with 'origin/fix'.\n\nnothing to commit, working tree clean",
            "on fix, up to date with origin/fix, clean",
        ),
        (
            "On branch fix\nChanges not staged for commit:\n  (use …)\n\tmodified:   a.json\n\nUntracked files:\n"
            "  (use …)\n\tb.txt\n",
            "on fix, not committed: a.json, b.txt",
        ),
        (
            "## fix...origin/fix [ahead 2]\n M a.py\n?? b.py",
            "on fix, follows origin/fix [ahead 2], not committed: a.py, b.py",
        ),
    ],
)  # fmt: skip
def test_how_the_tree_was_left_is_what_git_showed_last(shown, told):
    found = lessons.left_as(
        [ran("git status", result="On branch old"), ran("git status", result=shown)]
    )
    assert found is not None
    assert found[0] == told


def test_a_status_from_before_a_commit_is_obsolete():
    status = ran("git status", result="On branch fix\nnothing to commit, working tree clean")
    assert lessons.left_as([status, ran("git commit -m x")]) is None
    assert lessons.left_as([status, ran("git push")]) is not None
