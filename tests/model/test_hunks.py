"""Changed places: applied exactly or not at all, and shown so that git accepts them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stator.model.exchange.hunks import (
    Hunk,
    Swap,
    applied,
    counts,
    from_plain,
    from_records,
    from_unified,
    to_plain,
)
from stator.model.views.patch import FilePatch, FileSide, PatchPart, file_patch, text_of

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "é\f\n", "\\ x\n", "-\n"]), max_size=12
)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "end"]))


def hunks_between(before, after):
    made = file_patch("f", ".", FileSide("f", before.encode()), FileSide("f", after.encode()))
    return from_unified(made.patch) if made is not None else ()


@given(TEXTS, TEXTS)
def test_the_hunks_of_two_texts_make_the_one_of_the_other(before, after):
    found = hunks_between(before, after)
    assert applied(found, before) == after
    assert applied(from_plain(to_plain(found)), before) == after


@given(TEXTS, TEXTS, TEXTS)
def test_hunks_that_do_not_fit_make_nothing(before, after, other):
    found = hunks_between(before, after)
    made = applied(found, other)
    if made is not None and found:
        assert hunks_between(other, made)


@given(TEXTS, TEXTS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_git_applies_hunks_whose_lines_have_numbers(tmp_path, before, after):
    found = hunks_between(before, after)
    assert git_applies(tmp_path, before, found) in (after, before if not found else None, None)
    if found and shows_lines(found):
        assert git_applies(tmp_path, before, found) == after


LONG = st.lists(st.sampled_from(["a\n", "b\n", "\n"]), max_size=40).map("".join)


@given(LONG, LONG)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_git_applies_the_patch_between_texts_that_repeat_themselves(tmp_path, before, after):
    made = file_patch("f", ".", FileSide("f", before.encode()), FileSide("f", after.encode()))
    if made is None:
        return
    (tmp_path / "f").write_bytes(before.encode())
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(
        command, cwd=tmp_path, input=made.patch.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, (made.patch, done.stderr)
    assert (tmp_path / "f").read_bytes() == after.encode()


UNIQUE = st.lists(st.integers(0, 10**6), min_size=8, max_size=30, unique=True)


@given(UNIQUE, st.integers(2, 5), st.integers(0, 2))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_git_finds_hunks_whose_lines_have_no_numbers(tmp_path, numbers, at, taken):
    lines = [f"line {n}\n" for n in numbers]
    before, after = "".join(lines), "".join([*lines[:at], "new\n", *lines[at + taken :]])
    body = "".join(
        [
            f" {lines[at - 1]}",
            *(f"-{x}" for x in lines[at : at + taken]),
            "+new\n",
            f" {lines[at + taken]}",
        ]
    )
    found = (Hunk(body),)
    assert applied(found, before) == after
    assert git_applies(tmp_path, before, found) == after


def shows_lines(places):
    return "\ndiff --git" in shown(places)


def shown(places):
    part = PatchPart(turn=1, seq=1, places=places)
    return text_of([FilePatch(path="f", change="changed", parts=(part,))])


def git_applies(folder, before, places):
    """What git makes of a file; None where the places are shown as comments."""
    (folder / "f").write_bytes(before.encode())
    if not shows_lines(places):
        return None
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(
        command, cwd=folder, input=shown(places).encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, (before, shown(places), done.stderr)
    return (folder / "f").read_bytes().decode()


def test_a_hunk_that_fits_twice_is_not_applied():
    assert applied((Hunk(" a\n-b\n+c\n"),), "a\nb\na\nb\n") is None


def test_a_text_that_is_there_twice_is_replaced_only_if_every_one_is_meant():
    assert applied((Swap("a", "b"),), "a a") is None
    assert applied((Swap("a", "b", every=True),), "a a") == "b b"


def test_a_replaced_text_is_shown_as_a_comment_because_it_may_begin_inside_a_line():
    text = shown((Swap("one", "two\nthree"),))
    assert all(line.startswith("#") for line in text.splitlines())
    assert "#   -one\n#   +two\n#   +three\n" in text


def test_a_hunk_without_a_line_after_it_is_shown_as_a_comment_if_nobody_says_where_it_is():
    assert "diff --git" not in shown((Hunk(" a\n-b\n+c\n"),))


@pytest.mark.parametrize(
    "odd", [None, 3, [3], [{"lines": 3}], [{"lines": ["a\nb"]}], [{"lines": [3]}], {"a": 1}]
)
def test_a_structured_patch_of_another_shape_holds_no_hunks(odd):
    assert from_records(odd) == ()


@pytest.mark.parametrize("odd", [None, 3, [3], [{}], [{"body": 3}], [{"before": "a"}], {"a": 1}])
def test_kept_places_of_another_shape_are_none(odd):
    assert from_plain(odd) == ()


@pytest.mark.parametrize("body", ["", "\n", "x\n", " a\n", "\\ x\n", "-a\n\\ no\n-b\n"])
def test_a_body_that_is_no_hunk_changes_nothing(body):
    assert applied((Hunk(body),), "a\n") is None


@pytest.mark.parametrize("text", ["", "@@ x", "@@ -1,9 +1 @@\n-a\n", "@@ -1 +1 @@\n?a\n"])
def test_a_diff_that_is_not_whole_holds_no_hunks(text):
    assert from_unified(text) == ()


def test_lines_that_came_and_went_are_counted():
    assert counts((Hunk(" a\n-b\n+c\n+d\n"), Swap("x\ny", ""))) == (2, 3)
