"""Artifacts: named, versioned documents that are read back exactly, compared and found."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.conftest import memory_store
from stator.errors import Erased, InvalidInput, NotFound
from stator.runtime.views.artifacts import coarse, unified


@pytest.fixture
def session(either):
    with either.open("main") as opened:
        yield opened


def write(session, *contents, name="notes"):
    for content in contents:
        with session.turn("write") as t:
            t.artifact(name, content)


def test_each_version_is_read_back_exactly(session):
    contents = ["text\n", {"a": [1, 2.5, None]}, b"\x00\xff", ("tuple", 3), "\ud800"]
    write(session, *contents)
    assert session.read_artifact("notes") == contents[-1]
    assert [session.read_artifact("notes", n) for n in range(1, 6)] == contents


def test_a_large_document_is_read_back_whole(session):
    write(session, "x" * 500_000)
    assert session.read_artifact("notes") == "x" * 500_000


def test_the_list_has_the_newest_version_of_each_artifact(session):
    write(session, "a", "b")
    write(session, [1], name="data")
    assert [(found.name, found.version, found.turn) for found in session.artifacts()] == [
        ("data", 1, 3),
        ("notes", 2, 2),
    ]
    assert [found.version for found in session.artifact_versions("notes")] == [2, 1]


def test_the_error_of_a_missing_version_or_name_lists_the_existing_ones(session):
    write(session, "a")
    with pytest.raises(NotFound, match="the newest is 1"):
        session.read_artifact("notes", 7)
    for ask in (session.read_artifact, session.artifact_versions, session.artifact_diff):
        with pytest.raises(NotFound, match="there is 'notes'"):
            ask("nothing")


def test_a_rewound_artifact_is_read_only_by_its_version(either):
    with either.open("a") as s:
        start = s.head.seq
        with s.turn("write") as t:
            t.artifact("notes", "left behind")
        s.rewind(f"@{start}")
        assert s.artifacts() == []
        with pytest.raises(NotFound, match="was rewound"):
            s.read_artifact("notes")
        assert s.read_artifact("notes", 1) == "left behind"


@pytest.mark.parametrize("asked", [(None,), (3,), ("notes", "1"), ("notes", True)])
def test_an_invalid_name_or_version_is_refused(session, asked):
    with pytest.raises(InvalidInput):
        session.read_artifact(*asked)


def test_reading_an_erased_version_is_an_error_and_the_others_are_kept(session):
    write(session, "first", "second")
    old = session.artifact_versions("notes")[1]
    session.erase(f"@{old.seq}", fields=["input"])
    with pytest.raises(Erased):
        session.read_artifact("notes", 1)
    assert session.read_artifact("notes") == "second"


def test_a_fork_reads_inherited_versions_and_continues_their_numbers(either):
    with either.open("main") as s:
        write(s, "one", "two")
        fork = s.fork(name="side")
        write(s, "three")
    with either.open("side") as side:
        assert side.id == fork
        assert side.read_artifact("notes") == "two"
        write(side, "other three")
        assert [side.read_artifact("notes", n) for n in (1, 2, 3)] == ["one", "two", "other three"]
    assert either.read("main").read_artifact("notes") == "three"


def test_the_diff_of_two_versions_is_unified(session):
    write(session, "a\nb\n", "a\nc\n", "a\nc\nd")
    assert session.artifact_diff("notes", 1, 2) == (
        "--- notes v1\n+++ notes v2\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert session.artifact_diff("notes") == (
        "--- notes v2\n+++ notes v3\n@@ -1,2 +1,3 @@\n a\n c\n+d\n"
    )
    assert session.artifact_diff("notes", b=1).startswith("--- notes v0\n+++ notes v1\n")
    assert session.artifact_diff("notes", 2, 2) == ""


def test_structured_versions_are_compared_as_json(session):
    write(session, {"b": 1, "a": 2}, {"a": 2, "b": 3})
    assert '-  "b": 1\n+  "b": 3\n' in session.artifact_diff("notes")


def test_binary_versions_are_compared_by_size(session):
    write(session, b"\xff" * 3, b"\xff" * 9)
    assert "+(9 bytes that are not text)" in session.artifact_diff("notes")


def test_the_newest_version_is_found_across_sessions_of_a_project(either):
    with either.open("first") as s:
        write(s, "one", name="progress")
    with either.open("second") as s:
        write(s, "two", name="progress")
    with either.open("first") as s:
        write(s, "three", name="progress")
    with either.open("elsewhere", project="other") as s:
        write(s, "four", name="progress")
    found = either.artifact("progress")
    assert (found.content, found.version) == ("three", 2)
    assert either.read(found.session).name == "first"
    assert either.artifact("progress", project="other").content == "four"
    with pytest.raises(NotFound):
        either.artifact("nothing")


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d"]), max_size=12)


def applied(old, diff):
    """The text that results from applying a unified diff."""
    new, place = [], 0
    for line in diff[2:]:
        if line.startswith("@@"):
            start = int(line.split("-")[1].split()[0].split(",")[0])
            count = line.split("-")[1].split()[0].split(",")[1:]
            first = start if count == ["0"] else start - 1
            new += old[place:first]
            place = first
        elif line[0] == "+":
            new.append(line[1:])
        else:
            assert old[place] == line[1:]
            place += 1
            new += [line[1:]] if line[0] == " " else []
    return new + old[place:]


@given(lines, lines, st.sampled_from([unified, coarse]))
def test_a_diff_turns_the_old_text_into_the_new(old, new, how):
    assert applied(old, how(old, new, "a", "b")) == new


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=20)
@given(st.lists(st.text(max_size=30) | st.binary(max_size=30), min_size=1, max_size=6))
def test_versions_are_numbered_from_one_without_gaps(contents):
    with memory_store().open("main") as session:
        write(session, *contents)
        versions = session.artifact_versions("notes")
        assert [found.version for found in versions] == list(range(len(contents), 0, -1))
        assert [session.read_artifact("notes", v.version) for v in versions] == contents[::-1]
