"""The turn of each line of a file, over the sessions of a project."""

from __future__ import annotations

import os

import pytest

from runtime.file_writes import put, turn
from stator.errors import InvalidInput


def sources(found):
    return [(line.source, line.turn) for line in found.lines]


def test_lines_have_the_turn_and_the_prompt_that_wrote_them(store):
    put("a.py", "one\ntwo\n")
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\nnew\ntwo\n"))
        turn(s, ("a.py", "one\nnew\ntwo\nlast\n"))
    found = store.blame("a.py")
    assert sources(found) == [("before", 0), ("recorded", 1), ("before", 0), ("recorded", 2)]
    assert [line.prompt for line in found.lines] == ["", "x", "", "x"]
    assert found.on_disk


def test_two_sessions_share_a_file(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    with store.open("second") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\ntwo\n"))
    found = store.blame("a.py")
    names = [store.read(line.session).name for line in found.lines]
    assert (names, found.sessions) == (["first", "second"], 2)


def test_one_session_knows_only_what_it_wrote(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    with store.open("second") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\ntwo\n"))
    assert sources(store.blame("a.py", session="second")) == [("before", 0), ("recorded", 1)]


def test_a_line_that_came_after_the_last_write_is_not_recorded(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    put("a.py", "one\nby hand\n")
    assert sources(store.blame("a.py")) == [("recorded", 1), ("since", 0)]


def test_without_the_disk_the_lines_are_those_that_the_last_record_left(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    put("a.py", "one\nby hand\n")
    found = store.blame("a.py", disk=False)
    assert ([line.text for line in found.lines], found.on_disk) == (["one\n"], False)


def test_a_renamed_file_is_followed_to_its_earlier_name(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
        with s.turn("move it", new=True) as t:
            os.rename("a.py", "b.py")
            t.file("b.py", "renamed", from_path="a.py")
        turn(s, ("b.py", "one\ntwo\n"))
    assert sources(store.blame("b.py")) == [("recorded", 1), ("recorded", 3)]


def test_a_write_without_content_may_have_made_every_line(store):
    put("a.py", "one\n")
    with store.open("first") as s, s.turn("write it") as t:
        t.file("a.py", "modified")
    assert sources(store.blame("a.py")) == [("unknown", 0)]


def test_a_content_that_was_restored_has_its_first_authors(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
        turn(s, ("a.py", "other\n"))
    store.contribute("first").restore("a.py", at="t1", apply=True)
    assert sources(store.blame("a.py")) == [("recorded", 1)]


def test_an_erased_content_leaves_its_lines_unknown(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    store.erase(store.erasing("first", path="a.py"))
    assert {line.source for line in store.blame("a.py").lines} <= {"unknown", "before"}


def test_a_file_without_lines_is_refused(store):
    with open("a.bin", "wb") as file:
        file.write(b"\0\1")
    with pytest.raises(InvalidInput, match="no lines to show"):
        store.blame("a.bin")


def test_a_file_that_is_recorded_under_another_checkout_is_found_by_its_end(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("checkout/src/a.py", "one\n"))
    put("src/a.py", "one\ntwo\n")
    found = store.blame("src/a.py")
    assert (found.path, found.asked) == ("checkout/src/a.py", "src/a.py")
    assert sources(found) == [("recorded", 1), ("since", 0)]


def test_a_name_that_only_ends_like_a_recorded_one_is_another_file(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("src/data.py", "one\n"))
    assert store.blame("a.py").sessions == 0


def test_a_file_that_got_its_first_name_back_keeps_all_of_its_authors(store):
    with store.open("first") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\n"))
    for number, (old, new) in enumerate((("a.py", "b.py"), ("b.py", "a.py"))):
        with store.open(f"rename {number}") as s, s.turn("x", new=True) as t:
            os.rename(old, new)
            t.file(new, "renamed", from_path=old)
    with store.open("last") as s:
        s.track(contents=True)
        turn(s, ("a.py", "one\ntwo\n"))
    names = [store.read(line.session).name for line in store.blame("a.py").lines if line.session]
    assert names == ["first", "last"]


def test_a_file_that_one_turn_made_and_nothing_changed_since_is_all_of_that_turn(store):
    with store.open("first") as s:
        s.track()
        turn(s, ("b.py", "other\n"))
        turn(s, ("a.py", "one\n"), ("a.py", "one\ntwo\n"))
    assert sources(store.blame("a.py")) == [("recorded", 2), ("recorded", 2)]
    put("a.py", "one\ntwo\nby hand\n")
    assert {line.source for line in store.blame("a.py").lines} == {"unknown"}
    assert not store.blame("a.py", disk=False).lines


def test_a_file_that_two_turns_wrote_without_contents_is_of_neither(store):
    with store.open("first") as s:
        s.track()
        turn(s, ("a.py", "one\n"))
        turn(s, ("a.py", "one\ntwo\n"))
    assert {line.source for line in store.blame("a.py").lines} == {"unknown"}
