"""Tests that the model of a driven session is shown once that another live session changed a file it knows."""

from __future__ import annotations

import json

import pytest

import stator
from stator.model.brief.envelope import notes_in
from stator.touched_files import FOLDER, Toucher, own_process


@pytest.fixture
def store(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    with stator.connect(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def shared(tmp_path):
    path = tmp_path / "shared.md"
    path.write_text("roses\n")
    return path


def hooked(tmp_path, name="other"):
    """An agent that reports through hooks."""
    return Toucher(str(tmp_path / "store.db-spool"), f"codex:{name}", "codex", own_process())


def change(agent, path, content="tulips\n"):
    path.write_text(content)
    agent.seen(str(path), tool="Edit", wrote=True)


def notes(messages):
    return [note for one in messages for note in notes_in(one["content"])]


def test_the_model_is_shown_the_change_once_and_always_with_the_same_bytes(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.file("shared.md", "read")
        assert notes(turn.messages("plain")) == []
        change(hooked(tmp_path), shared)
        first = turn.messages("plain")
        (note,) = notes(first)
        assert (note.kind, note.whole) == ("file", True)
        assert "codex, session s_" in note.text
        turn.say("I will read it again")
        assert json.dumps(turn.messages("plain")).startswith(json.dumps(first)[:-1])
    with (
        stator.connect(tmp_path / "store.db") as again,
        again.open("mine") as session,
        session.turn("and now") as turn,
    ):
        assert turn.messages("plain")[: len(first)] == first
        assert len(notes(turn.messages("plain"))) == 1


def test_it_is_a_record_that_no_search_finds(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.file("shared.md", "read")
        change(hooked(tmp_path), shared)
        (note,) = notes(turn.messages("plain"))
    (entry,) = store.read("mine").entries("deliveries")
    assert (entry.record.note, entry.record.kind) == (note.id, "file")
    assert list(store.search("codex")) == []


def test_an_agent_with_hooks_learns_of_a_driven_session(store, shared, tmp_path):
    agent = hooked(tmp_path)
    (tmp_path / "store.db-spool").mkdir()
    agent.seen(str(shared))
    with store.open("mine") as session, session.turn("go") as turn:
        shared.write_text("tulips\n")
        turn.file("shared.md", "modified")
        found = agent.before_write(str(shared))
        assert found is not None
        assert found.key == f"driven:{session.id}"


def test_two_driven_sessions_learn_of_each_other(store, shared, tmp_path):
    with (
        stator.connect(tmp_path / "store.db") as also,
        store.open("mine") as one,
        also.open("other") as two,
        one.turn("go") as turn,
        two.turn("go") as others,
    ):
        turn.file("shared.md", "read")
        shared.write_text("tulips\n")
        others.file("shared.md", "modified")
        assert "«other»" in notes(turn.messages("plain"))[0].text
        assert notes(others.messages("plain")) == []


def test_the_change_of_a_session_that_was_left_is_no_news(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.file("shared.md", "read")
        with (
            stator.connect(tmp_path / "store.db") as also,
            also.open("other") as two,
            two.turn("go") as others,
        ):
            shared.write_text("tulips\n")
            others.file("shared.md", "modified")
        assert notes(turn.messages("plain")) == []


def test_a_file_that_was_read_since_is_no_news(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.file("shared.md", "read")
        change(hooked(tmp_path), shared)
        turn.file("shared.md", "read")
        assert notes(turn.messages("plain")) == []


def test_a_session_that_touches_no_file_leaves_nothing_beside_the_store(store, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.messages("plain")
    assert not (tmp_path / "store.db-spool" / FOLDER).exists()


def test_a_file_that_is_touched_again_unchanged_is_noted_once(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        for _ in range(3):
            turn.file("shared.md", "read")
        (lines,) = (tmp_path / "store.db-spool" / FOLDER).iterdir()
        assert lines.read_text().count("\n") == 1
        shared.write_text("violets\n")
        turn.file("shared.md", "modified")
        assert lines.read_text().count("\n") == 2


def test_a_file_that_another_touched_in_between_is_noted_again(store, shared, tmp_path):
    with store.open("mine") as session, session.turn("go") as turn:
        turn.file("shared.md", "read")
        (lines,) = (tmp_path / "store.db-spool" / FOLDER).iterdir()
        change(hooked(tmp_path), shared)
        turn.file("shared.md", "read")
        assert lines.read_text().count("\n") == 3
        assert notes(turn.messages("plain")) == []


def linked_elsewhere(folder):
    """Another folder is under its name now."""
    other = folder.with_name("other")
    other.mkdir()
    folder.unlink()
    folder.symlink_to(other)


def moved_and_linked(folder):
    """It has another name now, and a link has its old one."""
    real = folder.resolve()
    moved = real.rename(real.with_name("moved"))
    folder.unlink()
    folder.symlink_to(moved)


@pytest.mark.parametrize("change_of_folder", [linked_elsewhere, moved_and_linked])
def test_what_is_noted_about_a_file_follows_the_links_of_its_folder(tmp_path, change_of_folder):
    (tmp_path / "real").mkdir()
    folder = tmp_path / "folder"
    folder.symlink_to(tmp_path / "real")
    mine = hooked(tmp_path, "mine")
    mine.seen(str(folder / "plan.md"))
    assert mine.noted(str(tmp_path / "real" / "plan.md"))
    change_of_folder(folder)
    assert not mine.noted(str(folder / "plan.md"))
    mine.seen(str(folder / "plan.md"))
    assert mine.noted(str(folder.resolve() / "plan.md"))
