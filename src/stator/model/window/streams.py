"""Assembles a streamed response into the plain response it would have been, whole or partial.

    assembler = Assembler()
    for chunk in stream: assembler.feed(chunk)
    assembler.result(), assembler.complete

Chunks may be SDK objects or dicts of any dialect, or text; the first chunk decides the dialect. A chunk
that makes no sense is passed over: what is recorded is what could be read.
"""

from __future__ import annotations

from typing import Any

from stator.model.values.json_text import parse_object
from stator.model.window.reply import Dialect, plain_reply


class Assembler:
    """Takes a stream's chunks one by one."""

    def __init__(self, dialect: Dialect | None = None) -> None:
        self._stream: _Stream | None = None if dialect is None else _STREAMS[dialect]()

    def feed(self, chunk: object) -> None:
        plain = plain_reply(chunk)
        if self._stream is None:
            self._stream = _STREAMS[_spoken(plain)]()
        self._stream.take(plain)

    @property
    def complete(self) -> bool:
        """Whether the provider marked the end. Bare text never does."""
        return self._stream is not None and self._stream.complete

    def result(self) -> Any:
        """The response as far as it came."""
        return "" if self._stream is None else self._stream.result()


def _spoken(plain: Any) -> Dialect:
    if not isinstance(plain, dict):
        return "plain"
    if "choices" in plain:
        return "openai-chat"
    kind = str(plain.get("type", ""))
    if kind.startswith("response."):
        return "openai"
    known = kind.startswith(("message_", "content_block_")) or kind == "ping"
    return "anthropic" if known else "plain"


class _Stream:
    """What has come of one response so far."""

    complete = False

    def take(self, chunk: Any) -> None:
        raise NotImplementedError

    def result(self) -> Any:
        raise NotImplementedError


class _Plain(_Stream):
    """Pieces of text; anything else is passed over."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def take(self, chunk: Any) -> None:
        if isinstance(chunk, str):
            self._pieces.append(chunk)

    def result(self) -> str:
        return "".join(self._pieces)


class _Anthropic(_Stream):
    """message_start, content_block_start / _delta / _stop, message_delta, message_stop."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._text: dict[tuple[int, str], list[str]] = {}
        """Pieces of a block's text, by block and field; joined once."""

    def take(self, chunk: Any) -> None:
        if not isinstance(chunk, dict):
            return
        kind, index = chunk.get("type"), _number(chunk.get("index"))
        if kind == "message_start":
            self._message = dict(_object(chunk, "message"))
        elif kind == "content_block_start":
            self._blocks[index] = dict(_object(chunk, "content_block"))
        elif kind == "content_block_delta" and index in self._blocks:
            self._take_delta(index, _object(chunk, "delta"))
        elif kind == "message_delta":
            self._message |= _object(chunk, "delta")
            told = {k: v for k, v in _object(chunk, "usage").items() if v is not None}
            # Counts are totals so far; one that is not told again still holds.
            self._message["usage"] = _object(self._message, "usage") | told
        elif kind == "message_stop":
            self.complete = True

    def _take_delta(self, index: int, delta: dict[str, Any]) -> None:
        for kind, name, field in _DELTAS:
            if delta.get("type") == kind and isinstance(delta.get(name), str):
                self._text.setdefault((index, field), []).append(delta[name])
        if delta.get("type") == "citations_delta":
            block = self._blocks[index]
            block["citations"] = [*_list(block, "citations"), delta.get("citation")]

    def result(self) -> dict[str, Any]:
        content = []
        for index in sorted(self._blocks):
            block = dict(self._blocks[index])
            for (place, field), pieces in self._text.items():
                if place == index and field != "input":
                    block[field] = _text(block, field) + "".join(pieces)
                elif place == index:
                    given, error = parse_object("".join(pieces))
                    block["input"] = "".join(pieces) if error else given
            content.append(block)
        return {"type": "message", "role": "assistant"} | self._message | {"content": content}


_DELTAS = (
    ("text_delta", "text", "text"),
    ("thinking_delta", "thinking", "thinking"),
    ("signature_delta", "signature", "signature"),
    ("input_json_delta", "partial_json", "input"),
)
"""Type of a delta, its field, and the field of the block it belongs to."""


class _Chat(_Stream):
    """chat.completion.chunk: the deltas of the first choice, and usage in a chunk of its own."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        self._text: dict[str, list[str]] = {}
        self._details: list[Any] = []
        self._calls: dict[int, dict[str, Any]] = {}

    def take(self, chunk: Any) -> None:
        if not isinstance(chunk, dict):
            return
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self._response[name] = value
        for choice in _list(chunk, "choices"):
            if isinstance(choice, dict) and _number(choice.get("index")) == 0:
                self._take_delta(_object(choice, "delta"))
                if choice.get("finish_reason"):
                    self._choice["finish_reason"] = choice["finish_reason"]
                    self.complete = True

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for name in ("content", "refusal", "reasoning_content"):
            if isinstance(delta.get(name), str):
                self._text.setdefault(name, []).append(delta[name])
        self._details += _list(delta, "reasoning_details")
        for place, call in enumerate(_list(delta, "tool_calls")):
            if isinstance(call, dict):
                self._take_call(_number(call.get("index"), place), call)

    def _take_call(self, index: int, call: dict[str, Any]) -> None:
        """The id and the name come once, the arguments in pieces."""
        known = self._calls.setdefault(index, {"id": "", "type": "function"})
        known["id"] = call.get("id") or known["id"]
        known["type"] = call.get("type") or known["type"]
        for kind, field in (("function", "arguments"), ("custom", "input")):
            if isinstance(call.get(kind), dict):
                tool = known.setdefault(kind, {"name": "", field: ""})
                tool["name"] = _text(call[kind], "name") or tool["name"]
                tool[field] += _text(call[kind], field)

    def result(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(pieces) for name, pieces in self._text.items()}
        message["tool_calls"] = [self._calls[n] for n in sorted(self._calls)] or None
        if self._details:
            message["reasoning_details"] = self._details
        choice = self._choice | {"message": message}
        return self._response | {"object": "chat.completion", "choices": [choice]}


class _Responses(_Stream):
    """response.*: items are added, grow and are done; the last chunk holds the whole response."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._text: dict[tuple[int, int, str], list[str]] = {}

    def take(self, chunk: Any) -> None:
        if not isinstance(chunk, dict):
            return
        kind, index = chunk.get("type"), _number(chunk.get("output_index"))
        if isinstance(chunk.get("response"), dict):
            self._response = chunk["response"]
            self.complete = kind in ("response.completed", "response.incomplete")
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[index] = dict(_object(chunk, "item"))
            if kind == "response.output_item.done":
                self._text = {k: v for k, v in self._text.items() if k[0] != index}
        elif isinstance(chunk.get("delta"), str) and kind in _GROWING:
            place = _number(chunk.get("content_index", chunk.get("summary_index")))
            self._text.setdefault((index, place, kind), []).append(chunk["delta"])

    def result(self) -> dict[str, Any]:
        if self.complete and isinstance(self._response.get("output"), list):
            return self._response
        items = {n: dict(item) for n, item in self._items.items()}
        for (index, _, kind), pieces in sorted(self._text.items()):
            item = items.get(index)
            if item is not None:
                _grow(item, *_GROWING[kind], "".join(pieces))
        return self._response | {"object": "response", "output": [items[n] for n in sorted(items)]}


_GROWING = {
    "response.output_text.delta": ("content", "output_text", "text"),
    "response.refusal.delta": ("content", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text"),
    "response.function_call_arguments.delta": ("arguments", "", ""),
    "response.custom_tool_call_input.delta": ("input", "", ""),
}
"""Type of a chunk → the item's field that grows, and what its parts are."""


def _grow(item: dict[str, Any], field: str, part: str, name: str, text: str) -> None:
    """The item with that text; its parts arrive in order, each once."""
    if not part:
        item[field] = text
        return
    marks: dict[str, Any] = {"annotations": []} if part == "output_text" else {}
    item[field] = [*_list(item, field), {"type": part, name: text} | marks]


_STREAMS: dict[Dialect, type[_Stream]] = {
    "anthropic": _Anthropic,
    "openai": _Responses,
    "openai-chat": _Chat,
    "plain": _Plain,
}


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _list(value: dict[str, Any], name: str) -> list[Any]:
    inner = value.get(name)
    return inner if isinstance(inner, list) else []


def _text(value: dict[str, Any], name: str) -> str:
    inner = value.get(name)
    return inner if isinstance(inner, str) else ""


def _number(value: Any, default: int = 0) -> int:
    return value if type(value) is int else default
