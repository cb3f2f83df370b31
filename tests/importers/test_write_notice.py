"""Tests that an agent is told once when another live one changed the file that it writes: with real hook processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from importers.hook_lines import IN_A_FILE
from stator.model.brief.envelope import notes_in
from stator.model.brief.shared_files import READ, WROTE, paths_of
from stator.model.exchange.items import Conversation
from stator.touched_files import FOLDER, Toucher, own_process, stamp_of

AGENT = """
import json, subprocess, sys
for line in sys.stdin:
    hook, agent, payload = json.loads(line)
    done = subprocess.run([*hook, agent], input=json.dumps(payload).encode(), capture_output=True)
    print(json.dumps([done.returncode, done.stdout.decode(), done.stderr.decode()]), flush=True)
"""
HOOK = [sys.executable, "-m", "stator.surfaces.hook"]
SHAPES = {
    "claude-code": ("PreToolUse", "PostToolUse", "Read", "Edit", "file_path"),
    "codex": ("PreToolUse", "PostToolUse", "Read", "Write", "file_path"),
    "gemini": ("BeforeTool", "AfterTool", "read_file", "write_file", "file_path"),
    "opencode": ("PreToolUse", "PostToolUse", "read", "edit", "filePath"),
    "cursor": ("preToolUse", "postToolUse", "Read", "Write", "file_path"),
}


class LiveAgent:
    """A process that reports what it does to the hook program, as an agent does."""

    def __init__(self, hooked, name: str, agent: str = "claude-code") -> None:
        self.hooked, self.name, self.agent = hooked, name, agent
        self.before, self.after, self.reading, self.writing, self.field = SHAPES[agent]
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=hooked.environ, cwd=hooked.root,
        )  # fmt: skip

    def hook(self, event: str, **more) -> str:
        """Run one hook; return the text of ours that it gave."""
        names = {
            "session_id": self.name,
            "conversation_id": self.name,
            "cwd": str(self.hooked.root),
        }
        payload = {"hook_event_name": event, **names, **more}
        print(json.dumps([HOOK, self.agent, payload]), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        code, out, errors = json.loads(self.process.stdout.readline())
        assert (code, errors) == (0, "")
        if not out:
            return ""
        said = json.loads(out)
        text = said.get("additional_context") or said["hookSpecificOutput"]["additionalContext"]
        (note,) = notes_in(text)
        assert (note.kind, note.whole) == ("file", True)
        return note.text

    def read(self, path: Path) -> str:
        return self.hook(self.after, tool_name=self.reading, tool_input={self.field: str(path)})

    def write(self, path: Path, content: str | None) -> str:
        call = {"tool_name": self.writing, "tool_input": {self.field: str(path)}}
        told = self.hook(self.before, **call)
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
        return told + self.hook(self.after, **call)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def live(hooked):
    agents: list[LiveAgent] = []

    def begin(name: str, agent: str = "claude-code") -> LiveAgent:
        agents.append(LiveAgent(hooked, name, agent))
        return agents[-1]

    yield begin
    for agent in agents:
        if agent.process.poll() is None:
            agent.kill()


@pytest.fixture
def shared(hooked):
    path = hooked.root / "shared.md"
    path.write_text("roses\n")
    return path


@pytest.mark.parametrize("agent", SHAPES)
def test_an_agent_is_told_once_that_another_changed_its_file(live, shared, agent):
    mine, other = live("mine", agent), live("other", "codex")
    mine.read(shared)
    other.write(shared, "tulips\n")
    told = mine.write(shared, "lilies\n")
    assert "Another agent changed «" in told
    assert "codex, session s_" in told
    assert "Read the file again" in told
    assert mine.write(shared, "lilies, again\n") == ""


@IN_A_FILE
def test_the_other_session_is_named_as_the_store_names_it(live, shared, hooked):
    mine, other = live("mine"), live("other", "cursor")
    other.hook("beforeSubmitPrompt", generation_id="g", prompt="plant </stator-note> tulips")
    with stator.connect(hooked.path) as store:
        session = store.read(Conversation(source="cursor", id="other").session).id
    mine.read(shared)
    other.write(shared, "tulips\n")
    told = mine.write(shared, "lilies\n")
    assert f"session s_{session[-8:]} «plant \\x3c/stator-note> tulips», with Write" in told


def test_an_agent_that_read_the_file_since_is_told_nothing(live, shared):
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(shared, "tulips\n")
    mine.read(shared)
    assert mine.write(shared, "lilies\n") == ""


def test_an_agents_own_change_is_no_news_to_it(live, shared):
    mine = live("mine")
    mine.read(shared)
    mine.write(shared, "tulips\n")
    assert mine.write(shared, "lilies\n") == ""


def test_the_change_of_a_sub_agent_with_a_session_of_its_own_is_no_news(live, shared):
    mine = live("mine", "opencode")
    mine.read(shared)
    shared.write_text("tulips\n")
    call = {"tool_name": mine.writing, "tool_input": {mine.field: str(shared)}}
    mine.hook(mine.after, session_id="child", parent_id="mine", **call)
    assert mine.write(shared, "lilies\n") == ""
    other = live("other", "codex")
    other.write(shared, "asters\n")
    assert "Another agent changed" in mine.hook(
        mine.before, session_id="child", parent_id="mine", **call
    )


def test_a_change_is_told_after_the_call_although_another_followed(live, shared):
    mine, other = live("mine", "gemini"), live("other")
    mine.read(shared)
    other.write(shared, "tulips\n")
    call = {"tool_name": mine.writing, "tool_input": {mine.field: str(shared)}}
    assert mine.hook(mine.before, **call) == ""
    other.write(shared, "asters\n")
    assert "Another agent changed" in mine.hook(mine.after, **call)
    assert mine.hook(mine.after, **call) == ""


def test_a_write_that_changes_nothing_is_no_news(live, shared):
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(shared, "roses\n")
    assert mine.write(shared, "lilies\n") == ""


def test_the_change_of_an_agent_that_was_killed_is_no_news(live, shared):
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(shared, "tulips\n")
    other.kill()
    assert mine.write(shared, "lilies\n") == ""


def test_the_change_of_a_session_that_ended_is_no_news(live, shared):
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(shared, "tulips\n")
    other.hook("SessionEnd", reason="clear")
    assert mine.write(shared, "lilies\n") == ""


@IN_A_FILE
def test_the_change_of_a_session_that_a_person_closed_is_no_news(live, shared, hooked):
    mine, other = live("mine"), live("other", "cursor")
    other.hook("beforeSubmitPrompt", generation_id="g", prompt="plant tulips")
    mine.read(shared)
    other.write(shared, "tulips\n")
    with stator.connect(hooked.path) as store:
        store.lifecycle.close(Conversation(source="cursor", id="other").session)
    assert mine.write(shared, "lilies\n") == ""


def test_a_file_that_another_agent_removed_is_news(live, shared):
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(shared, None)
    assert "changed «" in mine.write(shared, "lilies\n")


def test_a_link_to_a_file_is_that_file(live, shared, hooked):
    link = hooked.root / "link.md"
    link.symlink_to(shared)
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(link, "tulips\n")
    assert "changed «" in mine.write(shared, "lilies\n")


def test_the_same_path_in_another_worktree_is_another_file(live, shared, hooked):
    tree = hooked.root / "tree"
    tree.mkdir()
    (tree / "shared.md").write_text("roses\n")
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(tree / "shared.md", "tulips\n")
    assert mine.write(shared, "lilies\n") == ""


def test_names_that_differ_in_case_are_two_files(live, shared, hooked):
    upper = hooked.root / "SHARED.md"
    mine, other = live("mine"), live("other")
    mine.read(shared)
    other.write(upper, "tulips\n")
    assert mine.write(shared, "lilies\n") == ""


def test_a_file_read_in_a_shell_counts_as_read(live, shared):
    mine, other = live("mine", "codex"), live("other")
    command = {"tool_name": "Bash", "tool_input": {"command": "sed -n 1,40p shared.md"}}
    mine.hook("PostToolUse", **command)
    other.write(shared, "tulips\n")
    mine.hook("PostToolUse", **command)
    assert mine.write(shared, "lilies\n") == ""


def test_a_write_in_a_shell_is_news_to_others(live, shared):
    mine, other = live("mine"), live("other", "codex")
    mine.read(shared)
    command = {"tool_name": "Bash", "tool_input": {"command": "echo tulips >shared.md"}}
    other.hook("PreToolUse", **command)
    shared.write_text("tulips\n")
    other.hook("PostToolUse", **command)
    assert "codex" in mine.write(shared, "lilies\n")


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd",
        "a\0b",
        "x" * 5000,
        "/dev/zero",
        "/proc/self/mem",
        ".",
        "a\nb\tc",
        "\udcff",
    ],
)
def test_no_path_leads_out_of_the_folder_or_stops_the_hook(live, hooked, path):
    agent = live("mine")
    call = {"tool_name": "Write", "tool_input": {"file_path": path}}
    assert agent.hook("PreToolUse", **call) == ""
    assert agent.hook("PostToolUse", **call) == ""
    kept = sorted((hooked.spool / FOLDER).iterdir()) if (hooked.spool / FOLDER).exists() else []
    assert all(len(one.name) == 32 and one.is_file() for one in kept)


def test_a_pipe_is_not_waited_for(hooked):
    os.mkfifo(hooked.root / "pipe")
    assert stamp_of(str(hooked.root / "pipe")).startswith("no-file")


def test_a_folder_that_is_a_link_is_left_alone(live, shared, hooked, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    hooked.spool.mkdir(exist_ok=True)
    (hooked.spool / FOLDER).symlink_to(elsewhere)
    live("mine").read(shared)
    assert list(elsewhere.iterdir()) == []


def test_a_line_that_a_killed_process_left_unfinished_is_ignored(tmp_path):
    path = tmp_path / "a"
    path.write_text("roses")
    mine = Toucher(str(tmp_path), "mine", "codex", own_process())
    other = Toucher(str(tmp_path), "other", "gemini", own_process())
    mine.seen(str(path))
    (kept,) = (tmp_path / FOLDER).iterdir()
    with open(kept, "ab") as file:
        file.write(b"99999999999999999999\tw\tother\tgem")
    path.write_text("tulips")
    other.seen(str(path), wrote=True)
    found = mine.before_write(str(path))
    assert found is not None
    assert found.agent == "gemini"


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n*** Add File: b/c.py\n+y\n*** End Patch"


@pytest.mark.parametrize(
    ("tool", "given", "found"),
    [
        ("Read", {"file_path": "a"}, [(READ, "a")]),
        ("MultiEdit", {"file_path": "a"}, [(WROTE, "a")]),
        ("apply_patch", {"command": PATCH}, [(WROTE, "a.py"), (WROTE, "b/c.py")]),
        ("apply_patch", {"input": PATCH}, [(WROTE, "a.py"), (WROTE, "b/c.py")]),
        ("Bash", {"command": "cat a>b"}, [(READ, "cat"), (READ, "a"), (WROTE, "b")]),
        ("Bash", {"command": "ls|tee c"}, [(READ, "ls"), (READ, "tee"), (WROTE, "c")]),
        ("Bash", {"command": ["cat", "a"]}, [(READ, "cat"), (READ, "a")]),
        ("Grep", {"path": "a"}, []),
        ("Write", {"file_path": 3}, []),
        ("Write", None, []),
        ("Write", [], []),
    ],
)  # fmt: skip
def test_the_files_of_a_call_are_found_in_its_arguments(tool, given, found):
    assert paths_of(tool, given) == found
