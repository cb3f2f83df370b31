"""Which files a call touched, from its tool's name and arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.exchange.items import digest_of
from stator.model.exchange.tool_files import files_of_call


def found(tool, **arguments):
    return [(touch.op, touch.path, touch.from_path) for touch in files_of_call(tool, arguments)]


@pytest.mark.parametrize(
    ("tool", "op"),
    [
        ("write_file", "created"),
        ("Write", "created"),
        ("create_file", "created"),
        ("saveFile", "created"),
        ("Edit", "modified"),
        ("MultiEdit", "modified"),
        ("str_replace", "modified"),
        ("mcp__fs__edit_file", "modified"),
        ("fs.read_file", "read"),
        ("Read", "read"),
        ("view", "read"),
        ("delete_file", "deleted"),
    ],
)
@pytest.mark.parametrize("argument", ["path", "file_path", "filename", "target_file"])
def test_a_tool_whose_name_says_what_it_does_touched_the_file_at_its_path(tool, op, argument):
    assert found(tool, **{argument: "src/a.py"}) == [(op, "src/a.py", "")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_dir", {"path": "src"}),
        ("create_directory", {"path": "src"}),
        ("read_many_files", {"path": "src"}),
        ("pay", {"path": "a.py"}),
        ("write_file", {"content": "x"}),
        ("read_url", {"path": "https://example.com/a"}),
        ("write_file", {"path": "src/"}),
        ("write_file", {"path": "a\nb"}),
        ("write_file", {"path": 7}),
        ("bash", {"command": "make all"}),
        ("bash", {"command": 7}),
        ("bash", {}),
    ],
)
def test_what_cannot_be_told_from_the_words_is_left_out(tool, arguments):
    assert found(tool, **arguments) == []


@pytest.mark.parametrize("tool", ["bash", "Bash", "run_shell_command", "shell", "exec_command"])
@pytest.mark.parametrize(
    "arguments",
    [{"command": "rm a.txt"}, {"cmd": "rm a.txt"}, {"command": ["bash", "-lc", "rm a.txt"]}],
)
def test_a_shell_command_is_read(tool, arguments):
    assert found(tool, **arguments) == [("deleted", "a.txt", "")]


def test_a_patch_names_its_files():
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"
    assert found("apply_patch", input=patch) == [("modified", "a.py", "")]
    assert found("shell", command=f"apply_patch <<'EOF'\n{patch}\nEOF\n") == [
        ("modified", "a.py", "")
    ]


@pytest.mark.parametrize(
    ("command", "op"),
    [("view", "read"), ("create", "created"), ("str_replace", "modified"), ("insert", "modified")],
)
def test_an_editor_with_several_commands_does_what_its_command_says(command, op):
    tool = "str_replace_based_edit_tool"
    assert found(tool, command=command, path="a.py") == [(op, "a.py", "")]


def test_a_move_has_both_names():
    assert found("move_file", source="a.py", destination="b.py") == [("renamed", "b.py", "a.py")]


def test_what_is_written_whole_has_a_digest():
    (touch,) = files_of_call("write_file", {"path": "a.py", "content": "x = 1\n"})
    assert touch.after == digest_of("x = 1\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
names = st.sampled_from(
    ["path", "command", "cmd", "input", "patch", "content", "to", "from", "source"]
)


@given(
    st.text() | st.sampled_from(["bash", "write_file", "mv", "apply_patch"]),
    st.dictionaries(names, values),
)
def test_every_call_is_answered_and_every_file_is_inferred(tool, arguments):
    assert all(touch.how == "inferred" and touch.path for touch in files_of_call(tool, arguments))
