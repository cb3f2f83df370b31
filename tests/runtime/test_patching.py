"""Patches of a range: the net change of what this session wrote, in git or out of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import stator
from stator.model.patch import text_of


@pytest.fixture
def session(store):
    with store.open("a") as s:
        yield s


def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def turn(session, *writes):
    """A turn that writes (path, text) pairs; None as the text deletes."""

    def work():
        for path, content in writes:
            if content is None:
                os.remove(path)
            else:
                put(path, content)

    with session.turn("x", new=True) as t:
        t.call(work)


def changes(patches):
    return {patch.path: patch.change for patch in patches}


def tree(folder) -> dict[str, bytes]:
    found = Path(folder).rglob("*")
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in found
        if p.is_file() and ".git" not in p.parts and ".db" not in p.name
    }


def apply(folder, patches):
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    text = text_of(patches).encode()
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, check=False)
    assert done.returncode == 0, (text, done.stderr)


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


def test_a_patch_is_of_the_last_turn_by_default(session):
    session.track(contents=True)
    turn(session, ("a.py", "1\n"))
    turn(session, ("b.py", "1\n"))
    assert changes(session.patch()) == {"b.py": "added"}


def test_git_takes_the_patch_of_a_range_outside_git(session, tmp_path, tmp_path_factory):
    for name in ("a.py", "deep/b.py", "gone.py"):
        put(name, f"of {name}\nsecond\n")
    before, other = tree(tmp_path), tmp_path_factory.mktemp("other")
    session.track(contents=True)
    turn(session, ("a.py", "new\n"), ("new.py", "x"), ("gone.py", None))
    turn(session, ("deep/b.py", ""), ("new.py", "xy\n"), ("passing", "1"))
    turn(session, ("passing", None))
    for name, data in before.items():
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_bytes(data)
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


def test_only_what_this_session_wrote_is_shown_and_not_what_git_says_is_dirty(session):
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


def test_what_was_not_kept_is_listed_with_the_reason(session):
    session.track(contents=True, max_bytes=5)
    turn(session, ("big.txt", "too long to keep"))
    (found,) = session.patch("t1")
    assert (found.change, found.patch, found.reason) == ("added", "", "not kept: size")


def test_files_whose_contents_nobody_asked_to_keep_are_listed_as_such(session):
    session.track()
    turn(session, ("a.py", "1\n"))
    (found,) = session.patch("t1")
    assert (found.change, found.reason) == ("added", "not kept")


def test_two_forks_are_compared_by_what_their_files_hold(store):
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


def test_a_range_turned_round_is_the_patch_back(session):
    put("a.py", "1\n")
    session.track(contents=True)
    turn(session, ("a.py", "22\n"))
    (found,) = session.patch("t1", "t0")
    assert "-22\n+1\n" in found.patch


def test_recorded_content_that_is_not_what_its_digest_says_is_not_shown(store):
    from stator.model.commit import Upsert
    from stator.model.state import FileRecord

    with store.open("a") as s, s.turn("x"):
        forged = s._draft("file", input={"contents": {"0" * 16: {"data": "evil", "mode": 0o644}}})
        record = FileRecord(path="a", op="created", after="0" * 16, after_in=forged.id)
        s._append([forged, s._draft("file", changes=(Upsert("files", record),))])
    (found,) = store.read("a").patch("t1")
    assert found.reason == "not kept: what is recorded is something else"
