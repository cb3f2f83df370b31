"""What becomes a parameter of a workflow, and what it is called."""

from __future__ import annotations

import pytest

from stator.errors import BadWorkflow
from stator.model.calls.parameter_names import name_for, telling_parts, with_more
from stator.model.calls.vocabulary import act_of, root_of
from stator.model.calls.workflow import SCHEMA, CallTemplate, Parameter, Workflow, check, fill


@pytest.mark.parametrize(
    ("value", "argument", "prompt", "name"),
    [
        ("2026-11-15", "command", "sort the folder 2026-11-15", "date"),
        ("ACME", "query", "write to the client ACME", "client"),
        ("ACME", "query", "write to ACME", "query"),
        ("inbox", "path", "sort the inbox folder", "folder"),
        ("A-17", "number", "refund order A-17", "order"),
        ("src/a.py", "file_path", "", "file"),
        ("src", "path", "", "folder"),
        ("**/*.py", "pattern", "", "pattern"),
        ("https://example.org/x", "address", "", "url"),
        ("ann@example.org", "to", "", "email"),
        (42000, "cents", "", "cents"),
    ],
)
def test_a_parameter_is_named_by_the_prompt_then_by_what_it_is(value, argument, prompt, name):
    assert name_for(value, argument, prompt) == name


def test_a_second_file_is_named_by_its_own_name_then_by_its_folder_too():
    assert with_more("file", "src/cart.py") == "cart_file"
    assert with_more("file", "src/cart.py", above=True) == "src_cart_file"
    assert with_more("file", "x/20260211205820_9.ex") == "file"


def test_a_path_with_a_date_varies_by_the_date():
    texts = ["ls inbox/2026-11-15", "mv inbox/2026-11-15/a.pdf done/"]
    assert telling_parts("sort inbox/2026-11-15", texts, "") == ["2026-11-15"]


def test_plain_words_and_the_recorded_folder_are_no_parameters():
    texts = ["grep error /home/ann/inbox/a.txt", "cat 'text'"]
    assert (
        telling_parts("in /home/ann/inbox: find `error` in 'text'", texts, "/home/ann/inbox") == []
    )


@pytest.mark.parametrize(
    ("calls", "project", "root"),
    [
        ([("Write", {"file_path": "/w/p/src/a.py", "content": ""})], "", "/w/p/src"),
        ([("Write", {"file_path": "/w/p/src/a.py", "content": ""})], "/w/p", "/w/p"),
        ([("Read", {"file_path": "/w/p/a"}), ("Bash", {"command": "ls p/b"})], "", "/w"),
        ([("Bash", {"command": "cd /w/p && make"})], "", "/w/p"),
        ([("Read", {"file_path": "/home/ann/a"})], "", ""),
        ([("Read", {"file_path": "a"})], "", ""),
    ],
)
def test_the_recorded_folder_is_where_most_paths_are(calls, project, root):
    acts = [act_of(tool, given) for tool, given in calls]
    assert root_of([act for act in acts if act is not None], project) == root


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("WebFetch", {"url": "x"}),
        ("mcp__db__query", {"sql": "x"}),
        ("Bash", {}),
        ("Bash", {"command": 3}),
        ("Write", {"file_path": "a"}),
        ("Edit", {"file_path": "a", "old_string": "x"}),
        ("MultiEdit", {"file_path": "a", "edits": [3]}),
        ("edit", {"command": "edit 1:2\nx\nend_of_edit"}),
        ("apply_patch", {}),
    ],
)
def test_a_call_that_is_not_whole_is_no_act(tool, given):
    assert act_of(tool, given) is None


def test_a_joined_text_is_filled_with_its_parameters():
    assert fill({"$text": ["mv ", {"$param": "date"}, "/x"]}, {"date": "d"}, {}) == "mv d/x"


@pytest.mark.parametrize(
    "parts",
    ["x", [3], [{"$from": "c0"}], [{"$param": "other"}], [{"$param": "date", "x": 1}], [["a"]]],
)
def test_a_joined_text_of_anything_else_is_refused(parts):
    made = Workflow(
        schema=SCHEMA,
        name="w",
        parameters=[Parameter(name="date")],
        calls=[CallTemplate(id="c1", tool="Bash", input={"command": {"$text": parts}})],
    )
    with pytest.raises(BadWorkflow):
        check(made)
