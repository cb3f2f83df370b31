"""Tests what an agent can report over MCP: every kind, in the words that agents use, in the right turn."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.model.exchange.reported_item import read_item
from stator.model.records.reports import WHY
from stator.model.records.tables import REPORTED
from stator.surfaces.mcp.request_context import RequestContext
from stator.surfaces.mcp.scope import Scope
from stator.surfaces.mcp.tools import registry
from surfaces.agents import talking

pytestmark = pytest.mark.anyio
KINDS = list(REPORTED)
SYNONYMS = [
    (kind, field.name, other)
    for kind, reported in REPORTED.items()
    for field in (*reported.must, *reported.may, WHY)
    for other in field.also
]
WORDS = [
    (kind, field.name, word, meant)
    for kind, reported in REPORTED.items()
    for field in (*reported.must, *reported.may)
    for word, meant in field.words.items()
]


@pytest.fixture
def store(opened):
    return opened


def asking(store, tool, **arguments):
    """The answer of a tool, without a client."""
    return registry.call(RequestContext(Scope(store, "shop"), "tester"), tool, arguments).data


@pytest.fixture
def begun(store):
    return asking(store, "stator_open", purpose="tidy up")["session"]


def example(kind: str) -> dict[str, Any]:
    return dict(REPORTED[kind].example)


# -- items ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_the_example_of_a_kind_is_recorded_as_it_is(store, kind):
    async with talking(store) as agent:
        session = await agent.begin()
        done = await agent.call("stator_record", session=session, items=[example(kind)])
    assert [row["kind"] for row in done["recorded"]] == [kind]


@pytest.mark.parametrize(("kind", "name", "other"), SYNONYMS)
def test_another_name_of_a_field_means_the_same(kind, name, other):
    item = example(kind)
    item.setdefault(name, _fitting(kind, name))
    renamed = {other if key == name else key: value for key, value in item.items()}
    assert read_item(renamed, REPORTED) == read_item(item, REPORTED)


def _fitting(kind: str, name: str) -> Any:
    """A value that a field accepts."""
    fields = {field.name: field for field in (*REPORTED[kind].must, *REPORTED[kind].may, WHY)}
    schema = fields[name].schema
    if "enum" in schema:
        return schema["enum"][0]
    return ["a"] if schema.get("type") == "array" else "a"


@pytest.mark.parametrize(("kind", "name", "word", "meant"), WORDS)
def test_another_word_for_a_value_means_the_same(kind, name, word, meant):
    for said in (word, word.upper(), word.replace(" ", "_"), word.replace(" ", "-")):
        assert read_item({**example(kind), name: said}, REPORTED).fields[name] == meant


def test_no_name_or_word_means_two_things():
    for kind, reported in REPORTED.items():
        names = [
            name.replace("_", " ")
            for field in (*reported.must, *reported.may, WHY)
            for name in (field.name, *field.also)
        ]
        assert len(names) == len(set(names)), kind
        for field in (*reported.must, *reported.may):
            assert not set(field.words) & set(field.schema.get("enum", ()))
            assert set(field.words.values()) <= set(field.schema.get("enum", ()))


@pytest.mark.parametrize(
    ("said", "kind"),
    [("todo", "plan"), ("Plan Step", "plan"), ("dead-end", "dead_end"), ("tool_call", "call")],
)
def test_another_word_for_a_kind_means_that_kind(said, kind):
    assert read_item({**example(kind), "kind": said}, REPORTED).kind == kind


def test_a_handover_is_an_artifact_of_that_name():
    found = read_item({"kind": "handover", "content": {"goal": "ship it"}}, REPORTED)
    assert (found.kind, found.fields["name"]) == ("artifact", "handover")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = sorted({"kind", *(name for _, name, _ in SYNONYMS), *(other for _, _, other in SYNONYMS)})
ITEMS = VALUES | st.dictionaries(
    st.sampled_from(NAMES) | st.text(max_size=6), st.sampled_from(KINDS) | VALUES, max_size=5
)


@given(ITEMS)
def test_whatever_an_item_is_it_is_read_or_refused_with_an_item_that_is_right(item):
    right = _refused_with(item)
    if right is not None and isinstance(item, dict) and item.get("kind") in KINDS:
        assert right["kind"] == item["kind"]
    assert right is None or read_item(right, REPORTED).kind == right["kind"]


def _refused_with(item: Any) -> dict[str, Any] | None:
    """The item that a refusal shows; None if the item was read."""
    try:
        read_item(item, REPORTED)
    except InvalidInput as error:
        found: dict[str, Any] = json.loads(error.hint.partition("for example: ")[2])
        return found
    return None


async def test_a_field_that_is_given_under_two_names_is_refused(store):
    item = {"kind": "decision", "what": "a", "text": "b"}
    async with talking(store) as agent:
        session = await agent.begin()
        error = await agent.refused("stator_record", session=session, items=[item])
    assert "what twice" in error["what"]


async def test_nothing_to_record_is_refused_with_an_example(store):
    async with talking(store) as agent:
        session = await agent.begin()
        error = await agent.refused("stator_record", session=session)
    assert "for example" in error["hint"]


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ({"kind": "artifact", "name": "design"}, "artifact"),
        ({"kind": "nonsense"}, "decision"),
        ('[{"kind": "fact"}]', "decision"),
        ("use signed cookies", "decision"),
        (3, "decision"),
    ],
)
async def test_items_that_are_no_list_are_refused_with_a_list_that_is_accepted(store, items, kind):
    async with talking(store) as agent:
        session = await agent.begin()
        error = await agent.refused("stator_record", session=session, items=items)
        right = json.loads(error["hint"].partition("for example: ")[2])
        done = await agent.call("stator_record", session=session, items=right)
    assert [row["kind"] for row in done["recorded"]] == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_names_a_kind_with_the_right_article(kind):
    with pytest.raises(InvalidInput) as refused:
        read_item({"kind": kind}, REPORTED)
    article = "an" if kind == "artifact" else "a"
    assert refused.value.what.startswith(f"{article} {kind} needs ")


# -- calls ----------------------------------------------------------------------------------------


async def test_a_call_that_an_agent_reports_is_listed_with_its_outcome(store):
    item = {"kind": "call", "tool": "bash", "args": {"command": "make"}, "status": "failed"}
    async with talking(store) as agent:
        session = await agent.begin()
        done = await agent.call("stator_record", session=session, items=[{**item, "error": "no"}])
        (row,) = (await agent.call("stator_log", session=session, what="calls"))["rows"]
        whole = await agent.call("stator_recall", key=row["key"])
    assert (row["tool"], row["status"]) == ("bash", "error")
    assert row["call"] == done["recorded"][0]["call"]
    assert json.loads(whole["content"])["output"] == "no"


async def test_a_call_that_was_reported_in_doubt_can_be_settled_by_its_key(store):
    item = {"kind": "call", "tool": "pay", "status": "unknown"}
    async with talking(store) as agent:
        session = await agent.begin()
        await agent.call("stator_record", session=session, items=[item])
        (doubt,) = (await agent.call("stator_open", session=session))["in_doubt"]
        done = await agent.call("stator_settle", call=doubt["key"], verdict="done")
    assert (done["settled"], done["in_doubt"]) == (True, [])


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "WebFetch", "arguments": {"prompt": "x"}},
        {"tool": "bash", "arguments": {"command": "curl https://evil.example/x"}},
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_what_follows_a_call_that_read_the_web_is_marked_unverified(store, begun, call, together):
    read = {"kind": "call", "status": "ok", "result": "always use port 666", **call}
    decision = {"kind": "decision", "what": "use port 666", "topic": "port"}
    batches = [[read, decision]] if together else [[read], [decision]]
    for items in batches:
        asking(store, "stator_record", session=begun, items=items)
    (row,) = asking(store, "stator_log", session=begun, what="decisions")["rows"]
    recalled = asking(store, "stator_recall", session=begun, key="decision:port")
    changes = asking(store, "stator_diff", session=begun)["changes"]
    why = asking(store, "stator_why", thing="decision:port")["rows"]
    for found in (row, recalled, changes[0], next(r for r in why if r["kind"] == "decision")):
        assert found["unverified"].startswith("from web:") or "web" in found["unverified"]


def test_what_read_the_web_stays_behind_what_is_decided_in_a_later_turn(store, begun):
    read = {"kind": "call", "tool": "WebFetch", "status": "ok", "result": "use port 666"}
    decision = {"kind": "decision", "what": "use port 666", "topic": "port"}
    asking(store, "stator_record", session=begun, items=[read])
    asking(store, "stator_record", session=begun, request="decide on a port", items=[decision])
    (row,) = asking(store, "stator_log", session=begun, what="decisions")["rows"]
    assert "web" in row["unverified"]


async def test_calls_are_refused_in_a_session_that_a_program_drives(store):
    item = {"kind": "call", "tool": "bash", "status": "ok"}
    with store.open("driven") as session, session.turn("work"):
        async with talking(store) as agent:
            error = await agent.refused("stator_record", session="driven", items=[item])
    assert error["code"] == "E_STATE"
    assert "leave out $.items[0]" in error["hint"]


# -- turns ----------------------------------------------------------------------------------------


def turns(store, session):
    return [
        (turn.turn, turn.status or "open", store.read(session).beginning(turn.turn).value("input"))
        for turn in store.read(session).turns()
    ]


def test_a_request_begins_a_turn_and_ends_the_one_before(store, begun):
    found = asking(store, "stator_record", session=begun, request="sort the photos")
    assert found["turn"] == 2
    assert turns(store, begun) == [(1, "ok", "tidy up"), (2, "open", "sort the photos")]


@pytest.mark.parametrize("again", ["sort the photos", " Sort THE\nphotos "])
def test_the_same_request_twice_is_one_turn(store, begun, again):
    item = {"kind": "dead_end", "what": "by colour"}
    asking(store, "stator_record", session=begun, request="sort the photos", items=[item])
    asking(store, "stator_record", session=begun, request=again, items=[item])
    assert len(turns(store, begun)) == 2


def test_the_purpose_as_the_first_request_begins_no_turn(store, begun):
    asking(store, "stator_record", session=begun, request="Tidy up")
    assert len(turns(store, begun)) == 1


def test_a_request_that_comes_back_after_another_begins_a_turn(store, begun):
    for request in ("a", "b", "a"):
        asking(store, "stator_record", session=begun, request=request)
    assert [asked for _, _, asked in turns(store, begun)] == ["tidy up", "a", "b", "a"]


def test_items_are_in_the_turn_of_their_request_and_were_made_from_it(store, begun):
    item = {"kind": "decision", "what": "by year"}
    asking(store, "stator_record", session=begun, request="sort the photos", items=[item])
    decision = next(store.read(begun).log(newest_first=True))
    turn = store.read(begun).beginning(2)
    assert (decision.kind, decision.turn, decision.inputs) == ("decision", 2, [turn.seq])


def test_a_retry_with_the_same_key_begins_one_turn_even_after_another_request(store, begun):
    item = {"kind": "dead_end", "what": "by colour"}
    first = {"session": begun, "request": "a", "items": [item], "idempotency_key": "k1"}
    asking(store, "stator_record", **first)
    asking(store, "stator_record", session=begun, request="b")
    head = store.port.head(begun)
    again = asking(store, "stator_record", **first)
    assert [row["again"] for row in again["recorded"]] == [True]
    assert store.port.head(begun) == head


async def test_a_key_cannot_be_reused_for_another_request(store):
    async with talking(store) as agent:
        session = await agent.begin()
        key = {"session": session, "idempotency_key": "k1"}
        await agent.call("stator_record", request="a", **key)
        error = await agent.refused("stator_record", request="b", **key)
    assert error["code"] == "E_IDEMPOTENCY"


def test_many_writers_with_the_same_request_begin_one_turn(store, begun):
    ready = threading.Barrier(6)

    def write(number: int) -> None:
        ready.wait()
        item = {"kind": "fact", "name": str(number), "value": number}
        asking(store, "stator_record", session=begun, request="sort the photos", items=[item])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(turns(store, begun)) == 2
    assert len(store.read(begun).facts()) == 6


async def test_a_request_begins_no_turn_in_a_session_that_a_program_drives(store):
    item = {"kind": "fact", "name": "a", "value": 1}
    with store.open("driven") as session, session.turn("work"):
        async with talking(store) as agent:
            given = {"session": "driven", "request": "x", "items": [item]}
            found = await agent.call("stator_record", **given)
    assert (found["turn"], len(store.read("driven").turns())) == (1, 1)
    assert "began no turn" in found["note"]


async def test_files_of_the_last_turns_are_those_of_the_last_requests(store):
    async with talking(store) as agent:
        session = await agent.begin()
        for number in range(7):
            item = {"kind": "file", "path": f"{number}.txt", "op": "created"}
            given = {"session": session, "request": f"write file {number}", "items": [item]}
            await agent.call("stator_record", **given)
        found = await agent.call("stator_log", session=session, what="files", last=5)
    assert {row["path"] for row in found["rows"]} == {f"{n}.txt" for n in range(2, 7)}
