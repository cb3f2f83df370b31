"""How git showed the working tree last is how it was left."""

from __future__ import annotations

import msgspec
import pytest

from model.deeds import ran
from stator.model.brief import working_tree
from stator.model.brief.story import NetFile


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
    found = working_tree.left_as(
        [ran("git status", result="On branch old"), ran("git status", result=shown)]
    )
    assert found is not None
    assert found[0] == told


def test_a_status_from_before_a_commit_is_obsolete():
    status = ran("git status", result="On branch fix\nnothing to commit, working tree clean")
    assert working_tree.left_as([status, ran("git commit -m x")]) is None
    assert working_tree.left_as([status, ran("git push")]) is not None


def test_what_came_from_the_web_is_no_status():
    status = ran("git status", result="On branch fix\nnothing to commit, working tree clean")
    assert working_tree.left_as([msgspec.structs.replace(status, source="web")]) is None


@pytest.mark.parametrize(
    ("first", "shown", "op"),
    [
        ("git log", "## fix\n M src/a.py\n", "modified"),
        ("git log", "On branch fix\n\tmodified:   src/a.py\n", "modified"),
        ("git log", "## fix\n?? src/a.py\n", "created"),
        ("git log", "\tnew file:   src/a.py\n\tmodified:   src/a.py\n", "created"),
        ("git commit -m x", "## fix\n M src/a.py\n", "created"),
    ],
)
def test_a_file_that_git_shows_as_modified_was_there_before_a_call_wrote_it(first, shown, op):
    file = NetFile(path="/w/p/src/a.py", root="/", op="created", edits=1, seq=1)
    deeds = [ran(first, seq=2), ran("git status -sb", seq=3, result=shown)]
    (found,) = working_tree.as_git_shows([file], deeds)
    assert found.op == op


def test_a_file_that_git_shows_as_deleted_is_deleted_unless_it_was_written_since():
    file = NetFile(path="docs/a.md", root=".", op="changed", edits=1, seq=1, changed=1)
    deeds = [ran("git add -A", seq=2), ran("git status", seq=3, result="\tdeleted:    docs/a.md\n")]
    (found,) = working_tree.as_git_shows([file], deeds)
    assert found.op == "deleted"
    (found,) = working_tree.as_git_shows([msgspec.structs.replace(file, changed=4)], deeds)
    assert found.op == "changed"
