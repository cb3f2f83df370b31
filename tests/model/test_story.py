"""Requests, failures, checks and files are read from structure; what was repaired since does not count."""

from __future__ import annotations

import pytest

from model.deeds import ran
from stator.model.brief import check_runs, lines
from stator.model.brief import story as stories
from stator.model.brief.path_groups import common_folder, grouped
from stator.model.brief.story import NetFile, PersonRequest, SessionStory
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.types import FileRecord, file_key


def test_a_request_that_says_nothing_is_none():
    asked = [
        PersonRequest(text, seq, seq)
        for seq, text in enumerate(["fix the login", "ok", "continue", "yes"])
    ]
    assert [one.text for one in stories.requests(asked)] == ["fix the login"]


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        ("git push 2>&1", "git push -u origin main 2>&1 | tail -3"),
        ("npm run build", "cd app && npm run build"),
        ("cp a fixtures/b.json", "mkdir -p fixtures && cp a fixtures/b.json"),
    ],
)
def test_a_failure_that_a_later_call_repaired_is_not_told(failed, later):
    assert stories.unrepaired([ran(failed, "error", 1), ran(later, "ok", 2)]) == []


def test_a_failure_that_nothing_repaired_is_told_once_with_how_often():
    deeds = [
        ran("make deploy", "error", 1),
        ran("make lint", "ok", 2),
        ran("make deploy", "error", 3),
    ]
    ((deed, times),) = stories.unrepaired(deeds)
    assert (deed.seq, times) == (3, 2)


@pytest.mark.parametrize(
    "command", ['grep -n "a\\|b" x.py', "ls missing", "cd src && cat x | head"]
)
def test_a_search_that_found_nothing_is_no_failure(command):
    assert stories.unrepaired([ran(command, "error")]) == []


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "npm run lint",
        "pnpm --filter @repo/app check-types",
        "cargo test",
        "uv run mypy src",
    ],
)
def test_tests_linters_and_type_checkers_are_checks(command):
    assert stories.is_check(ran(command))


@pytest.mark.parametrize(
    "command",
    [
        "cat eslint.config.js",
        'git commit -m "make the test pass"',
        "ls tests",
        "git push origin test",
    ],
)
def test_a_command_that_only_names_a_check_is_none(command):
    assert not stories.is_check(ran(command))


def test_the_status_of_a_check_behind_a_pipe_is_not_believed():
    assert check_runs.check_ending(ran("make test | tail -3")) == "ran"
    assert (
        check_runs.check_ending(ran("make test", result="== 3 failed, 9 passed"))
        == "ok, 3 failed, 9 passed"
    )


def test_the_message_of_a_revision_is_told_without_its_trailers():
    text = (
        "Fix the login so that it works after a restart of the whole service\n\nCo-Authored-By: A"
    )
    ((message, _),) = stories.messages([ran(f"git commit -m \"$(cat <<'EOF'\n{text}\nEOF\n)\"")])
    assert message == "Fix the login so that it works after a restart of the whole service"


def test_changed_code_that_nothing_checked_is_told_if_there_was_a_shell():
    def unchecked(path, *deeds):
        files = [NetFile(path=path, root=".", op="modified", edits=1, seq=1)]
        told = SessionStory(asked=[], said=[], summary=None, deeds=[*deeds], files=files)
        return lines.unchecked(told, files)

    assert unchecked("a.py", ran("ls")) == "No test, linter or build was run."
    assert not unchecked("a.py", ran("ls"), ran("pytest -q"))
    assert not unchecked("notes.md", ran("ls"))
    assert not unchecked("a.py")


def test_files_are_grouped_by_folder_and_what_does_not_fit_is_counted():
    names = [("src/a.py", "×3"), ("src/b.py", ""), ("docs/c.md", "")]
    assert grouped(names, 100) == ("src/a.py ×3, b.py; docs/c.md", 0)
    assert grouped(names, 20) == ("src/a.py ×3", 2)


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["/home/u/w/p/a.py", "/home/u/w/p/src/b.py"], "/home/u/w/p"),
        (["/home/u/x.py", "/home/v/y.py"], ""),
        (["a.py", "b.py"], ""),
        (["/home/u/w/p/a.py"], "/home/u/w/p"),
    ],
)
def test_the_folder_of_absolute_paths_is_found_unless_it_is_a_home(paths, folder):
    assert common_folder(paths) == folder


def test_git_that_finds_nothing_to_commit_did_not_fail():
    done = ran(
        "git commit -m x", "error", result="On branch main\nnothing to commit, working tree clean"
    )
    assert stories.unrepaired([done]) == []


def test_the_tests_of_one_file_are_not_counted_as_all():
    shown = " ✓ test/a.test.js (4 tests) 131ms\n"
    assert check_runs.check_ending(ran("npx vitest run", result=shown)) == "ok"
    whole = shown + " Test Files  2 passed (2)\n Tests  16 passed (16)\n"
    assert "16 passed (16)" in check_runs.check_ending(ran("npx vitest run", result=whole))


def touched(seq, op, was=0):
    record = FileRecord(path="src/a.py", root=".", op=op)
    return Commit(
        id=f"k_{seq}", session="s", seq=seq, kind="outcome", turn=1, at=seq, hash="", prev="",
        delta=[Put("files", file_key(".", "src/a.py"), record, was)],
    )  # fmt: skip


def test_a_file_that_earlier_commits_touched_reads_changed_and_not_modified():
    (found,) = stories.story([touched(700, "modified", was=20)]).files
    assert found.op == "changed"
    (found,) = stories.story([touched(1, "modified")]).files
    assert found.op == "modified"


def test_a_read_is_no_change():
    (found,) = stories.story([touched(1, "modified"), touched(2, "read", was=1)]).files
    assert (found.seq, found.changed) == (2, 1)
