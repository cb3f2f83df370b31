"""What each provider accepts as a conversation, from its public documentation.

Each function returns the first thing that the provider would refuse, or nothing. They look at
messages only, and know nothing of how these were made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Messages = list[dict[str, Any]]
LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def anthropic(messages: Messages) -> str:
    """Roles alternate from the user on; the message after tool_use blocks begins with their results."""
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role != ("user" if place % 2 == 0 else "assistant"):
            return f"message {place} is of {role}"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            return f"message {place} is empty"
        if any(b["type"] == "text" and not _is_text(b["text"]) for b in blocks):
            return f"message {place} has an empty text"
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(answered) != sorted(waiting):
            return f"message {place} answers {answered}, {waiting} were asked"
        if any(b["type"] != "tool_result" for b in blocks[: len(answered)]):
            return f"message {place} has something before its results"
        asked = [b for b in blocks if b["type"] == "tool_use"]
        if asked and role == "user":
            return f"message {place} is of the user and calls a tool"
        for block in asked:
            if not LEGAL_ID.fullmatch(block["id"]) or block["id"] in seen:
                return f"tool_use id {block['id']!r} is illegal or taken"
            if not isinstance(block["input"], dict):
                return f"the input of {block['id']} is not an object"
            seen.add(block["id"])
        waiting = [b["id"] for b in asked]
    return f"{waiting} have no result" if waiting else ""


def openai(items: Messages) -> str:
    """Every function_call has one function_call_output after it, before the user speaks again."""
    waiting: set[str] = set()
    seen: set[str] = set()
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            if item["call_id"] in seen:
                return f"call_id {item['call_id']} is taken"
            if not isinstance(json.loads(item["arguments"]), dict):
                return f"the arguments of {item['call_id']} are not an object"
            seen.add(item["call_id"])
            waiting.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                return f"item {place} answers {item['call_id']}, which waits for nothing"
            if not _is_text(item["output"]):
                return f"item {place} has an empty output"
            waiting.remove(item["call_id"])
        elif kind == "message":
            if item["role"] == "user" and waiting:
                return f"the user speaks at item {place} while {waiting} wait"
            if not item["content"]:
                return f"item {place} is empty"
        else:
            return f"item {place} is of the unknown type {kind}"
    return f"{waiting} have no output" if waiting else ""


def openai_chat(messages: Messages) -> str:
    """Tool messages follow the assistant message that called them, all of them, and nothing else does."""
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                return f"message {place} answers {message['tool_call_id']}, which was not asked"
            if not _is_text(message["content"]):
                return f"message {place} is empty"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"message {place} comes before the results of {waiting}"
        calls = message.get("tool_calls") or []
        if role not in ("user", "assistant") or (calls and role == "user"):
            return f"message {place} is of {role}"
        if not message["content"] and not calls:
            return f"message {place} is empty"
        for call in calls:
            if call["id"] in seen or not LEGAL_ID.fullmatch(call["id"]):
                return f"tool call id {call['id']!r} is illegal or taken"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"the arguments of {call['id']} are not an object"
            seen.add(call["id"])
        waiting = [call["id"] for call in calls]
    return f"{waiting} have no tool message" if waiting else ""


def plain(messages: Messages) -> str:
    """Every call of an answer has its result directly after it."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if message["call"] not in waiting:
                return f"message {place} answers {message['call']}, which was not asked"
            waiting.remove(message["call"])
            continue
        if waiting:
            return f"message {place} comes before the results of {waiting}"
        if not isinstance(message["content"], str):
            return f"message {place} is not a text"
        waiting = [call["id"] for call in message.get("calls", [])]
    return f"{waiting} have no result" if waiting else ""


RULES: dict[str, Callable[[Messages], str]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-chat": openai_chat,
    "plain": plain,
}


def refused(provider: str, messages: Messages) -> str:
    """Why a provider would refuse these messages; nothing if it would accept them."""
    try:
        json.loads(json.dumps(messages, allow_nan=False).encode("utf-8"))
        json.dumps(messages, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        return f"not JSON in UTF-8: {error}"
    return RULES[provider](messages)
