"""Anthropic's Messages API.

What it insists on: a user speaks first, roles alternate, no content is empty, every `tool_use` is
answered at the start of the very next message, and a message does not end in thinking or in space.
"""

from __future__ import annotations

from typing import Any

from stator.model.window.messages import (
    REDACTED,
    Answer,
    Ask,
    KnownResult,
    Message,
    Part,
)
from stator.model.window.reply import blocks_of

NO_PROMPT = "[no prompt]"
SDK_ONLY = ("parsed_output",)
"""Fields the SDK adds to a block and the API does not take back."""
_SERVED = ("server_tool_use", "mcp_tool_use")
_KNOWN = frozenset(("container_upload", "compaction", *_SERVED))


def user(parts: list[Part]) -> list[Message]:
    return [{"role": "user", "content": [_block(part) for part in parts]}]


def _block(part: Part) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    if part.dialect == "anthropic":
        return part.block
    if part.url.startswith("data:") and ";base64," in part.url:
        media, _, data = part.url.removeprefix("data:").partition(";base64,")
        source = {"type": "base64", "media_type": media, "data": data}
    elif part.url:
        source = {"type": "url", "url": part.url}
    else:
        return {"type": "text", "text": f"[{part.kind} not shown]"}
    return {"type": "image", "source": source}


def answer(said: Answer) -> list[Message]:
    if said.dialect == "anthropic":
        content = _verbatim(said)
    else:
        content = [{"type": "text", "text": said.text}] if said.text.strip() else []
        content += [_tool_use(ask) for ask in said.asks]
    while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
        content.pop()
    if content and content[-1]["type"] == "text":
        content[-1]["text"] = content[-1]["text"].rstrip()
    return [{"role": "assistant", "content": content}] if content else []


def _verbatim(said: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    asks = iter(said.asks)
    for block in blocks_of(said.plain):
        kept = {k: v for k, v in block.items() if v is not None and k not in SDK_ONLY}
        if kept.get("type") == "tool_use":
            content.append(kept | _tool_use(next(asks)))
        elif _sound(kept):
            content.append(kept)
    return content


def _sound(block: dict[str, Any]) -> bool:
    """Whether the API takes a block back from us."""
    kind = block.get("type")
    if kind == "text":
        return isinstance(text := block.get("text"), str) and bool(text.strip())
    if kind in ("thinking", "redacted_thinking"):
        # What was not signed, or is no longer what was signed, is refused.
        fields = ("thinking", "signature") if kind == "thinking" else ("data",)
        words = [block.get(field) for field in fields]
        return bool(words[-1]) and all(isinstance(w, str) and REDACTED not in w for w in words)
    if kind in _SERVED:
        return isinstance(block.get("id"), str)
    served = isinstance(kind, str) and kind.endswith("_tool_result")
    return kind in _KNOWN or (served and isinstance(block.get("tool_use_id"), str))


def _tool_use(ask: Ask) -> dict[str, Any]:
    return {"type": "tool_use", "id": ask.id, "name": ask.name, "input": ask.arguments}


def results(said: Answer, results: list[KnownResult]) -> list[Message]:
    blocks: list[dict[str, Any]] = []
    for ask, result in zip(said.asks, results, strict=True):
        block = {"type": "tool_result", "tool_use_id": ask.id, "content": result.text()}
        blocks.append(block | ({"is_error": True} if result.failed else {}))
    return [{"role": "user", "content": blocks}] if blocks else []


def assemble(messages: list[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in _without_loose_ends(messages):
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] += message["content"]
        else:
            merged.append(message)
    if merged and merged[0]["role"] != "user":
        merged.insert(0, {"role": "user", "content": [{"type": "text", "text": NO_PROMPT}]})
    return merged


def _without_loose_ends(messages: list[Message]) -> list[Message]:
    """The messages without calls of the provider's own tools that it never answered, and vice versa.

    Its answer may come in a later message (a paused turn, code that called our tools), and the last
    message may be waiting for one.
    """
    waiting = messages[-1:] if messages and messages[-1]["role"] == "assistant" else []
    answered = {block.get("id") for message in waiting for block in message["content"]}
    for message in messages:
        for block in message["content"]:
            answered.add(block.get("tool_use_id"))
            answered.add(_called_by(block))
    begun: set[str] = set()
    kept: list[Message] = []
    for message in messages:
        content = []
        for block in message["content"]:
            kind = block["type"]
            if kind in _SERVED:
                if block["id"] not in answered:
                    continue
                begun.add(block["id"])
            elif kind.endswith("_tool_result") and block["tool_use_id"] not in begun:
                continue
            content.append(block)
        if content:
            kept.append({"role": message["role"], "content": content})
    return kept


def _called_by(block: dict[str, Any]) -> str | None:
    """The provider's own call from within which one of ours was made."""
    caller = block.get("caller")
    identifier = caller.get("tool_id") if isinstance(caller, dict) else None
    return identifier if isinstance(identifier, str) else None
