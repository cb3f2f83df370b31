"""Contents are captured before and after each write if the caller asks, or the reason is recorded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from runtime.file_writes import SECRET, put, write
from stator import aio
from stator.errors import Erased, InvalidInput, NotFound
from stator.runtime.driving.observe import stamps
from stator.runtime.files.capture import ContentKeeper, Rules


@pytest.fixture
def session(store):
    with store.open("a") as s:
        yield s


def executable(path):
    os.chmod(path, 0o755)


def delete(path):
    os.remove(path)


def file(session, path):
    (record,) = [e.record for e in session.entries("files") if e.record.path == path]
    return record


def data(session, path, at):
    found = session.contents(path, at)
    return found.data if found is not None else None


def kept(session) -> list[str]:
    """Every captured content, commit by commit."""
    return [
        content["data"]
        for commit in session.log()
        if commit.kind == "file" and commit.status == "kept"
        for content in commit.value("input")["contents"].values()
    ]


def git(*words):
    subprocess.run(["git", *words], check=True, capture_output=True)


# -- captured contents ----------------------------------------------------------------------------


def test_no_content_is_captured_unless_the_caller_asks(session):
    put("a.py", "1\n")
    session.track("")
    with session.turn("x") as t:
        t.call(write, path="a.py", text="2\n")
    assert kept(session) == []
    assert (file(session, "a.py").after_in, file(session, "a.py").reason) == ("", "")


def test_a_file_named_by_a_tool_is_captured_before_and_after_the_call(session):
    put("a.py", "1\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(write, path="a.py", text="2\n")
    assert session.contents("a.py", "t0").data == b"1\n"
    assert session.contents("a.py").data == b"2\n"


def test_files_that_a_call_changes_in_a_tracked_folder_are_captured_before_and_after(session):
    put("src/a.py", "1\n")
    put("src/gone.py", "old\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: (put("src/a.py", "two\n"), delete("src/gone.py"), put("new", "n")))
    names = ("src/a.py", "src/gone.py", "new")
    assert [data(session, name, "t0") for name in names] == [b"1\n", b"old\n", None]
    assert [data(session, name, "head") for name in names] == [b"two\n", None, b"n"]


def test_the_content_before_a_call_includes_changes_made_between_calls(session):
    put("a.py", "1\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: put("a.py", "two\n"))
    put("a.py", "by hand\n")
    with session.turn("y") as t:
        t.call(lambda: put("a.py", "4\n"))
    record = file(session, "a.py")
    (before,) = [c for c in session.log() if c.id == record.before_in]
    assert before.value("input")["contents"][record.before]["data"] == "by hand\n"


def test_a_file_recorded_explicitly_is_captured_from_disk(session):
    session.track(contents=True)
    with session.turn("x") as t:
        put("a.py", "1\n")
        t.file("a.py", "created")
        put("a.py", "2\n")
        t.file("a.py", "modified")
    record = file(session, "a.py")
    assert session.contents("a.py").data == b"2\n"
    assert record.before_in
    assert kept(session) == ["1\n", "2\n"]


def test_a_file_recorded_outside_a_turn_is_captured(session):
    session.track(contents=True)
    put("a.py", "1\n")
    session.file("a.py", "created")
    assert session.contents("a.py").data == b"1\n"


def test_the_content_before_an_explicit_record_is_the_tracked_content(session):
    put("a.py", "1\n")
    put("gone.py", "old\n")
    session.track(contents=True)
    with session.turn("x") as t:
        put("a.py", "2\n")
        t.file("a.py", "modified")
        delete("gone.py")
        t.file("gone.py", "deleted")
    assert [data(session, name, "t0") for name in ("a.py", "gone.py")] == [b"1\n", b"old\n"]


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    content=st.binary(max_size=200)
    | st.text(max_size=100).map(lambda t: t.encode("utf-8", "ignore"))
)
def test_any_bytes_are_captured_exactly(memory, content, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    with memory.open("a") as s:
        s.track(contents=True)
        with s.turn("x", new=True) as t:
            t.file(str(path), "created")
        if file(s, str(path)).reason != "not kept: secret":
            assert s.contents(str(path), root="/").data == content


def test_a_batch_captures_contents_in_its_own_transaction(session):
    session.track(contents=True)
    with session.turn("x") as t:
        put("a.py", "1\n")
        with t.batch():
            t.file("a.py", "created")
            t.decide("x")
            assert kept(session) == []
    assert session.contents("a.py").data == b"1\n"


def test_exact_bytes_and_mode_are_captured(session):
    session.track(contents=True)
    with session.turn("x") as t:
        Path("run.sh").write_bytes(b"\xff\x00\r\n")
        os.chmod("run.sh", 0o750)
        t.file("run.sh", "created")
    found = session.contents("run.sh")
    assert (found.data, found.mode) == (b"\xff\x00\r\n", 0o750)


def test_equal_contents_with_different_modes_are_captured_separately(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: (put("a", "same"), put("b", "same"), executable("b")))
    assert [session.contents(p).mode for p in "ab"] == [0o644, 0o755]


def test_the_same_content_is_captured_once(session):
    session.track(contents=True)
    with session.turn("x") as t:
        for text in ("1\n", "2\n", "1\n", "2\n", "1\n"):
            t.call(write, path="a.py", text=text)
        t.call(write, path="b.py", text="1\n")
    assert kept(session) == ["1\n", "2\n"]


def test_the_next_run_does_not_capture_known_content_again(store):
    for text in ("1\n", "2\n"):
        with store.open("a") as s:
            s.track(contents=True)
            with s.turn(text) as t:
                t.call(write, path="a.py", text=text)
    assert kept(store.read("a")) == ["1\n", "2\n"]


def test_contents_and_the_records_that_name_them_are_one_transaction(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(write, path="a.py", text="1\n")
    commits = list(session.log())
    place = next(n for n, c in enumerate(commits) if c.status == "kept")
    assert [c.kind for c in commits[place : place + 2]] == ["file", "outcome"]
    assert commits[place].call == commits[place + 1].call


def test_reading_a_file_captures_nothing(session):
    put("a.py", "1\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(stator.tool(effect="read", files="path")(lambda path: 1), path="a.py")
        t.file("a.py", "read")
    assert kept(session) == []


def test_the_asynchronous_api_captures_contents(tmp_path, monkeypatch):
    import asyncio

    monkeypatch.chdir(tmp_path)

    async def run():
        async with aio.connect(tmp_path / "b.db") as store, store.open("a") as s:
            await s.track(contents=True)
            async with s.turn("x") as t:
                await t.call(write, path="a.py", text="1\n")
            return await s.contents("a.py"), await s.patch("t1")

    found, patches = asyncio.run(run())
    assert found is not None
    assert found.data == b"1\n"
    assert [patch.change for patch in patches] == ["added"]


# -- contents that are not captured ---------------------------------------------------------------


def test_a_file_with_a_secret_is_recorded_by_its_digest_only(session, tmp_path):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: put("notes.txt", SECRET))
    record = file(session, "notes.txt")
    assert (record.reason, record.after_in, len(record.after)) == ("not kept: secret", "", 16)
    assert b"wJalrXUtnFEMI" not in (tmp_path / "agent.db").read_bytes()


def test_a_file_over_the_size_limit_is_not_captured(session):
    session.track(contents=True, max_bytes=10)
    with session.turn("x") as t:
        t.call(write, path="a.py", text="x" * 11)
    assert file(session, "a.py").reason == "not kept: size"


def test_files_ignored_by_git_are_not_captured(session):
    git("init", "-q")
    put(".gitignore", "*.env\nbuild/\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: (put("x.env", "K=1"), put("build/out.js", "1"), put("a.py", "1")))
    assert {p: file(session, p).reason for p in ("x.env", "build/out.js", "a.py")} == {
        "x.env": "not kept: ignored",
        "build/out.js": "not kept: ignored",
        "a.py": "",
    }


def test_a_virtual_environment_is_not_captured(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(write, path=".venv/lib/x.py", text="1")
    assert file(session, ".venv/lib/x.py").reason == "not kept: ignored"


def test_ignore_patterns_of_the_caller_apply_outside_git(session):
    session.track(contents=True, ignore=("*.log", "data"))
    with session.turn("x") as t:
        t.call(lambda: (put("a.log", "1"), put("data/x", "1"), put("b.py", "1")))
    assert [file(session, p).reason for p in ("a.log", "data/x", "b.py")] == [
        "not kept: ignored",
        "not kept: ignored",
        "",
    ]


def test_a_link_is_never_followed(session, tmp_path):
    outside = tmp_path.parent / "outside.txt"
    outside.write_text("private")
    os.symlink(outside, "link")
    os.symlink(tmp_path.parent, "up")
    session.track(contents=True)
    with session.turn("x") as t:
        t.file("link", "modified")
        t.file("up/outside.txt", "modified")
    assert kept(session) == []
    assert file(session, "link").reason == "not kept: unreadable"


def test_a_pipe_is_not_waited_for(session):
    os.mkfifo("pipe")
    session.track(contents=True)
    with session.turn("x") as t:
        t.file("pipe", "modified")
        t.call(write.using(files=lambda given, result: ["pipe"]), path="y", text="")
    assert file(session, "pipe").reason == "not kept: unreadable"


def test_an_open_database_is_not_captured(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(write.using(files=lambda given, result: ["agent.db"]), path="y", text="")
    assert file(session, "agent.db").after_in == ""


def test_a_file_name_that_is_not_text_does_not_lose_the_outcome(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(lambda: open(b"caf\xe9", "w").close())
    assert session.calls()[0].status == "ok"


def test_the_content_before_a_write_outside_the_tracked_folder_is_recorded_as_unknown(session):
    put("a.py", "1\n")
    session.track("elsewhere", contents=True)
    with session.turn("x") as t:
        t.call(write.using(files=lambda given, result: [given["path"]]), path="a.py", text="2\n")
    assert file(session, "a.py").reason == "not kept: what was there before"
    assert session.contents("a.py").data == b"2\n"
    with pytest.raises(NotFound, match="what was there before"):
        session.contents("a.py", "t0")


def test_only_a_bounded_part_of_a_folder_is_held_in_memory(tmp_path):
    rules = Rules(str(tmp_path), lambda text, name: text, (), 100)
    keeper = ContentKeeper(str(tmp_path), rules, lambda key: None, lambda: "k_1", room=15)
    for name in "ab":
        put(tmp_path / name, name * 10)
    seen = stamps(str(tmp_path))
    assert seen is not None
    keeper.refresh(seen)
    held = [keeper.held(path, stamp) for path, stamp in sorted(seen.items())]
    assert sum(look is not None for look in held) == 1
    (tmp_path / "a").unlink()
    (tmp_path / "b").unlink()
    keeper.refresh({})
    put(tmp_path / "c", "c" * 15)
    seen = stamps(str(tmp_path))
    assert seen is not None
    keeper.refresh(seen)
    assert [keeper.held(path, stamp) is not None for path, stamp in seen.items()] == [True]


def test_erased_contents_keep_their_digest_and_reading_them_raises_erased(session):
    session.track(contents=True)
    with session.turn("x") as t:
        t.call(write, path="a.py", text="1\n")
    (held,) = [c for c in session.log() if c.status == "kept"]
    session.erase(f"@{held.seq}")
    assert len(file(session, "a.py").after) == 16
    with pytest.raises(Erased, match="erased"):
        session.contents("a.py")
    assert "erased" in session.patch("t1")[0].reason


def test_a_file_that_differs_from_its_reported_digest_is_not_captured(session):
    put("a.py", "1\n")
    session.track(contents=True)
    with session.turn("x") as t:
        t.file("a.py", "created", after="sha1:3fa9")
        t.file("nowhere.py", "created")
    assert file(session, "a.py").after == "sha1:3fa9"
    assert [file(session, name).reason for name in ("a.py", "nowhere.py")] == [
        "not kept: its digest is another on disk",
        "not kept: unreadable",
    ]


def test_a_file_that_never_existed_has_no_contents(session):
    assert session.contents("nowhere.py") is None


@pytest.mark.parametrize("wrong", [0, -1, "1", True, 10**9])
def test_an_invalid_size_limit_is_refused(session, wrong):
    with pytest.raises(InvalidInput, match="max_bytes"):
        session.track(contents=True, max_bytes=wrong)


# -- continued turns and forks --------------------------------------------------------------------


def test_a_continued_turn_takes_its_files_from_the_record(store):
    def agent(fail):
        with store.open("a") as s:
            s.track(contents=True)
            with s.turn("x") as t:
                put("a.py", "1\n")
                t.file("a.py", "created")
                t.call(write, path="b.py", text="1\n")
                if fail:
                    raise RuntimeError
                t.file("c.py", "read")

    with pytest.raises(RuntimeError):
        agent(True)
    agent(False)
    view = store.read("a")
    assert [f.path for f in view.files(reads=True)] == ["c.py", "b.py", "a.py"]
    assert kept(view) == ["1\n"]


def test_a_fork_reads_contents_that_its_parent_captured(store):
    with store.open("a") as s:
        s.track(contents=True)
        with s.turn("x") as t:
            t.call(write, path="a.py", text="1\n")
    assert store.fork("a").contents("a.py").data == b"1\n"
