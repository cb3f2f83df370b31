"""Restore changes only files the session wrote, previews first, and can be undone."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from pathlib import Path

import pytest

import stator
from runtime.file_writes import SECRET, put, write
from stator import aio
from stator.errors import Conflict, InvalidInput, WrongState
from stator.model.log.commit import Upsert
from stator.model.records.types import FileRecord
from stator.runtime.files import safe_io


def read(path):
    return Path(path).read_text()


@pytest.fixture
def done(store, tmp_path):
    """A session of two turns: one changes a.py, the next changes it again and creates b.py."""
    put("a.py", "1\n")
    put("bystander.txt", "never touched\n")
    with store.open("work") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            t.call(write, path="a.py", text="two\n")
        with s.turn("two") as t:
            t.call(write, path="a.py", text="three\n")
            t.call(write, path="b.py", text="new\n")
    return store.contribute("work")


def actions(found):
    return {file.path: file.action for file in found.files}


# -- planning -------------------------------------------------------------------------------------


def test_a_preview_changes_neither_disk_nor_log(done, store):
    head = store.read("work").head
    found = done.restore(everything=True, at="t1")
    assert actions(found) == {"a.py": "write", "b.py": "delete"}
    assert found.files[0].change.patch.endswith("@@ -1 +1 @@\n-three\n+two\n")
    assert (read("a.py"), read("b.py")) == ("three\n", "new\n")
    assert store.read("work").head == head


def test_a_file_that_already_matches_is_unchanged(done):
    assert actions(done.restore("a.py", at="t2")) == {"a.py": "unchanged"}


def test_a_file_is_restored_to_the_content_before_its_first_write(done):
    done.restore("a.py", at="t0", apply=True)
    assert read("a.py") == "1\n"


def test_a_file_only_read_until_then_is_restored_to_the_content_before_its_next_write(store):
    put("a.py", "1\n")
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("look") as t:
            t.call(stator.tool(read, effect="read", files="path"), path="a.py")
        with s.turn("change") as t:
            t.call(write, path="a.py", text="two\n")
    store.contribute("s").restore("a.py", at="t1", apply=True)
    assert read("a.py") == "1\n"
    assert store.read("s").contents("a.py", "t1").data == b"1\n"


def test_a_file_changed_by_others_after_a_read_is_not_restored_to_that_read(store):
    put("a.py", "1\n")
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("look") as t:
            t.call(stator.tool(read, effect="read", files="path"), path="a.py")
        put("a.py", "by hand\n")
        with s.turn("change") as t:
            t.call(write, path="a.py", text="two\n")
    (found,) = store.contribute("s").restore("a.py", at="t1").files
    assert found.action == "not kept"


def test_a_file_without_captured_contents_cannot_be_restored_and_the_reason_is_given(store):
    with store.open("s") as s:
        s.track(contents=True, max_bytes=5)
        for text in ("much too long", "also too long"):
            with s.turn(text) as t:
                t.call(write, path="a.py", text=text)
    (found,) = store.contribute("s").restore("a.py", at="t1", apply=True).files
    assert (found.action, found.reason) == ("not kept", "not kept: size")
    assert read("a.py") == "also too long"


def test_erased_contents_cannot_be_restored(done, store):
    view = store.read("work")
    for commit in [c for c in view.log() if c.status == "kept"]:
        done.erase(f"@{commit.seq}")
    (found,) = done.restore("a.py", at="t1").files
    assert found.action == "not kept"
    assert "erased" in found.reason


def test_restoring_needs_a_file_name(done):
    with pytest.raises(InvalidInput, match="which files"):
        done.restore(at="t1")


# -- applying -------------------------------------------------------------------------------------


def test_applying_a_restore_changes_the_files(done):
    found = done.restore(everything=True, at="t1", apply=True)
    assert found.applied
    assert read("a.py") == "two\n"
    assert not Path("b.py").exists()


def test_restore_can_be_undone_by_restoring_its_snapshot(done):
    found = done.restore(everything=True, at="t0", apply=True)
    done.restore(everything=True, at=f"@{found.snapshot}", apply=True)
    assert (read("a.py"), read("b.py")) == ("three\n", "new\n")


def test_the_log_records_what_was_restored_and_by_whom(done, store):
    found = done.restore(everything=True, at="t1", apply=True)
    commit = store.read("work").commit(f"@{found.seq}")
    assert (commit.kind, commit.status, commit.value("why")) == (
        "file",
        "restored",
        "restore to t1",
    )
    assert commit.value("principal") == store.context.principal
    assert [op.record.op for op in commit.delta] == ["modified", "deleted"]


def test_restored_files_are_not_reported_as_changed_by_others(done):
    done.restore(everything=True, at="t1", apply=True)
    assert not any(file.changed_since for file in done.restore(everything=True, at="t0").files)


def test_the_file_mode_is_restored_with_the_content(store):
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            put("run.sh", "echo\n")
            os.chmod("run.sh", 0o755)
            t.file("run.sh", "created")
        with s.turn("two") as t:
            os.remove("run.sh")
            t.file("run.sh", "deleted")
    store.contribute("s").restore("run.sh", at="t1", apply=True)
    assert os.stat("run.sh").st_mode & 0o777 == 0o755


def test_a_renamed_file_is_restored_to_its_old_name(store):
    put("old.py", "1\n")
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            os.rename("old.py", "new.py")
            t.file("new.py", "renamed", from_path="old.py")
    assert store.read("s").contents("old.py", "t0").data == b"1\n"
    store.contribute("s").restore(everything=True, at="t0", apply=True)
    assert (read("old.py"), os.path.exists("new.py")) == ("1\n", False)


def test_a_restored_deleted_file_is_shown_as_added(store):
    put("a.py", "1\n")
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            os.remove("a.py")
            t.file("a.py", "deleted")
        left = s.head.seq
    store.contribute("s").restore("a.py", at="t0", apply=True)
    (found,) = store.read("s").patch(f"@{left}..head")
    assert (found.change, found.added) == ("added", 1)


def test_a_missing_folder_is_created_again(store):
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            t.call(write, path="deep/er/a.py", text="1\n")
    shutil.rmtree("deep")
    store.contribute("s").restore("deep/er/a.py", at="t1", apply=True, force=True)
    assert read("deep/er/a.py") == "1\n"


def test_files_can_be_restored_while_another_process_drives_the_session(done, store):
    with store.open("work"):
        done.restore("a.py", at="t1", apply=True)
    assert read("a.py") == "two\n"


def test_the_driver_can_restore_during_a_turn(done, store):
    with store.open("work") as s, s.turn("three") as t:
        s.restore("a.py", at="t1", apply=True)
        t.decide("go back")
    assert read("a.py") == "two\n"


def test_restoring_from_a_closed_session_is_refused_before_any_change(done, store):
    done.close()
    with pytest.raises(WrongState):
        done.restore("a.py", at="t1", apply=True)
    assert read("a.py") == "three\n"


def test_the_asynchronous_api_can_restore(done, tmp_path):
    async def run():
        async with aio.connect(tmp_path / "agent.db") as other:
            act = await other.contribute(done._id)
            return await act.restore("a.py", at="t1", apply=True)

    assert asyncio.run(run()).applied
    assert read("a.py") == "two\n"


def test_files_of_a_moved_project_are_restored_in_its_new_folder(done, tmp_path, monkeypatch):
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / ".stator").mkdir()
    (other / ".stator" / "project").write_text("shop\n")
    shutil.copy("a.py", other)
    monkeypatch.chdir(other)
    with stator.connect(tmp_path / "agent.db") as store:
        store.contribute(done._id).restore("a.py", at="t1", apply=True)
    assert ((other / "a.py").read_text(), (tmp_path / "a.py").read_text()) == ("two\n", "three\n")


# -- files of others ------------------------------------------------------------------------------


def test_restoring_never_deletes_files_the_agent_did_not_write(done, tmp_path):
    put("data/huge.bin", "untracked, ignored, and not the agent's")
    done.restore(everything=True, at="t0", apply=True)
    assert read("data/huge.bin")
    assert read("bystander.txt") == "never touched\n"


def test_naming_a_file_the_session_did_not_write_is_refused(done):
    (found,) = done.restore("bystander.txt", at="t1", force=True).files
    assert (found.action, found.reason) == ("refused", "this session did not write it")


def test_a_file_the_session_only_read_is_not_restored(done, store):
    with store.open("work") as s, s.turn("look") as t:
        t.file("bystander.txt", "read")
    assert "bystander.txt" not in actions(done.restore(everything=True, at="t0"))


def test_one_refusal_stops_the_whole_restore(done):
    with pytest.raises(Conflict, match=r"bystander\.txt"):
        done.restore("a.py", "bystander.txt", at="t1", apply=True, force=True)
    assert read("a.py") == "three\n"


def test_a_file_edited_by_others_needs_force(done):
    put("a.py", "precious\n")
    (found,) = done.restore("a.py", at="t1").files
    assert (found.action, found.changed_since, found.needs_force) == ("refused", True, True)
    with pytest.raises(Conflict, match="changed since"):
        done.restore("a.py", at="t1", apply=True)
    assert read("a.py") == "precious\n"


def test_a_forced_restore_keeps_the_overwritten_edit_in_its_snapshot(done):
    put("a.py", "precious\n")
    found = done.restore("a.py", at="t1", apply=True, force=True)
    assert read("a.py") == "two\n"
    done.restore("a.py", at=f"@{found.snapshot}", apply=True)
    assert read("a.py") == "precious\n"


def test_an_edit_by_others_is_not_shown_as_a_change_of_the_session(done, store):
    put("a.py", "precious\n")
    left = store.read("work").head.seq
    found = done.restore("a.py", at="t1", apply=True, force=True)
    assert store.read("work").patch(f"@{left}..@{found.snapshot}") == []


def test_a_file_whose_current_content_cannot_be_captured_needs_force(done):
    put("a.py", SECRET)
    (found,) = done.restore("a.py", at="t1").files
    assert (found.action, found.reason) == (
        "refused",
        "what is there now cannot be kept: secret",
    )
    assert found.change is None
    forced = done.restore("a.py", at="t1", apply=True, force=True)
    assert forced.applied
    assert forced.files[0].reason == "what is there now cannot be kept: secret"
    assert read("a.py") == "two\n"


def test_content_on_disk_that_was_erased_from_the_log_is_not_overwritten_or_captured_again(
    done, store
):
    """The snapshot would claim that the log contains it."""
    held = store.read("work").contents("a.py").seq
    done.erase(f"@{held}")
    (found,) = done.restore("a.py", at="t0").files
    assert found.action == "refused"
    assert found.reason == "what is there now cannot be kept: erased"
    with pytest.raises(Conflict, match="erased"):
        done.restore("a.py", at="t0", apply=True)
    assert read("a.py") == "three\n"


def test_undoing_a_restore_restores_a_changed_file_mode(done):
    os.chmod("a.py", 0o755)
    found = done.restore("a.py", at="t1", apply=True)
    assert os.stat("a.py").st_mode & 0o777 == 0o644
    done.restore("a.py", at=f"@{found.snapshot}", apply=True)
    assert (read("a.py"), os.stat("a.py").st_mode & 0o777) == ("three\n", 0o755)


def test_the_error_of_a_partial_restore_names_what_was_restored(done, monkeypatch):
    look = safe_io.remove

    def late(root, path, before):
        put("b.py", "by somebody else\n")
        look(root, path, before)

    monkeypatch.setattr(safe_io, "remove", late)
    with pytest.raises(
        Conflict, match=r"changed while .*the file before it was restored"
    ) as caught:
        done.restore("a.py", "b.py", at="t1", apply=True)
    assert (read("a.py"), read("b.py")) == ("two\n", "by somebody else\n")
    done.restore("a.py", at=f"@{caught.value.ids['snapshot']}", apply=True)
    assert read("a.py") == "three\n"


# -- untrusted paths ------------------------------------------------------------------------------


def recorded(store, *files, data="evil\n"):
    """An imported session with these records and matching contents."""
    with store.open("import") as s, s.turn("x"):
        digest = safe_io.digest_of(data.encode())
        held = s._draft("file", input={"contents": {digest: {"data": data, "mode": 0o6777}}})
        puts = [
            Upsert(
                "files", FileRecord(root=r, path=p, op="created", after=digest, after_in=held.id)
            )
            for r, p in files
        ]
        s._driver.append([held, s._draft("file", changes=tuple(puts))])
    return store.contribute("import")


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (".", "../../x"),
        (".", "a/../../x"),
        (".", "/etc/x"),
        (".", "a//x"),
        (".", "x\0y"),
        (".", ""),
        ("..", "../x"),
        ("/", "/etc/stator-test"),
        ("/srv", "x"),
        (".", ".git/hooks/pre-commit"),
        (".", "sub/.GIT/config"),
        (".", ".stator/store.db"),
    ],
)
def test_a_recorded_path_outside_the_root_is_refused(store, tmp_path, root, path):
    act = recorded(store, (root, path))
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    (found,) = act.restore(everything=True, at="head", apply=True, force=True).files
    assert found.action == "refused"
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def test_a_parent_that_is_a_link_is_not_followed(store, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    os.symlink(outside, "src")
    act = recorded(store, (".", "src/x.py"))
    (found,) = act.restore(everything=True, at="head", force=True).files
    assert found.action == "refused"
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_the_file_is_not_written_through(store, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-target"
    outside.write_text("private\n")
    os.symlink(outside, "x.py")
    act = recorded(store, (".", "x.py"))
    assert act.restore("x.py", at="head", force=True).files[0].action == "refused"
    assert outside.read_text() == "private\n"


def test_a_path_that_became_a_folder_is_refused(done):
    os.remove("a.py")
    os.mkdir("a.py")
    assert done.restore("a.py", at="t1", force=True).files[0].action == "refused"


def test_names_that_differ_only_in_case_are_separate_files(store):
    put("README.md", "theirs\n")
    with store.open("s") as s:
        s.track(contents=True)
        with s.turn("one") as t:
            t.call(write, path="readme.md", text="mine\n")
        with s.turn("two") as t:
            t.call(write, path="readme.md", text="mine, changed\n")
    store.contribute("s").restore(everything=True, at="t1", apply=True)
    assert (read("README.md"), read("readme.md")) == ("theirs\n", "mine\n")


def test_a_recorded_mode_cannot_set_the_setuid_bits(store):
    recorded(store, (".", "x")).restore("x", at="head", apply=True, force=True)
    assert os.stat("x").st_mode & 0o7000 == 0


def test_files_outside_the_root_need_an_explicit_root(store, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-other"
    outside.mkdir()
    target = outside / "x.py"
    act = recorded(store, ("/", str(target)))
    assert act.restore(str(target), at="head").files[0].action == "refused"
    act.restore(str(target), at="head", root=str(outside), apply=True, force=True)
    assert target.read_text() == "evil\n"


def test_a_file_that_changes_during_the_restore_is_not_overwritten(tmp_path):
    put(tmp_path / "a", "1")
    seen = safe_io.look(str(tmp_path), "a")
    put(tmp_path / "a", "somebody was quicker")
    with pytest.raises(Conflict, match="changed while"):
        safe_io.write(str(tmp_path), "a", b"2", 0o644, seen, "tag")
    assert read(tmp_path / "a") == "somebody was quicker"
    assert os.listdir(tmp_path) == ["a"]


def test_temporary_files_of_a_killed_restore_are_removed_and_those_of_a_running_one_are_kept(
    tmp_path,
):
    put(tmp_path / f"{safe_io.TEMPORARY}dead", "half")
    put(tmp_path / f"{safe_io.TEMPORARY}alive", "half")
    with open(tmp_path / f"{safe_io.TEMPORARY}alive") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        safe_io.write(str(tmp_path), "a", b"1", 0o644, safe_io.NOTHING, "mine")
    assert sorted(os.listdir(tmp_path)) == [f"{safe_io.TEMPORARY}alive", "a"]
