"""The retention plan: what is removed when, what is kept, and what stops a run."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.model.sessions.retention import (
    UNITS,
    WINDOW,
    Subject,
    check_retention,
    parse,
    parse_size,
    plan,
    shown,
)

DAY = UNITS["d"]
NOW = 1000 * DAY


def subject(name, days=0, **fields):
    """A session that was last used that many days ago."""
    return Subject(session=name, name=name, active=NOW - days * DAY, **fields)


def planned(subjects, *words, now=NOW, **options):
    policy = {name: value for name, value in parse(words).items() if value is not None}
    return plan(subjects, lambda one: policy, now, **options)


def what(made):
    return {(action.what, action.session) for action in made.actions}


def skipped(made):
    return {(one.session, one.why) for one in made.skipped}


def test_nothing_is_removed_without_a_policy():
    assert planned([subject("a", 10_000)]).actions == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("archive=30d", "archive"), ("transcript=30d", "expire"), ("trash=30d", "trash")],
)
def test_each_policy_acts_once_a_session_reaches_its_age(word, expected):
    found = planned([subject("young", 29), subject("old", 30)], word)
    assert what(found) == {(expected, "old")}


def test_a_session_due_for_the_trash_is_not_archived_first():
    assert what(planned([subject("a", 100)], "archive=1d", "transcript=1d", "trash=90d")) == {
        ("trash", "a")
    }


def test_an_archived_session_is_not_archived_again():
    assert planned([subject("a", 100, status="archived")], "archive=1d").actions == []


def test_a_transcript_expires_once():
    assert planned([subject("a", 100, expired=True)], "transcript=1d").actions == []


def test_the_trash_is_purged_after_thirty_days_unless_a_policy_changes_it():
    fresh, old = (
        subject(n, 500, trashed=NOW - days * DAY) for n, days in (("fresh", 29), ("old", 30))
    )
    assert what(planned([fresh, old])) == {("purge", "old")}
    assert what(planned([fresh, old], "purge=10d")) == {("purge", "old"), ("purge", "fresh")}
    assert what(planned([fresh, old], "purge=never")) == set()
    assert WINDOW == 30 * DAY


def test_a_session_used_after_it_was_trashed_is_restored():
    used = subject("a", 1, trashed=NOW - 500 * DAY, returned=True)
    assert what(planned([used], "purge=1d")) == {("restore", "a")}


@pytest.mark.parametrize("days", [0, 400])
def test_the_newest_sessions_of_each_project_are_kept(days):
    ours = [subject(f"ours {n}", days + n, project="ours") for n in range(4)]
    theirs = [subject(f"theirs {n}", days + n + 100, project="theirs") for n in range(2)]
    found = planned([*ours, *theirs], "trash=1h", "keep=2")
    gone = {session for _, session in what(found)}
    assert gone == {"ours 2", "ours 3"}


@pytest.mark.parametrize(
    "fields", [{"held": True}, {"busy": "driven"}, {"busy": "a call in doubt"}]
)
@pytest.mark.parametrize("trashed", [0, NOW - 300 * DAY])
def test_a_held_or_busy_session_is_skipped_with_the_reason(fields, trashed):
    found = planned([subject("a", 400, trashed=trashed, **fields)], "trash=1d", "archive=1d")
    assert what(found) == set()
    assert skipped(found) == {("a", "held" if "held" in fields else fields["busy"])}


def test_a_session_is_kept_while_a_kept_fork_needs_it():
    parent = subject("parent", 400, heirs=("fork",))
    found = planned([parent, subject("fork", 1)], "trash=90d", "transcript=30d")
    assert what(found) == set()
    assert skipped(found) == {("parent", "needed by a fork")}


def test_forks_are_purged_before_their_parent():
    parent = subject("parent", 400, heirs=("child", "grandchild"), trashed=NOW - 40 * DAY)
    child = subject("child", 400, heirs=("grandchild",), trashed=NOW - 40 * DAY, depth=1)
    grandchild = subject("grandchild", 400, trashed=NOW - 40 * DAY, depth=2)
    found = planned([parent, child, grandchild])
    assert [action.session for action in found.actions] == ["grandchild", "child", "parent"]


def test_a_session_and_its_adopted_retry_are_purged_together():
    original = subject("original", 400, heirs=("retry",), trashed=NOW - 40 * DAY)
    retry = subject("retry", 400, heirs=("original",), trashed=NOW - 40 * DAY, depth=1)
    found = planned([original, retry])
    assert [action.session for action in found.actions] == ["retry", "original"]
    kept = msgspec.structs.replace(original, held=True)
    assert what(planned([kept, retry])) == set()


def test_a_hold_on_a_fork_keeps_all_its_ancestors():
    parent = subject("parent", 400, heirs=("child", "grandchild"))
    child = subject("child", 400, heirs=("grandchild",))
    found = planned([parent, child, subject("grandchild", 400, held=True)], "trash=90d")
    assert what(found) == set()


def test_the_size_limit_removes_the_oldest_first():
    rows = [subject(f"{n}", n, bytes=100) for n in range(10)]
    found = planned(rows, max_bytes=750)
    assert [action.session for action in found.actions] == ["9", "8", "7"]
    assert {action.why for action in found.actions} == {"max size"}


def test_the_size_limit_does_not_remove_held_sessions():
    rows = [subject("old", 9, bytes=100, held=True), subject("new", 1, bytes=100)]
    assert what(planned(rows, max_bytes=0)) == {("trash", "new")}


def test_a_run_that_would_remove_more_than_a_tenth_stops():
    rows = [subject(f"{n}", 400 if n < 2 else 0) for n in range(20)]
    assert planned(rows, "trash=90d").breaker == ""
    assert "3 of 20 sessions" in planned([*rows[:-1], subject("x", 400)], "trash=90d").breaker


def test_a_run_that_would_remove_too_many_bytes_stops():
    rows = [subject("big", 400, bytes=2 * 10**9), *(subject(f"{n}") for n in range(99))]
    assert "bytes" in planned(rows, "trash=90d").breaker


def test_archiving_never_triggers_the_stop():
    assert planned([subject("a", 400)], "archive=1d").breaker == ""


@given(st.integers(0, 2000), st.integers(-5000, 5000))
def test_a_clock_set_back_makes_nothing_due(days, jump):
    """If nothing is due by the right clock, nothing is due by an earlier one."""
    one = subject("a", days)
    earlier = planned([one], "trash=90d", "archive=30d", now=NOW - abs(jump) * DAY)
    assert what(earlier) <= what(planned([one], "trash=90d", "archive=30d")) | {("archive", "a")}
    if days < 30:
        assert what(earlier) == set()


@given(
    st.lists(
        st.builds(
            lambda n, days, held, trashed, size: (n, days, held, trashed, size),
            st.integers(0, 50), st.integers(0, 400), st.booleans(), st.booleans(), st.integers(0, 10**6),
        ),
        unique_by=lambda row: row[0],
    ),
    st.integers(0, 10**7),
)  # fmt: skip
def test_no_plan_touches_a_held_session_or_names_a_session_twice(rows, size):
    subjects = [
        subject(str(n), days, held=held, bytes=each, trashed=NOW - days * DAY if trashed else 0)
        for n, days, held, trashed, each in rows
    ]
    found = planned(
        subjects, "trash=90d", "archive=30d", "transcript=60d", "keep=3", max_bytes=size
    )
    held = {one.session for one in subjects if one.held}
    assert not held & {action.session for action in found.actions}
    assert len(what(found)) == len(found.actions)


@pytest.mark.parametrize("word", ["trash=90d", "keep=20", "archive=12h", "transcript=never"])
def test_a_policy_is_shown_as_it_is_typed(word):
    ((name, value),) = parse([word]).items()
    assert value is not None
    assert shown(name, value) == word


@pytest.mark.parametrize(
    "word",
    [
        "trash",
        "trash=",
        "trash=9",
        "trash=0d",
        "trash=-1d",
        "keep=1d",
        "keep=",
        "all=1d",
        "trash=1y",
        "trash=99999w",
    ],
)
def test_an_invalid_policy_is_refused(word):
    with pytest.raises(InvalidInput):
        parse([word])


def test_off_removes_a_policy():
    assert parse(["trash=off"]) == {"trash": None}


@pytest.mark.parametrize("policies", [{"trash": "90d"}, {"trash": -1}, {"more": 1}, {"keep": True}])
def test_an_invalid_policy_is_never_recorded(policies):
    with pytest.raises(InvalidInput):
        check_retention(policies)


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("1.5 mb", 1_500_000), ("0B", 0)])
def test_a_size_is_parsed_with_its_unit(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "2", "GB", "-1GB", "2 apples"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_size(text)
