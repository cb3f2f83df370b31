"""Patches of a range: the net change of the files this session wrote, inside and outside git."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from runtime.file_writes import apply, fill, put, tree, turn
from stator.model.log.commit import Upsert
from stator.model.records.types import FileRecord
from stator.runtime.driving.observe import PATHS_MAX


@pytest.fixture
def session(store):
    with store.open("a") as s:
        yield s


def changes(patches):
    return {patch.path: patch.change for patch in patches}


def test_edits_fold_into_one_patch_from_the_first_content_to_the_last(session):
    put("a.py", "1\n2\n3\n")
    session.track(contents=True)
    turn(session, ("a.py", "1\nx\n3\n"))
    turn(session, ("a.py", "1\nyy\n3\n"))
    (found,) = session.patch("t0..t2")
    assert found.patch == (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n 1\n-2\n+yy\n 3\n"
    )
    assert (found.added, found.removed) == (1, 1)


def test_the_default_patch_is_that_of_the_last_turn(session):
    session.track(contents=True)
    turn(session, ("a.py", "1\n"))
    turn(session, ("b.py", "1\n"))
    assert changes(session.patch()) == {"b.py": "added"}


def test_git_applies_the_patch_of_a_folder_outside_git(session, tmp_path, tmp_path_factory):
    for name in ("a.py", "deep/b.py", "gone.py"):
        put(name, f"of {name}\nsecond\n")
    before, other = tree(tmp_path), tmp_path_factory.mktemp("other")
    session.track(contents=True)
    turn(session, ("a.py", "new\n"), ("new.py", "x"), ("gone.py", None))
    turn(session, ("deep/b.py", ""), ("new.py", "xy\n"), ("passing", "1"))
    turn(session, ("passing", None))
    fill(other, before)
    patches = session.patch("t0..t3")
    assert changes(patches) == {
        "a.py": "changed",
        "deep/b.py": "changed",
        "gone.py": "removed",
        "new.py": "added",
    }
    apply(other, patches)
    assert tree(other) == tree(tmp_path)


def test_a_file_that_ends_as_it_began_is_not_in_the_patch(session):
    put("a.py", "1\n")
    session.track(contents=True)
    turn(session, ("a.py", "22\n"))
    turn(session, ("a.py", "1\n"))
    assert session.patch("t0..t2") == []


def test_a_patch_shows_only_files_this_session_wrote(session):
    subprocess.run(["git", "init", "-q"], check=True)
    put("mine.py", "1\n")
    put("theirs.py", "1\n")
    session.track(contents=True)
    turn(session, ("mine.py", "22\n"))
    put("theirs.py", "by somebody else\n")
    assert changes(session.patch("t0..head")) == {"mine.py": "changed"}


def test_a_rename_is_one_change(session, tmp_path_factory):
    put("old.py", "1\n2\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(stator.tool(files="path")(lambda path: put(path, "1\n3\n")), path="old.py")
        os.rename("old.py", "new.py")
        t.file("new.py", "renamed", from_path="old.py")
    (found,) = session.patch("t1")
    assert (found.change, found.path, found.from_path) == ("renamed", "new.py", "old.py")
    other = tmp_path_factory.mktemp("other")
    (other / "old.py").write_text("1\n2\n")
    apply(other, [found])
    assert tree(other) == {"new.py": b"1\n3\n"}


def test_a_file_created_and_then_renamed_is_created(session):
    session.track(contents=True)
    with session.turn("x") as t:
        put("draft.py", "1\n")
        t.file("draft.py", "created")
        os.rename("draft.py", "final.py")
        t.file("final.py", "renamed", from_path="draft.py")
    assert changes(session.patch("t1")) == {"final.py": "added"}


def test_a_rewind_does_not_count_as_a_write_to_disk(store):
    put("a.py", "1\n")
    with store.open("s") as s:
        s.track(contents=True)
        turn(s, ("a.py", "two\n"))
        turn(s, ("a.py", "three\n"))
        s.rewind("t1")
        assert s.contents("a.py").data == b"two\n"
        (found,) = s.patch("t0..head")
        assert "+three\n" in found.patch
        (planned,) = s.restore("a.py", at="head").files
        assert (planned.action, planned.changed_since) == ("write", False)


def test_files_beyond_the_limit_are_counted(session):
    session.track(contents=True)
    turn(session, *((f"many/{n}", "1") for n in range(PATHS_MAX + 2)))
    found = session.patch("t1")
    assert (found[0].path, found[0].reason) == (".", "2 more files changed")
    assert len(found) == PATHS_MAX + 1


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_range_has_a_valid_patch_and_any_position_can_be_restored(
    data, tmp_path_factory, monkeypatch
):
    """A law over random turns that write and delete, while another program changes other files."""
    folder, other = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("other")
    monkeypatch.chdir(folder)
    names = st.sampled_from(["a", "b", "deep/c"])
    texts = st.sampled_from(["", "1\n", "1\n2\n", "1\n2", "x\ny\nz\n", "\x00\x01"])
    put("theirs", "0\n")
    with stator.connect(folder / "s.db", durability="relaxed") as store, store.open("s") as s:
        s.track(contents=True)
        ends = [(s.head.seq, tree(folder))]
        for _ in range(data.draw(st.integers(1, 4))):
            writes = dict(data.draw(st.lists(st.tuples(names, st.none() | texts), max_size=4)))
            there = tree(folder)
            turn(s, *((n, t) for n, t in writes.items() if t is not None or n in there))
            ends.append((s.head.seq, tree(folder)))
        first, last = data.draw(st.lists(st.sampled_from(ends), min_size=2, max_size=2))
        patches = s.patch(f"@{first[0]}", f"@{last[0]}")
        shown = {p.path for p in patches if p.reason.startswith("binary")}
        fill(other, first[1])
        apply(other, patches)
        assert visible(tree(other), shown) == visible(last[1], shown)
        s.restore(everything=True, at=f"@{first[0]}", apply=True)
        assert tree(folder) == first[1]


def visible(found, hidden):
    return {name: data for name, data in found.items() if name not in hidden}


def test_a_file_without_captured_contents_is_listed_with_the_reason(session):
    session.track(contents=True, max_bytes=5)
    turn(session, ("big.txt", "too long to keep"))
    (found,) = session.patch("t1")
    assert (found.change, found.patch, found.reason) == ("added", "", "not kept: size")


def test_files_tracked_without_contents_say_that_these_were_not_recorded(session):
    session.track()
    turn(session, ("a.py", "1\n"))
    (found,) = session.patch("t1")
    assert (found.change, found.reason) == ("added", "its contents were not recorded")


def test_two_forks_are_compared_by_file_contents(store):
    put("same.py", "0\n")
    with store.open("a") as s:
        s.track(contents=True)
        turn(s, ("shared.py", "1\n"))
    store.fork("a", as_name="b")
    with store.open("a") as s:
        s.track(contents=True)
        turn(s, ("shared.py", "from a\n"), ("only-a.py", "1\n"))
    put("shared.py", "1\n")
    os.remove("only-a.py")
    with store.open("b") as s:
        s.track(contents=True)
        turn(s, ("shared.py", "of b\n"), ("same.py", "changed in b\n"))
    view = store.read("a")
    found = {patch.path: patch for patch in view.patch("a:t2", "b:t2")}
    assert changes(found.values()) == {
        "only-a.py": "removed",
        "same.py": "changed",
        "shared.py": "changed",
    }
    assert "-from a\n+of b\n" in found["shared.py"].patch
    assert "-0\n+changed in b\n" in found["same.py"].patch


def test_a_reversed_range_gives_the_reverse_patch(session):
    put("a.py", "1\n")
    session.track(contents=True)
    turn(session, ("a.py", "22\n"))
    (found,) = session.patch("t1", "t0")
    assert "-22\n+1\n" in found.patch


def test_recorded_content_that_does_not_match_its_digest_is_not_shown(store):
    with store.open("a") as s, s.turn("x"):
        forged = s._draft("file", input={"contents": {"0" * 16: {"data": "evil", "mode": 0o644}}})
        record = FileRecord(path="a", op="created", after="0" * 16, after_in=forged.id)
        s._driver.append([forged, s._draft("file", changes=(Upsert("files", record),))])
    (found,) = store.read("a").patch("t1")
    assert found.reason == "not kept: what is recorded is something else"
