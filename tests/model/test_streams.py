"""Assembles streams into the complete response, or into the part that arrived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.window.reply import requests, text_of, usage_of
from stator.model.window.streams import Assembler
from strategies import plain_values


def assembled(chunks: Iterable[Any], **options: Any) -> Assembler:
    assembler = Assembler(**options)
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler


ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": None,
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0,
     "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m"}},
    {"type": "content_block_delta", "index": 0,
     "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "he"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "llo"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2,
     "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}},
    {"type": "content_block_delta", "index": 2,
     "delta": {"type": "input_json_delta", "partial_json": '{"pa'}},
    {"type": "content_block_delta", "index": 2,
     "delta": {"type": "input_json_delta", "partial_json": 'th":"a"}'}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
     "usage": {"output_tokens": 7, "input_tokens": None}},
    {"type": "message_stop"},
]  # fmt: skip


def chat(delta: dict[str, Any], **fields: Any) -> Any:
    choice = {"index": 0, "delta": delta, "finish_reason": None} | fields
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [choice],
        "usage": None,
    }


CHAT: list[Any] = [
    chat({"role": "assistant", "content": ""}),
    chat({"reasoning_content": "hm"}),
    chat({"content": "he"}),
    chat({"content": "llo"}),
    chat({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                          "function": {"name": "read", "arguments": ""}}]}),
    chat({"tool_calls": [{"index": 1, "id": "c2", "type": "function",
                          "function": {"name": "pay", "arguments": "{}"}}]}),
    chat({"tool_calls": [{"index": 0, "function": {"arguments": '{"path"'}}]}),
    chat({"tool_calls": [{"index": 0, "function": {"arguments": ':"a"}'}}]}),
    chat({}, finish_reason="tool_calls"),
    {"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}},
]  # fmt: skip

MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": ""}
PART = {"type": "output_text", "text": "hello", "annotations": []}
WHOLE = {
    "id": "resp_1", "object": "response", "status": "completed",
    "output": [MESSAGE | {"content": [PART]}, CALL | {"arguments": '{"path":"a"}'}],
    "usage": {"input_tokens": 9, "output_tokens": 7},
}  # fmt: skip
RESPONSES: list[Any] = [
    {"type": "response.created", "response": {"id": "resp_1", "object": "response", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE},
    {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "part": {}},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "he"},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "llo"},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE | {"content": [PART]}},
    {"type": "response.output_item.added", "output_index": 1, "item": CALL},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"path"'},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": ':"a"}'},
    {"type": "response.completed", "response": WHOLE},
]
STREAMS = {"anthropic": ANTHROPIC, "openai-chat": CHAT, "openai": RESPONSES}


@pytest.mark.parametrize("spoken", STREAMS)
def test_a_complete_stream_assembles_to_the_complete_response(spoken):
    whole = assembled(STREAMS[spoken])
    assert whole.complete
    result = whole.result()
    assert text_of(result) == "hello"
    request = requests(result)[0]
    assert (request.name, request.arguments) == ("read", {"path": "a"})
    assert request.id in ("toolu_1", "c1")
    assert usage_of(result)["tokens:out"] == 7


@pytest.mark.parametrize("spoken", STREAMS)
def test_a_stream_cut_off_anywhere_assembles_to_a_partial_response(spoken):
    stream = STREAMS[spoken]
    last = next(n for n in range(len(stream)) if assembled(stream[: n + 1]).complete)
    for cut in range(last):
        partial = assembled(stream[:cut])
        assert not partial.complete
        assert "hello".startswith(text_of(partial.result()))


def test_thinking_keeps_its_signature():
    (thinking, *_) = assembled(ANTHROPIC).result()["content"]
    assert thinking == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def test_usage_from_the_first_chunk_is_kept():
    assert usage_of(assembled(ANTHROPIC).result())["tokens:cache_read"] == 4


def test_parallel_tool_calls_are_kept_apart():
    assert [r.name for r in requests(assembled(CHAT).result())] == ["read", "pay"]


def test_reasoning_content_is_kept():
    assert assembled(CHAT).result()["choices"][0]["message"]["reasoning_content"] == "hm"


def test_truncated_arguments_are_kept_as_text():
    (request,) = requests(assembled(ANTHROPIC[:13]).result())
    assert request.error
    assert request.raw == '{"pa'


def test_a_response_that_failed_is_not_complete():
    failed = {"type": "response.failed", "response": WHOLE | {"status": "failed"}}
    assert not assembled([*RESPONSES[:-1], failed]).complete


def test_text_chunks_are_joined():
    plain = assembled(["he", "llo"])
    assert plain.result() == "hello"
    assert not plain.complete


def test_no_chunks_give_an_empty_text():
    assert Assembler().result() == ""


@pytest.mark.parametrize("spoken", [None, "anthropic", "openai", "openai-chat", "plain"])
@given(st.lists(plain_values, max_size=3))
def test_a_malformed_chunk_never_raises(spoken, chunks):
    kinds = ["message_start", "content_block_start", "content_block_delta", "message_delta"]
    kinds += ["response.created", "response.output_item.added", "response.output_text.delta"]
    for chunk in chunks:
        block = {"citations": chunk, "text": chunk, "input": chunk, "content": chunk}
        strange = [{"type": kind, "index": 0, "delta": chunk, "item": chunk, "response": chunk,
                    "content_block": chunk, "message": chunk, "usage": chunk} for kind in kinds]  # fmt: skip
        strange += [
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "a"},
            },
            {"type": "response.output_item.added", "output_index": 0, "item": block},
            {"type": "response.output_text.delta", "output_index": 0, "delta": "a"},
            chat({"tool_calls": [{"function": {"name": chunk, "arguments": chunk}}]}),
        ]
        strange += [chunk, {"choices": chunk}, {"choices": [chunk]}, chat({"tool_calls": chunk})]
        strange += [chat({"tool_calls": [chunk]}), chat({"tool_calls": [{"function": chunk}]})]
        assembled(strange, dialect=spoken).result()
