"""Strict readers of what each provider accepts, by its documentation and its error messages.

Each function raises AssertionError where the provider would answer 400. They know nothing of how
the messages were made.
"""

from __future__ import annotations

import json
import re
from typing import Any

Message = dict[str, Any]
ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SERVED = ("server_tool_use", "mcp_tool_use")


def as_sent(messages: list[Message]) -> None:
    """JSON in UTF-8 without NaN, as an HTTP client writes it."""
    wire = json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    assert json.loads(wire) == messages


def said(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


# --- Anthropic ----------------------------------------------------------------------------------


def anthropic(messages: list[Message]) -> None:
    as_sent(messages)
    ids: list[str] = []
    asked: list[str] = []
    for n, message in enumerate(messages):
        assert message.keys() == {"role", "content"}
        assert message["role"] == ("user", "assistant")[n % 2], "roles alternate, the user first"
        assert isinstance(message["content"], list)
        assert message["content"], "content is not empty"
        kinds = [block["type"] for block in message["content"]]
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        assert sorted(results) == sorted(asked), "every tool_use has its result in the next message"
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        for block in message["content"]:
            (_anthropic_user if message["role"] == "user" else _anthropic_assistant)(block)
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        ids += asked
        if message["role"] == "assistant":
            assert kinds[-1] not in ("thinking", "redacted_thinking"), "it does not end in thinking"
            last = message["content"][-1]
            assert last.get("text", "x").rstrip() == last.get("text", "x"), "nor in space"
    assert not asked, "a tool_use at the end has no result"
    assert len(ids) == len(set(ids)), "tool_use ids are unique"
    _anthropic_served(messages)


def _anthropic_user(block: Message) -> None:
    if block["type"] == "text":
        assert block.keys() == {"type", "text"}
        assert said(block["text"]), "text is not empty"
    elif block["type"] == "tool_result":
        assert block.keys() - {"is_error"} == {"type", "tool_use_id", "content"}
        assert said(block["content"])
        assert block.get("is_error", True) is True
    elif block["type"] == "image":
        source = block["source"]
        assert source["type"] in ("base64", "url", "file")
        assert source["type"] != "base64" or isinstance(source["data"], str)
    else:
        assert block["type"] in ("document", "search_result")
        assert block["source"]


def _anthropic_assistant(block: Message) -> None:
    kind = block["type"]
    assert None not in block.values()
    if kind == "text":
        assert said(block["text"]), "text is not empty"
    elif kind == "tool_use":
        assert ID.fullmatch(block["id"])
        assert NAME.fullmatch(block["name"])
        assert isinstance(block["input"], dict)
    elif kind == "thinking":
        assert isinstance(block["thinking"], str)
        assert block["signature"], "thinking is signed"
    elif kind == "redacted_thinking":
        assert block["data"]
    else:
        assert kind in SERVED or kind.endswith("_tool_result") or kind == "container_upload"


def _anthropic_served(messages: list[Message]) -> None:
    """Check the provider's own calls: each has its result, is open in the last message, or calls our tools."""
    blocks = [(n, block) for n, message in enumerate(messages) for block in message["content"]]
    called = {block["id"]: n for n, block in blocks if block["type"] in SERVED}
    answers = [b["tool_use_id"] for _, b in blocks if b["type"].endswith("_tool_result")]
    callers = {(b.get("caller") or {}).get("tool_id") for _, b in blocks if b["type"] == "tool_use"}
    assert set(answers) <= called.keys()
    for identifier, n in called.items():
        assert identifier in answers or n == len(messages) - 1 or identifier in callers


# --- OpenAI Responses ---------------------------------------------------------------------------

OUTPUTS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
}


def openai(items: list[Message]) -> None:
    as_sent(items)
    waiting: dict[str, str] = {}
    calls: list[str] = []
    for n, item in enumerate(items):
        kind = item["type"]
        assert None not in item.values()
        if kind in OUTPUTS:
            assert waiting.pop(item["call_id"]) == OUTPUTS[kind], "an output is of a call before it"
            assert item.keys() == {"type", "call_id", "output"}
            assert said(item["output"])
        elif kind in OUTPUTS.values():
            assert 1 <= len(item["call_id"]) <= 64
            assert NAME.fullmatch(item["name"])
            if kind == "function_call":
                assert isinstance(json.loads(item["arguments"]), dict)
            waiting[item["call_id"]] = kind
            calls.append(item["call_id"])
        elif kind == "reasoning":
            following = items[n + 1] if n + 1 < len(items) else {"type": "nothing"}
            assert following["type"] in ("message", "reasoning", *OUTPUTS.values())
            assert following.get("role") != "user", "reasoning has what it led to after it"
            assert isinstance(item["summary"], list)
        elif kind == "message":
            assert item["role"] in ("user", "assistant")
            assert item["role"] == "assistant" or not waiting, (
                "calls are answered before a user speaks"
            )
            _openai_content(item)
        else:
            assert kind in ("web_search_call", "file_search_call")
    assert not waiting, "every call has its output"
    assert len(calls) == len(set(calls)), "call ids are unique"
    ids = [item["id"] for item in items if "id" in item]
    assert len(ids) == len(set(ids)), "item ids are unique"


def _openai_content(item: Message) -> None:
    if isinstance(item["content"], str):
        assert item["role"] == "assistant"
        assert "id" not in item
        assert said(item["content"])
        return
    assert item["content"]
    assert item["role"] == "user" or item["id"], "parts of an answer are of an item that was given"
    for part in item["content"]:
        if item["role"] == "assistant":
            assert part["type"] in ("output_text", "refusal")
            assert "logprobs" not in part
        elif part["type"] == "input_text":
            assert said(part["text"])
        else:
            assert part["type"] in ("input_image", "input_file")


# --- OpenAI chat --------------------------------------------------------------------------------


def openai_chat(messages: list[Message]) -> None:
    as_sent(messages)
    waiting: list[str] = []
    ids: list[str] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert message.keys() == {"role", "tool_call_id", "content"}
            assert waiting.pop(0) == message["tool_call_id"], "tool messages follow their calls"
            assert said(message["content"])
            continue
        assert not waiting, "every call has its tool message"
        if role == "user":
            content = message["content"]
            assert said(content) or all(part["type"] for part in content)
            continue
        assert role == "assistant"
        calls = message.get("tool_calls", [])
        assert said(message["content"]) or calls, "it says or calls something"
        assert calls or "tool_calls" not in message, "tool_calls is not empty"
        for call in calls:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", call["id"])
            tool = call[call["type"]]
            assert NAME.fullmatch(tool["name"])
            assert call["type"] == "custom" or isinstance(json.loads(tool["arguments"]), dict)
        waiting = [call["id"] for call in calls]
        ids += waiting
    assert not waiting, "every call has its tool message"
    assert len(ids) == len(set(ids)), "ids are unique"


def plain(messages: list[Message]) -> None:
    as_sent(messages)
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["call"]
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("calls", [])]
        assert isinstance(message["content"], str)
    assert not waiting


ACCEPTS = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-chat": openai_chat,
    "plain": plain,
}
