"""Tests the parts of the proxy that need no server: splitting bytes into messages and classifying them."""

from __future__ import annotations

import gc
import json
import re
import weakref
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.surfaces.proxy.classify import (
    NotAMessage,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    call_result,
    classify,
    edge_id,
    task_result,
)
from stator.surfaces.proxy.definitions import definitions
from stator.surfaces.proxy.frames import EventStreamReader, LineSplitter, WholeLine
from stator.surfaces.proxy.http_policy import Upstream
from stator.surfaces.proxy.pending_requests import PendingRequests
from stator.surfaces.proxy.session import server_name


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(marks)]


@given(
    st.lists(st.binary(max_size=60)).map(b"\n".join),
    st.lists(st.integers(0, 10_000)),
    st.integers(1, 40),
)
def test_the_splitter_never_changes_a_byte(data, places, limit):
    lines = LineSplitter(limit)
    pieces = [piece for chunk in cut(data, places) for piece in lines.feed(chunk)]
    pieces += lines.close()
    assert b"".join(piece.data for piece in pieces) == data
    for piece in pieces:
        if isinstance(piece, WholeLine):
            assert piece.data.count(b"\n") <= 1
            assert len(piece.data) <= limit


@given(st.lists(st.binary(max_size=60)).map(b"\n".join), st.lists(st.integers(0, 10_000)))
def test_lines_are_the_same_however_the_bytes_are_split(data, places):
    def whole(chunks):
        lines = LineSplitter()
        return [p.data for chunk in chunks for p in lines.feed(chunk)] + [
            p.data for p in lines.close()
        ]

    assert whole(cut(data, places)) == re.findall(rb"[^\n]*\n|[^\n]+", data)


@given(
    st.lists(st.text(st.characters(blacklist_categories=("Cs", "Cc"), max_codepoint=0x2FF))),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 10_000)),
)
def test_server_sent_data_is_the_same_however_the_bytes_are_split(texts, newline, places):
    stream = b"".join(
        b": keep-alive" + newline + b"event: message" + newline
        + b"".join(b"data: " + part.encode() + newline for part in (text, "more"))
        + newline
        for text in texts
    )  # fmt: skip
    reader = EventStreamReader()
    found = [data for chunk in cut(stream, places) for data in reader.feed(chunk)]
    assert found == [f"{text}\nmore".encode() for text in texts]


def test_server_sent_data_that_is_too_long_is_not_kept():
    reader = EventStreamReader(limit=100)
    assert list(reader.feed(b"data: " + b"x" * 1_000 + b"\n\ndata: y\n\n")) == [b"y"]
    assert reader.unread == 1


@given(st.binary(max_size=200))
def test_any_bytes_can_be_classified(data):
    found = classify(data)
    assert found is None or all(
        isinstance(one, RpcRequest | RpcNotification | RpcResponse | NotAMessage) for one in found
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "method", "params", "result", "error", "_meta", "name", "x"]),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON)
def test_any_json_value_can_be_classified(value):
    for one in classify(json.dumps(value).encode()) or []:
        if isinstance(one, RpcResponse):
            assert call_result(one).status in ("ok", "error", "in doubt")
            task_result(one)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"jsonrpc":"2.0","id":7,"result":{', "7"),
        ('{"result":{"id":9},"jsonrpc":"2.0","id":"a b"}\n', '"a b"'),
        ('{"result":{},"id":7,"jsonrpc":"2.0"}', "7"),
        ('{"result":{"x":{"id":7}}}', None),
        ('{"result":[1,2', None),
    ],
)
def test_the_id_of_a_long_response_is_found_in_its_first_or_last_bytes(text, expected):
    assert edge_id(text.encode(), text.encode()) == expected


def answered(result):
    found = classify(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
    assert found is not None
    return found[0]


def test_a_call_continued_as_a_task_is_in_doubt_until_the_task_ends():
    begun = call_result(answered({"resultType": "task", "taskId": "t1", "status": "working"}))
    assert (begun.status, begun.task) == ("in doubt", "t1")
    assert call_result(answered({"task": {"taskId": "t1"}})).task == "t1"
    assert task_result(answered({"taskId": "t1", "status": "working"})) is None
    done = task_result(answered({"status": "completed", "result": {"content": []}}))
    assert done is not None
    assert done.status == "ok"
    failed = task_result(answered({"status": "failed", "error": {"code": 5, "message": "no"}}))
    assert failed is not None
    assert (failed.status, failed.cause) == ("error", "JSON-RPC error 5")


def test_the_digest_of_a_definition_ignores_the_order_of_its_keys():
    one = definitions({"tools": [{"name": "a", "description": "x", "inputSchema": {"b": 1.0}}]})
    two = definitions({"tools": [{"inputSchema": {"b": 1.0}, "name": "a", "description": "x"}]})
    other = definitions({"tools": [{"name": "a", "description": "y", "inputSchema": {"b": 1.0}}]})
    assert one["a"].digest == two["a"].digest != other["a"].digest


@given(JSON)
def test_any_list_of_tools_can_be_read(value):
    definitions({"tools": [value, {"name": "a", "description": value}]})


def test_ordinary_descriptions_are_not_suspicious():
    texts = [
        "Families: 👨‍👩‍👧",
        "می‌خواهم",
        "Line one\n\tline two",
        "Do not use for users < 18",
        "naïve ½ → …",
    ]
    tools = [{"name": str(n), "description": text} for n, text in enumerate(texts)]
    assert not [
        found.suspicion for found in definitions({"tools": tools}).values() if found.suspicion
    ]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2", "/tmp"], "server-filesystem"),
        (["uvx", "mcp-server-git", "--repository", "."], "mcp-server-git"),
        (["/usr/bin/python3.11", "-S", "tools/weather.py"], "weather"),
        (["docker", "run", "-i", "some/image"], "image"),
        (["./server"], "server"),
        (["python"], "python"),
        (["docker", "run", "-i", "-e", "TOKEN=s3cret", "ghcr.io/o/github-server"], "github-server"),
        (["env", "KEY=s3cret", "npx", "-y", "some-server"], "some-server"),
        (["npx", "--registry", "https://u:s3cret@host/", "some-server"], "some-server"),
    ],
)
def test_a_server_without_a_name_is_named_after_its_program(command, name):
    assert server_name(command) == name


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://",
        "127.0.0.1:80/mcp",
        "http://a:b@c/mcp",
        "http://[",
        "http://a#b",
        "",
    ],
)
def test_an_invalid_upstream_address_is_refused(url):
    with pytest.raises(InvalidInput):
        Upstream(url)


class Kept:
    """A recorder that keeps its writes in a list."""

    client = ""

    def __init__(self):
        self.said = []

    def now(self):
        return 1

    def begin(self, call):
        call.id = f"call {call.request}"

    def put(self, *works):
        self.said += works

    def unanswered(self, call, cause, otherwise):
        return call.request, cause

    def answered(self, call, answer):
        return call.request


def asked(id, **arguments):
    params = {"name": "echo", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


def test_the_oldest_of_too_many_requests_is_recorded_as_unanswered(monkeypatch):
    monkeypatch.setattr("stator.surfaces.proxy.pending_requests.PENDING_MAX", 2)
    kept: Any = Kept()
    book = PendingRequests(kept)
    for id in (7, 7, 8):
        book.outgoing(asked(id))
    assert kept.said == [("7", "no answer, and 2 requests since")]
    assert book.waiting == 2


def test_an_answered_call_is_freed():
    kept: Any = Kept()
    book = PendingRequests(kept)
    (one,) = book.outgoing(asked(1, words="x" * 100), keep=True).requests
    assert one.call is not None
    gone = weakref.ref(one.call.done)
    book.incoming(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    del one
    gc.collect()
    assert gone() is None


def test_a_password_in_an_address_is_not_printed():
    with pytest.raises(InvalidInput) as refused:
        Upstream("http://ann:s3cret@host/mcp")
    assert "s3cret" not in str(refused.value)
