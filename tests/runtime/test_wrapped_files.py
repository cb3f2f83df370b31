"""Files of wrapped and dispatched tools are inferred from names and arguments, as importers infer them."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

import stator
from runtime.support import Model, says
from stator.testing import memory_store


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "memory":
        yield memory_store(project="shop", root=str(tmp_path))
        return
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


def dispatch(name, given):
    """An agent's tools in a few lines."""
    if name == "write_file":
        with open(given["path"], "w", encoding="utf-8") as file:
            file.write(given["content"])
    elif name == "bash":
        subprocess.run(["sh", "-c", given["command"]], check=True)
    elif name == "fail_to_write":
        raise OSError("disk full")
    return "done"


def touched(view):
    return {record.path: (record.op, record.how) for record in files(view)}


def files(view):
    return [entry.record for entry in view.entries("files")]


def test_twelve_files_written_through_a_wrapped_dispatch_are_in_files(store):
    with store.open("main") as s:
        run = s.wrap(dispatch)
        with s.turn("write"):
            for n in range(12):
                run("write_file", {"path": f"f{n}.txt", "content": str(n)})
        assert touched(s) == {f"f{n}.txt": ("created", "inferred") for n in range(12)}
        assert {change.path for change in s.files()} == {f"f{n}.txt" for n in range(12)}


def test_a_file_that_was_there_before_is_modified(store, tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with store.open("main") as s:
        run = s.wrap(dispatch)
        with s.turn("write"):
            run("write_file", {"path": "a.txt", "content": "new"})
        assert touched(s) == {"a.txt": ("modified", "inferred")}


def test_a_shell_command_shows_the_files_it_certainly_touched(store):
    with store.open("main") as s:
        run = s.wrap(dispatch)
        with s.turn("shell"):
            run("bash", {"command": "echo one > a.txt && mv a.txt b.txt"})
            run("bash", {"command": "true"})
        # the old name of a renamed file is deleted
        assert touched(s) == {
            "a.txt": ("deleted", "inferred"),
            "b.txt": ("renamed", "inferred"),
        }


def test_a_call_that_failed_touched_nothing_that_is_known(store):
    with store.open("main") as s:
        run = s.wrap(dispatch)
        with s.turn("write"), pytest.raises(OSError, match="disk full"):
            run("fail_to_write", {"path": "a.txt", "content": "x"})
        assert touched(s) == {}


def test_a_tool_that_names_its_files_itself_is_not_guessed_about(store):
    with store.open("main") as s:
        run = s.wrap(dispatch, effects={"write_file": {"files": "path"}})
        with s.turn("write"):
            run("write_file", {"path": "a.txt", "content": "x"})
        assert touched(s) == {"a.txt": ("created", "recorded")}


def test_in_a_tracked_folder_the_disk_is_believed_and_not_the_words(store, tmp_path):
    with store.open("main") as s:
        s.track(str(tmp_path / "src"))
        (tmp_path / "src").mkdir()
        run = s.wrap(dispatch)
        with s.turn("write"):
            run("write_file", {"path": "src/a.txt", "content": "x"})
            run("write_file", {"path": "other.txt", "content": "x"})
        assert touched(s) == {
            "src/a.txt": ("created", "observed"),
            "other.txt": ("created", "inferred"),
        }


def test_a_tool_declared_to_read_changes_no_file(store):
    with store.open("main") as s:
        run = s.wrap(dispatch, effects={"write_file": "read", "read_file": "read"})
        with s.turn("read"):
            run("write_file", {"path": "a.txt", "content": "x"})
            run("read_file", {"path": "b.txt"})
        assert touched(s) == {"b.txt": ("read", "inferred")}


def test_files_that_an_agent_names_are_in_its_working_set(store):
    with store.open("main") as s:
        run = s.wrap(dispatch)
        with s.turn("write") as t:
            run("write_file", {"path": "a.txt", "content": "x"})
            t.file("b.txt", "read")
            t.file("gone.txt", "deleted")
            t.call(
                stator.tool(lambda path: "x", files="path", effect="read", name="look"),
                path="c.txt",
            )
        names = {entry.record.name for entry in s.entries("working_set")}
    assert names == {"a.txt", "b.txt", "c.txt"}


def test_files_a_response_asks_for_are_inferred_too(store):
    with store.open("main") as s, s.turn("write") as t:
        reply = t.model(Model(says(("write_file", {"path": "a.txt", "content": "x"}))))
        t.results(reply, dispatch)
        assert touched(s) == {"a.txt": ("created", "inferred")}


def test_an_asynchronous_wrapped_dispatch_infers_files_and_raises_what_the_tool_raised(tmp_path):
    async def run():
        opened = stator.aio.connect(tmp_path / "agent.db", project="shop")
        async with opened as store, store.open("main") as s, s.turn("write"):
            call = s.wrap(dispatch)
            await call("write_file", {"path": str(tmp_path / "a.txt"), "content": "x"})
            with pytest.raises(OSError, match="disk full"):
                await call("fail_to_write", {})
            return [getattr(e.record, "how", "") for e in await s.entries("files")]

    assert asyncio.run(run()) == ["inferred"]


def test_a_tool_names_several_arguments_that_are_paths(store, tmp_path):
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")

    @stator.tool(files=("old", "new"))
    def move(old, new):
        (tmp_path / old).rename(tmp_path / new)

    with store.open("main") as session, session.turn("move it") as turn:
        turn.call(move, old="a.txt", new="b.txt")
        assert touched(session) == {
            "a.txt": ("deleted", "recorded"),
            "b.txt": ("created", "recorded"),
        }


@pytest.mark.parametrize("given", [1, ("old", 2), {"old": "new"}])
def test_files_that_name_no_arguments_are_refused(given):
    with pytest.raises(stator.errors.BadType, match="files names arguments"):
        stator.tool(files=given)(dispatch)
