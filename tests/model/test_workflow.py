"""Workflow files: making one from a chain of calls, and refusing a hostile one."""

from __future__ import annotations

import json

import pytest

from stator.errors import BadWorkflow
from stator.model.calls import workflow
from stator.model.calls.known import KnownCall
from stator.model.calls.workflow import (
    CallTemplate,
    Parameter,
    Workflow,
    fill,
    literal,
    parse,
    written,
)
from stator.model.calls.workflow_maker import extract
from stator.model.log.commit import Commit
from stator.model.values import canon

BASE = {"schema": "stator.workflow/1", "name": "w"}


def text(**parts):
    return json.dumps({**BASE, **parts}).encode()


def refused(data, match):
    with pytest.raises(BadWorkflow, match=match):
        parse(data)


# -- reading --------------------------------------------------------------------------------------


def test_a_written_workflow_is_read_back_unchanged():
    made = Workflow(
        schema=workflow.SCHEMA,
        name="refund",
        parameters=[
            Parameter(name="order", default="A-17", seen=["prompt"]),
            Parameter(name="key"),
        ],
        calls=[
            CallTemplate(id="c1", tool="find", effect="read", input={"order": {"$param": "order"}}),
            CallTemplate(
                id="c2", tool="pay", input={"to": {"$from": "c1", "at": "/to"}}, on_error="continue"
            ),
        ],
        notes=["t1 @4 pay: left out, it ended error"],
    )
    assert parse(made.to_json().encode()) == made


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not a workflow"),
        (b"\xff\xfe", "not a workflow"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `schema`"),
        (b"[" * 100_000, "not a workflow"),
        (b'{"schema": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "not a workflow"),
        (b" " * 5_000_000, "at most 4,000,000 bytes"),
        (json.dumps({**BASE, "schema": "stator.workflow/2"}).encode(), "unknown schema"),
        (json.dumps({**BASE, "name": " "}).encode(), "needs a name"),
        (text(surprise=1), "unknown field `surprise`"),
        (text(calls={}), r"got `object` - at `\$.calls`"),
        (text(calls=[{"id": "c1", "tool": 3}]), r"got `int` - at `\$.calls\[0\].tool`"),
        (text(calls=[{"id": "c1", "tool": ""}]), r"a call needs a tool - at \$.calls\[0\].tool"),
        (text(calls=[{"id": "c 1", "tool": "x"}]), "not a name: 'c 1'"),
        (text(calls=[{"id": "c1", "tool": "x", "effect": "none"}]), "Invalid enum value 'none'"),
        (text(calls=[{"id": "c1", "tool": "x", "on_error": "eval"}]), "Invalid enum value"),
        (text(calls=[{"id": "a", "tool": "x"}] * 2), "'a' occurs twice"),
        (text(calls=[{"id": f"c{n}", "tool": "x"} for n in range(1001)]), "at most 1000 calls"),
        (text(parameters=[{"name": "a"}, {"name": "a"}]), "'a' occurs twice"),
        (
            text(parameters=[{"name": "a", "default": {"$from": "c1"}}]),
            "expected a value, not a reference",
        ),
    ],
)
def test_the_error_of_an_invalid_workflow_file_names_the_place(data, match):
    refused(data, match)


@pytest.mark.parametrize(
    ("template", "match"),
    [
        ({"$param": "nobody"}, r"no parameter 'nobody' - at \$.calls\[1\].input.a"),
        ({"$param": ["x"]}, "no parameter"),
        ({"$from": "c2"}, "no earlier call 'c2'"),
        ({"$from": "c3"}, "no earlier call 'c3'"),
        ({"$from": {"$from": "c1"}}, "no earlier call"),
        ({"$from": "c1", "at": "x"}, "not a JSON Pointer"),
        ({"$from": "c1", "at": 7}, "not a JSON Pointer"),
        ({"$from": "c1", "as": "x"}, "unknown reference"),
        ({"$param": "p", "$from": "c1"}, "unknown reference"),
        ({"$eval": "1"}, "unknown reference"),
        ({"$value": {"$f": "nan"}, "x": 1}, "unknown reference"),
    ],
)
def test_a_reference_to_no_earlier_call_or_parameter_is_refused(template, match):
    calls = [
        {"id": "c1", "tool": "x"},
        {"id": "c2", "tool": "x", "input": {"a": [template]}},
        {"id": "c3", "tool": "x"},
    ]
    refused(text(parameters=[{"name": "p"}], calls=calls), match)


def test_deeply_nested_inputs_are_refused():
    deep: object = 1
    for _ in range(200):
        deep = [deep]
    refused(text(calls=[{"id": "c1", "tool": "x", "input": {"a": deep}}]), "nested deeper than 128")
    refused(text(parameters=[{"name": "p", "default": deep}]), "nested deeper than 128")


# -- filling in -----------------------------------------------------------------------------------


def test_unknown_parameters_are_refused_and_required_ones_must_be_set():
    made = parse(text(parameters=[{"name": "a", "default": 1}, {"name": "key"}]))
    assert workflow.values_for(made, {"key": "k"}) == {"a": 1, "key": "k"}
    with pytest.raises(BadWorkflow, match=r"key must be set .--set key=…."):
        workflow.values_for(made, {})
    with pytest.raises(BadWorkflow, match="no parameter 'b'"):
        workflow.values_for(made, {"b": 1})


@pytest.mark.parametrize("pointer", ["/rows/7", "/nobody", "/rows/-", "/rows/0/id/x"])
def test_a_reference_to_a_missing_part_of_an_output_is_an_error(pointer):
    with pytest.raises(BadWorkflow, match="the output of c1 has nothing at"):
        fill({"$from": "c1", "at": pointer}, {}, {"c1": {"rows": [{"id": 1}]}})


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        -0.0,
        2**70,
        b"\x00",
        (1, 2),
        {"$param": "x"},
        {"a": {"$value": 1}},
        "\ud800",
        {"\ud800": 1},
    ],
)
def test_a_value_that_json_cannot_express_is_kept(value):
    kept = literal(json.loads(json.dumps(written(value))), "$")
    assert repr(kept) == repr(value)


# -- making one -----------------------------------------------------------------------------------


def called(tool, given, output=None, status="ok"):
    """A recorded call of a turn."""
    ending = Commit(
        id="k_",
        session="s_",
        seq=8,
        kind="outcome",
        turn=1,
        at=0,
        hash="",
        prev="",
        content={"output": canon.dumps(output)},
    )
    return KnownCall(
        call="c_",
        tool=tool,
        effect="read",
        turn=1,
        seq=7,
        given=given,
        status=status,
        ending=ending,
    )


def made(*calls, prompt=""):
    return extract("w", [prompt], calls)


def test_a_value_from_the_prompt_becomes_a_parameter_with_that_default():
    found = made(called("pay", {"to": "ACME", "cents": 42, "note": "hi"}), prompt="pay ACME 42 now")
    assert [(p.name, p.default, p.seen) for p in found.parameters] == [
        ("to", "ACME", ["prompt", "c1/to"]),
        ("cents", 42, ["prompt", "c1/cents"]),
    ]
    assert found.calls[0].input == {
        "to": {"$param": "to"},
        "cents": {"$param": "cents"},
        "note": "hi",
    }


def test_part_of_a_word_in_the_prompt_is_not_a_parameter():
    assert made(called("x", {"a": "log", "n": 4}), prompt="login 42").parameters == []


def test_a_value_passed_to_several_calls_is_one_parameter():
    found = made(called("read", {"path": "a.py"}), called("write", {"file": "a.py"}))
    assert [(p.name, p.seen) for p in found.parameters] == [("file", ["c1/path", "c2/file"])]
    assert found.calls[1].input == {"file": {"$param": "file"}}


def test_a_value_from_an_earlier_output_becomes_a_reference():
    found = made(
        called("find", {"q": "x"}, {"rows": [{"id": 7, "name": "Ann Lee"}], "a/b": ["deep one"]}),
        called(
            "get",
            {"id": 7, "who": "Ann Lee", "all": [{"id": 7, "name": "Ann Lee"}], "k": "deep one"},
        ),
    )
    assert found.calls[1].input == {
        "id": {"$from": "c1", "at": "/rows/0/id"},
        "who": {"$from": "c1", "at": "/rows/0/name"},
        "all": {"$from": "c1", "at": "/rows"},
        "k": {"$from": "c1", "at": "/a~1b/0"},
    }


def test_a_small_number_is_a_reference_only_if_the_names_match():
    found = made(called("a", {}, {"count": 7}), called("b", {"limit": 7, "flag": True}))
    assert found.calls[1].input == {"limit": 7, "flag": True}


def test_failed_calls_are_omitted_and_noted():
    found = made(called("pay", {}, status="error"), called("pay", {}))
    assert [call.tool for call in found.calls] == ["pay"]
    assert found.notes == ["t1 @7 pay: left out, it ended error"]


def test_a_secret_becomes_a_required_parameter_and_is_not_in_the_file():
    secret = "‹secret:anthropic:0123abcd›"
    found = made(
        called("login", {"key": secret}),
        called("use", {"token": f"Bearer {secret}"}),
        prompt=secret,
    )
    assert [(p.name, p.required) for p in found.parameters] == [("key", True), ("token", True)]
    assert "secret:" not in found.to_json()


def test_a_secret_from_an_earlier_output_becomes_a_reference():
    secret = "‹secret:anthropic:0123abcd›"
    found = made(called("login", {}, {"token": secret}), called("use", {"token": secret}))
    assert found.calls[1].input == {"token": {"$from": "c1", "at": "/token"}}
    assert found.parameters == []


def test_a_text_that_contains_an_earlier_output_is_kept_with_a_note():
    found = made(called("pay", {}, {"receipt": "re_19"}), called("mail", {"text": "paid: re_19."}))
    assert found.calls[1].input == {"text": "paid: re_19."}
    assert found.notes == ["c2/text stays as it was, and holds what c1/receipt gave"]


def test_arguments_that_look_like_references_stay_values():
    found = made(called("x", {"a": {"$from": "c9"}}))
    again = parse(found.to_json().encode())
    assert fill(again.calls[0].input, {}, {}) == {"a": {"$from": "c9"}}
