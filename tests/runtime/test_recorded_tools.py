"""What recorded shell and file tools do in a chosen folder, with real files and processes."""

from __future__ import annotations

import subprocess

import pytest

from stator.errors import BadWorkflow, InvalidInput, NotDone
from stator.model.calls.workflow import SCHEMA, CallTemplate, Parameter, Workflow
from stator.runtime.replay import recorded_tools, workflow
from stator.runtime.replay.recorded_tools import CommandFailed, RecordedTools
from stator.testing import memory_store
from waiting import eventually

THEN = "/home/ann/inbox"


def is_running(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "outside.txt").write_text("secret")
    return folder


@pytest.fixture
def tools(root):
    return RecordedTools(str(root), THEN, timeout_s=20)


def do(tools, name, **given):
    return tools.do(tools.act(name, given))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Read", {"file_path": f"{THEN}/a.txt"}),
        ("read_file", {"path": "a.txt"}),
        ("read", {"filePath": "./a.txt"}),
        ("view", {"path": "sub/../a.txt"}),
        ("str_replace_editor", {"command": "view", "path": f"{THEN}/a.txt"}),
        ("Bash", {"command": f"cat {THEN}/a.txt"}),
        ("exec_command", {"cmd": "cat a.txt"}),
        ("run_shell_command", {"command": "cat a.txt"}),
        ("shell", {"command": ["bash", "-lc", "cat a.txt"], "workdir": THEN}),
    ],
)
def test_tools_of_every_agent_read_the_file_below_the_chosen_folder(tools, name, given):
    assert do(tools, name, **given) == "one\ntwo\n"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Write", {"file_path": f"{THEN}/new/b.txt", "content": "x\n"}),
        ("write_file", {"file_path": "new/b.txt", "content": "x\n"}),
        ("create", {"path": "new/b.txt", "content": "x\n"}),
        ("Edit", {"file_path": "new/b.txt", "old_string": "", "new_string": "x\n"}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Add File: {THEN}/new/b.txt\n+x\n*** End Patch"}),
        ("str_replace_editor", {"command": "create", "path": "new/b.txt", "file_text": "x\n"}),
        ("bash", {"command": f"mkdir -p {THEN}/new && echo x > new/b.txt"}),
    ],
)  # fmt: skip
def test_tools_of_every_agent_write_the_file_below_the_chosen_folder(tools, root, name, given):
    do(tools, name, **given)
    assert (root / "new" / "b.txt").read_text() == "x\n"


def test_an_edit_replaces_exactly_one_place_or_all(tools, root):
    (root / "a.txt").write_text("x x\n")
    with pytest.raises(NotDone, match="is in it 2 times"):
        do(tools, "Edit", file_path="a.txt", old_string="x", new_string="y")
    with pytest.raises(NotDone, match="is not in it"):
        do(tools, "Edit", file_path="a.txt", old_string="z", new_string="y")
    assert (root / "a.txt").read_text() == "x x\n"
    do(tools, "Edit", file_path="a.txt", old_string="x", new_string="y", replace_all=True)
    assert (root / "a.txt").read_text() == "y y\n"


def test_several_edits_are_made_together_or_not_at_all(tools, root):
    edits = [{"old_string": "one", "new_string": "1"}, {"old_string": "no", "new_string": "2"}]
    with pytest.raises(NotDone):
        do(tools, "MultiEdit", file_path="a.txt", edits=edits)
    assert (root / "a.txt").read_text() == "one\ntwo\n"


def test_a_patch_updates_moves_and_deletes(tools, root):
    (root / "gone.txt").write_text("x")
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n one\n-two\n+three\n"
        "*** Delete File: gone.txt\n*** End Patch"
    )
    do(tools, "apply_patch", input=patch)
    assert sorted(path.name for path in root.iterdir()) == ["b.txt"]
    assert (root / "b.txt").read_text() == "one\nthree\n"


def test_a_patch_that_does_not_fit_changes_nothing(tools, root):
    patch = (
        "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: a.txt\n@@\n-nine\n+ten\n"
        "*** End Patch"
    )
    with pytest.raises(NotDone):
        do(tools, "apply_patch", input=patch)
    assert sorted(path.name for path in root.iterdir()) == ["a.txt"]


def test_folders_are_listed_and_searched(tools, root):
    (root / "sub").mkdir()
    (root / "sub" / "b.py").write_text("def f(): pass\n")
    assert do(tools, "LS", path=THEN) == "a.txt\nsub/"
    assert do(tools, "Glob", pattern="**/*.py") == "sub/b.py"
    assert do(tools, "Glob", pattern="*.py") == ""
    assert do(tools, "Grep", pattern="def f", path=f"{THEN}/sub") == "sub/b.py:1:def f(): pass\n"
    assert do(tools, "grep_files", pattern="nothing") == ""


# -- hostile ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../outside.txt", "a/../../outside.txt", "~/x", f"{THEN}/../x", f"{THEN}er/x", "a\0b"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["Read", "Write", "Edit", "LS", "Grep"])
def test_a_path_that_leads_out_of_the_folder_is_refused_before_anything_runs(tools, name, path):
    given = {"content": "x", "old_string": "a", "new_string": "b", "pattern": "x"}
    with pytest.raises(BadWorkflow, match="outside the folder"):
        tools.act(name, {"file_path": path, "path": path, **given})


def test_a_patch_that_leads_out_of_the_folder_is_refused(tools):
    with pytest.raises(BadWorkflow, match="outside the folder"):
        tools.act(
            "apply_patch",
            {"input": "*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch"},
        )


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Read", {"file_path": "link/outside.txt"}),
        ("Read", {"file_path": "file_link"}),
        ("Write", {"file_path": "link/outside.txt", "content": "x"}),
        ("Edit", {"file_path": "link/outside.txt", "old_string": "secret", "new_string": "x"}),
        ("Edit", {"file_path": "file_link", "old_string": "secret", "new_string": "x"}),
        ("LS", {"path": "link"}),
        ("Grep", {"pattern": "secret", "path": "link"}),
        ("bash", {"command": "ls", "workdir": "link"}),
    ],
)
def test_no_link_is_followed(tools, root, tmp_path, name, given):
    (root / "link").symlink_to(tmp_path)
    (root / "file_link").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(NotDone):
        do(tools, name, **given)
    assert (tmp_path / "outside.txt").read_text() == "secret"


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tools, root, tmp_path):
    (root / "file_link").symlink_to(tmp_path / "outside.txt")
    do(tools, "Write", file_path="file_link", content="x")
    assert (tmp_path / "outside.txt").read_text() == "secret"


def test_searching_shows_nothing_behind_links(tools, root, tmp_path):
    (root / "link").symlink_to(tmp_path)
    assert "secret" not in do(tools, "Grep", pattern="secret")
    assert "outside" not in do(tools, "Glob", pattern="**/*.txt")


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", "sub/.git/config", ".stator/store.db", ".GIT/config"]
)
def test_folders_whose_files_run_or_decide_things_are_left_alone(tools, root, path):
    with pytest.raises(NotDone):
        do(tools, "Write", file_path=path, content="x")
    assert not (root / path).exists()


def test_an_endless_command_is_ended_with_all_that_it_started(root):
    tools = RecordedTools(str(root), timeout_s=0.5)
    with pytest.raises(TimeoutError):
        do(tools, "bash", command="sleep 600 & echo $! > pid; wait")
    pid = int((root / "pid").read_text())
    eventually(lambda: not is_running(pid))


def test_of_a_huge_output_the_first_part_is_kept(tools, monkeypatch):
    monkeypatch.setattr(recorded_tools, "OUTPUT_MAX", 1000)
    assert len(do(tools, "bash", command="head -c 5000000 /dev/zero | tr '\\0' x")) == 1000


def test_a_command_that_fails_says_its_exit_code(tools):
    with pytest.raises(CommandFailed, match="exit code 3: oh no"):
        do(tools, "bash", command="echo oh no; exit 3")


def test_a_command_gets_no_input_and_the_given_variables(root):
    tools = RecordedTools(str(root), environment={"PATH": "/usr/bin:/bin", "A": "b"})
    assert do(tools, "bash", command="cat; echo $A $HOME") == "b\n"


def test_a_tool_that_nobody_knows_cannot_run(tools):
    with pytest.raises(BadWorkflow, match="nothing here can do what 'WebFetch' did"):
        tools.act("WebFetch", {"url": "http://example.org"})


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="is no folder"):
        RecordedTools(str(tmp_path / "missing"))


# -- as a workflow ---------------------------------------------------------------------------------


def chain(*calls, **more):
    made = [
        CallTemplate(id=f"c{place}", tool=tool, input=given)
        for place, (tool, given) in enumerate(calls, 1)
    ]
    return Workflow(schema=SCHEMA, name="w", calls=made, root=THEN, **more)


def run(store, made, tools, **options):
    return workflow.run(store.port, store.context, made, {}, recorded=tools, **options)


def test_reads_run_and_the_first_write_waits(tools, root):
    made = chain(("Read", {"file_path": "a.txt"}), ("Write", {"file_path": "b", "content": "x"}))
    ran = run(memory_store(), made, tools)
    assert [call.status for call in ran.calls] == ["ok", "awaiting approval"]
    assert not (root / "b").exists()


def test_a_shell_command_waits_also_if_it_only_reads(tools):
    ran = run(memory_store(), chain(("Bash", {"command": "ls"})), tools)
    assert ran.status == "waits"


def test_nothing_runs_if_a_later_call_leads_out_of_the_folder(tools, root):
    made = chain(
        ("Write", {"file_path": "b", "content": "x"}), ("Read", {"file_path": "/etc/passwd"})
    )
    with pytest.raises(BadWorkflow, match="outside the folder"):
        run(memory_store(), made, tools, effects="run")
    assert not (root / "b").exists()


def test_a_parameter_that_leads_out_of_the_folder_is_refused(tools):
    made = chain(
        ("Read", {"file_path": {"$text": ["x/", {"$param": "date"}]}}),
        parameters=[Parameter(name="date", default="../../..")],
    )
    with pytest.raises(BadWorkflow, match="outside the folder"):
        run(memory_store(), made, tools)


def test_a_write_that_is_given_what_an_earlier_call_gave_asks_by_itself(tools, root):
    (root / "a.txt").write_text("rm -rf x")
    made = chain(("Read", {"file_path": "a.txt"}), ("Bash", {"command": {"$from": "c1"}}))
    ran = run(memory_store(), made, tools, effects="run")
    assert [call.status for call in ran.calls] == ["ok", "awaiting approval"]


def test_each_call_is_on_record_with_its_files(tools, root):
    store = memory_store()
    made = chain(("Write", {"file_path": f"{THEN}/b.txt", "content": "x"}))
    ran = run(store, made, tools, effects="run")
    assert ran.status == "done"
    (change,) = store.read(ran.session).files()
    assert (change.path, change.op) == (str(root / "b.txt"), "created")
    assert ran.calls[0].arguments["file_path"] == str(root / "b.txt")
