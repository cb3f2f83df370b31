"""OpenAI's Responses API: a list of input items.

The API requires that every call is followed by one output, and that reasoning stays with the items it led to.
So a response is sent back verbatim or not at all: where an item had to change, the whole response is rebuilt
without reasoning and without the ids that the API would recognise.
"""

from __future__ import annotations

from typing import Any

from stator.model.values.json_text import canonical
from stator.model.window.messages import (
    REDACTED,
    Answer,
    KnownResult,
    Message,
    Part,
)
from stator.model.window.reply import items_of, texts

SDK_ONLY = ("parsed", "parsed_arguments", "logprobs")
"""Fields an SDK adds, or a response has, that a request need not or may not."""
_CALLS = ("function_call", "custom_tool_call")
_SELF_CONTAINED = frozenset(
    "additional_tools code_interpreter_call compaction file_search_call image_generation_call mcp_call "
    "mcp_list_tools program program_output tool_search_output web_search_call".split()
)
"""Items that wait for no answer of ours."""


def user(parts: list[Part]) -> list[Message]:
    content = [_part(part) for part in parts]
    return [{"type": "message", "role": "user", "content": content}]


def _part(part: Part) -> dict[str, Any]:
    if part.kind == "text":
        return {"type": "input_text", "text": part.text}
    if part.dialect == "openai":
        return {"detail": "auto"} | part.block if part.kind == "input_image" else part.block
    if part.url:
        return {"type": "input_image", "image_url": part.url, "detail": "auto"}
    return {"type": "input_text", "text": f"[{part.kind} not shown]"}


def answer(said: Answer) -> list[Message]:
    items = _verbatim(said)
    return _retold(said) if items is None else items


def _verbatim(said: Answer) -> list[Message] | None:
    """The response's own items; None if any of them cannot be given back as it is."""
    if said.dialect != "openai" or not said.intact:
        return None
    items = [_bare(item) for item in items_of(said.plain)]
    while (
        items and items[-1].get("type") == "reasoning"
    ):  # it was cut off before it led to anything
        items.pop()
    return items if all(_sound(item) for item in items) else None


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in item.items() if v is not None and k not in SDK_ONLY}
    if kept.get("type") == "message" and isinstance(kept.get("content"), list):
        parts = [part for part in kept["content"] if isinstance(part, dict)]
        kept["content"] = [{k: v for k, v in p.items() if k not in SDK_ONLY} for p in parts]
    return kept


def _sound(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    if kind == "message":
        content = item.get("content")
        words = list(texts(content)) if isinstance(content, list) else []
        whole = isinstance(item.get("id"), str) and item.get("role") == "assistant"
        return whole and len(words) == len(content or ()) and any(words)
    if kind == "reasoning":
        whole = isinstance(item.get("id"), str) and isinstance(item.get("summary"), list)
        return whole and REDACTED not in canonical(item)
    if kind == "tool_search_call":
        return item.get("execution") != "client"
    if kind in _CALLS:
        written = item.get("arguments" if kind == "function_call" else "input")
        return isinstance(written, str) and (bool(written.strip()) or kind != "function_call")
    return kind in _SELF_CONTAINED


def _retold(said: Answer) -> list[Message]:
    items: list[Message] = []
    if said.text.strip():
        items.append(_easy(said.text))
    for ask in said.asks:
        items.append(
            {"type": "function_call", "call_id": ask.id, "name": ask.name, "arguments": ask.text}
        )
    return items


def _easy(text: str) -> Message:
    """An assistant's words that claim to be no item of an earlier response."""
    return {"type": "message", "role": "assistant", "content": text}


def results(said: Answer, results: list[KnownResult]) -> list[Message]:
    own = _verbatim(said) is not None
    outputs: list[Message] = []
    for ask, result in zip(said.asks, results, strict=True):
        kind = "custom_tool_call_output" if own and ask.custom else "function_call_output"
        outputs.append({"type": kind, "call_id": ask.id, "output": result.text()})
    return outputs


def assemble(messages: list[Message]) -> list[Message]:
    """No two items have one id: a response recorded twice keeps its ids, and its thoughts, once."""
    seen: set[str] = set()
    items: list[Message] = []
    for item in messages:
        identifier = item.get("id")
        if isinstance(identifier, str) and identifier in seen:
            if item["type"] != "message":
                continue
            item = _easy("".join(texts(item["content"])))
        elif isinstance(identifier, str):
            seen.add(identifier)
        items.append(item)
    return items
