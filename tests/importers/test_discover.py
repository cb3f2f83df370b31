"""Tests that discovery has limits, follows no symbolic links, changes nothing and reports other
files."""

from __future__ import annotations

import os

import pytest

from importers.notebook_format import FORMAT, write_conversation
from stator.importers import discover
from stator.model.exchange.bundle import MAGIC


def found(*paths, **options):
    return discover.discover([str(path) for path in paths], formats=[FORMAT], **options)


def names(discovery):
    return [one.found.conversation.id for one in discovery.candidates]


def aged(path, seconds):
    os.utime(path, (seconds, seconds))
    return path


def test_subfolders_are_searched(tmp_path):
    write_conversation(tmp_path / "a" / "b" / "one.jsonl", id="deep")
    assert names(found(tmp_path)) == ["deep"]


def test_the_newest_conversation_comes_first(tmp_path):
    for name, age in (("old", 100), ("new", 300), ("middle", 200)):
        aged(write_conversation(tmp_path / f"{name}.jsonl", id=name), age)
    assert names(found(tmp_path)) == ["new", "middle", "old"]


def test_a_sub_agent_comes_after_an_older_parent(tmp_path):
    aged(write_conversation(tmp_path / "z" / "parent.jsonl", id="parent"), 100)
    aged(write_conversation(tmp_path / "child.jsonl", id="child", parent="parent"), 300)
    aged(write_conversation(tmp_path / "other.jsonl", id="other"), 200)
    assert names(found(tmp_path)) == ["parent", "child", "other"]


def test_conversations_in_a_parent_cycle_are_found_once_each(tmp_path):
    write_conversation(tmp_path / "a.jsonl", id="a", parent="b")
    write_conversation(tmp_path / "b.jsonl", id="b", parent="a")
    assert sorted(names(found(tmp_path))) == ["a", "b"]


def test_a_symbolic_link_in_a_folder_is_not_followed(tmp_path):
    write_conversation(tmp_path / "elsewhere" / "one.jsonl")
    here = tmp_path / "here"
    here.mkdir()
    (here / "one.jsonl").symlink_to(tmp_path / "elsewhere" / "one.jsonl")
    (here / "folder").symlink_to(tmp_path / "elsewhere")
    (here / "loop").symlink_to(here)
    assert names(found(here)) == []


def test_a_symbolic_link_given_by_name_is_followed(tmp_path):
    path = write_conversation(tmp_path / "one.jsonl")
    (tmp_path / "link").symlink_to(path)
    assert names(found(tmp_path / "link")) == ["n1"]


def test_a_path_given_twice_is_found_once(tmp_path):
    path = write_conversation(tmp_path / "one.jsonl")
    assert names(found(tmp_path, path, path)) == ["n1"]


def test_other_files_are_counted_by_extension(tmp_path):
    write_conversation(tmp_path / "one.jsonl")
    for name in ("a.md", "b.MD", "empty.jsonl", "LICENSE"):
        (tmp_path / name).write_text("" if name.startswith("empty") else "text")
    assert found(tmp_path).others == {".md": 2, ".jsonl": 1, "(no ending)": 1}


def test_a_named_file_that_is_not_a_transcript_is_reported(tmp_path):
    (tmp_path / "a.md").write_text("text")
    assert "not a transcript" in found(tmp_path / "a.md").unread[str(tmp_path / "a.md")]


def test_a_bundle_is_recognized_by_its_content(tmp_path):
    path = tmp_path / "whatever.txt"
    path.write_bytes(MAGIC + b"more")
    assert found(tmp_path).bundles == [str(path)]


def test_a_fifo_is_skipped_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    write_conversation(tmp_path / "one.jsonl")
    assert names(found(tmp_path)) == ["n1"]
    assert "not a file" in found(tmp_path / "pipe").unread[str(tmp_path / "pipe")]


def test_a_transcript_with_a_broken_first_line_is_reported_and_others_are_found(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"talk": oh no\n')
    write_conversation(tmp_path / "good.jsonl")
    discovery = found(tmp_path)
    assert names(discovery) == ["n1"]
    assert list(discovery.unread) == [str(tmp_path / "bad.jsonl")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_reported(tmp_path):
    (tmp_path / "closed").mkdir(mode=0)
    assert found(tmp_path).unread == {str(tmp_path / "closed"): "Permission denied"}


def test_a_walk_ends_at_its_limit_and_reports_it(tmp_path, monkeypatch):
    monkeypatch.setattr(discover, "FILES_MAX", 2)
    for n in range(3):
        write_conversation(tmp_path / f"{n}.jsonl", id=str(n))
    discovery = found(tmp_path)
    assert len(discovery.candidates) == 2
    assert "more than 2 files" in discovery.unread[str(tmp_path)]


def test_a_folder_that_is_too_deep_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(discover, "DEPTH_MAX", 1)
    write_conversation(tmp_path / "a" / "b" / "c" / "one.jsonl")
    assert list(found(tmp_path).unread) == [str(tmp_path / "a" / "b")]


def test_about_selects_a_folders_conversations_and_counts_the_others(tmp_path):
    write_conversation(tmp_path / "a.jsonl", id="here", cwd="/home/dev/shop/src")
    write_conversation(tmp_path / "b.jsonl", id="there", cwd="/home/dev/shop-two")
    discovery = found(tmp_path, about="/home/dev/shop")
    assert (names(discovery), discovery.elsewhere) == (["here"], 1)


def test_since_selects_recently_changed_conversations(tmp_path):
    aged(write_conversation(tmp_path / "a.jsonl", id="old"), 100)
    aged(write_conversation(tmp_path / "b.jsonl", id="new"), 300)
    discovery = found(tmp_path, since=200_000_000)
    assert (names(discovery), discovery.older) == (["new"], 1)
