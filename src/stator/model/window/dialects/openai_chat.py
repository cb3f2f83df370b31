"""OpenAI's Chat Completions, and the many servers that copy it.

What it insists on: an assistant message says something or calls something, and the tool messages
that answer its calls follow it at once. Text is sent as text, not as parts: some copies know no
others.
"""

from __future__ import annotations

from typing import Any

from stator.model.window.messages import (
    Answer,
    Ask,
    KnownResult,
    Message,
    Part,
)
from stator.model.window.reply import message_of

_REASONING = ("reasoning_content", "reasoning_details")
"""What some servers want back with the calls it led to; they only send it if they do."""


def user(parts: list[Part]) -> list[Message]:
    if all(part.kind == "text" for part in parts):
        return [{"role": "user", "content": "\n\n".join(part.text for part in parts)}]
    return [{"role": "user", "content": [_part(part) for part in parts]}]


def _part(part: Part) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.dialect == "openai-chat":
        return part.block
    if part.url:
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "text", "text": f"[{part.kind} not shown]"}


def answer(said: Answer) -> list[Message]:
    message: Message = {"role": "assistant"}
    if said.text.strip():
        message["content"] = said.text
    if said.asks:
        message.setdefault("content", None)
        message["tool_calls"] = [_tool_call(ask, said) for ask in said.asks]
    if len(message) == 1:
        return []
    if said.dialect == "openai-chat":
        own = message_of(said.plain)
        message |= {name: own[name] for name in _REASONING if own.get(name)}
    return [message]


def _tool_call(ask: Ask, said: Answer) -> dict[str, Any]:
    if ask.custom and said.dialect == "openai-chat":
        tool = {"name": ask.name, "input": ask.arguments["input"]}
        return {"id": ask.id, "type": "custom", "custom": tool}
    tool = {"name": ask.name, "arguments": ask.text}
    return {"id": ask.id, "type": "function", "function": tool}


def results(said: Answer, results: list[KnownResult]) -> list[Message]:
    return [
        {"role": "tool", "tool_call_id": ask.id, "content": result.text()}
        for ask, result in zip(said.asks, results, strict=True)
    ]


def assemble(messages: list[Message]) -> list[Message]:
    return messages
