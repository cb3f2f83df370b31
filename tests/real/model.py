"""Serves a scripted model on loopback, in the dialects of four agents' providers.

A script is played in one of two ways. As a list of lines, the number of tool results in a request says which line comes
next. As chapters, a prompt names its chapter (`[[roses]]`), and the results after that prompt are counted: so a
conversation can be resumed, compacted and killed. A request without tools, or for a summary, is an agent's own side
question; the answer is one sentence.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

WORD = "ok"
CHAPTER = re.compile(r"\[\[([\w-]+)\]\]")
SUMMARY = re.compile(r"summar|state_snapshot|checkpoint|anchored", re.IGNORECASE)
"""How agents ask for the summary of a conversation that they compact."""


@dataclass
class Tool:
    """A call of a tool."""

    name: str
    input: dict[str, Any]
    tokens: int = 11
    """How large the model says that the conversation is."""


@dataclass
class Say:
    """A line of the script: answer with this text and stop."""

    text: str
    tokens: int = 11
    """How large the model says that the conversation is."""


Line = Tool | Say | list[Tool]
"""A line of the script; several tools are called at once."""


@dataclass
class Seen:
    """A part of a request: what the user said, or the result of a call."""

    kind: Literal["user", "result"]
    text: str = ""


@dataclass
class Script:
    """The model's answers, line by line; keeps every request it received."""

    lines: Sequence[Line] = ()
    chapters: dict[str, list[Line]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    watch: Callable[[str], None] = lambda chapter: None
    """Is called with the chapter before each of its answers, while the agent waits."""

    def next(self, seen: list[Seen], has_tools: bool) -> Line:
        if not has_tools:
            return Say(WORD)
        if self.chapters:
            return self._in_chapter(seen)
        done = sum(part.kind == "result" for part in seen)
        # A conversation that continues after a last word begins the script again, from that word on.
        return self.lines[done] if done < len(self.lines) else self.lines[-1]

    def _in_chapter(self, seen: list[Seen]) -> Line:
        done, name = 0, ""
        for part in seen:
            found = CHAPTER.findall(part.text) if part.kind == "user" else []
            if found:
                done, name = 0, found[-1]
            elif part.kind == "result":
                done += 1
            elif SUMMARY.search(part.text):
                name = ""
        self.watch(name)
        for line in self.chapters.get(name, []):
            count = len(line) if isinstance(line, list) else 1
            if isinstance(line, Say) or done < count:
                return line
            done -= count
        return Say("A summary of the garden.")


def _tools(line: Line) -> list[Tool]:
    return line if isinstance(line, list) else [line] if isinstance(line, Tool) else []


def _texts(content: Any) -> str:
    """The text of a message's content, whatever its shape."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _sse(*events: tuple[str, dict[str, Any]]) -> bytes:
    lines = [f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events]
    return "".join(lines).encode()


def _seen_by_anthropic(body: dict[str, Any]) -> Iterator[Seen]:
    for message in body.get("messages") or []:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        yield from (Seen("result") for block in blocks if block.get("type") == "tool_result")
        if message.get("role") == "user":
            said = [block for block in blocks if block.get("type") == "text"]
            yield Seen("user", _texts(said if blocks else content))


def anthropic(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    line = script.next(list(_seen_by_anthropic(body)), bool(body.get("tools")))
    number = len(script.requests)
    tools = _tools(line)
    whole: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{number:06}{n:02}", "name": one.name, "input": one.input}
        for n, one in enumerate(tools)
    ] or [{"type": "text", "text": getattr(line, "text", "")}]
    reason = "tool_use" if tools else "end_turn"
    usage = {"input_tokens": getattr(line, "tokens", 11), "output_tokens": 7}
    message: dict[str, Any] = {
        "id": f"msg_{number:08}", "type": "message", "role": "assistant", "model": body.get("model"),
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if not body.get("stream"):
        message |= {"content": whole, "stop_reason": reason}
        return "application/json", json.dumps(message).encode()
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"type": "message_start", "message": message})
    ]
    for index, block in enumerate(whole):
        is_text = block["type"] == "text"
        begun = {**block, "text": ""} if is_text else {**block, "input": {}}
        delta = {"type": "text_delta", "text": block.get("text")}
        if not is_text:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        start = {"type": "content_block_start", "index": index, "content_block": begun}
        events += [
            ("content_block_start", start),
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": index, "delta": delta},
            ),
            ("content_block_stop", {"type": "content_block_stop", "index": index}),
        ]
    end = {"stop_reason": reason, "stop_sequence": None}
    done = {"type": "message_delta", "delta": end, "usage": usage}
    events += [("message_delta", done), ("message_stop", {"type": "message_stop"})]
    return "text/event-stream", _sse(*events)


def _seen_by_responses(body: dict[str, Any]) -> Iterator[Seen]:
    for item in body.get("input") or []:
        if str(item.get("type")).endswith("_call_output"):
            yield Seen("result")
        elif item.get("role") == "user":
            yield Seen("user", _texts(item.get("content")))


def responses(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    line = script.next(list(_seen_by_responses(body)), bool(body.get("tools")))
    number = len(script.requests)
    items: list[dict[str, Any]] = [
        {
            "type": "function_call", "id": f"fc_{number:06}{n:02}",
            "call_id": f"call_{number:06}{n:02}", "name": one.name,
            "arguments": json.dumps(one.input), "status": "completed",
        }
        for n, one in enumerate(_tools(line))
    ]  # fmt: skip
    if not items:
        part: dict[str, Any] = {"type": "output_text", "text": getattr(line, "text", "")}
        part["annotations"] = []
        items = [
            {
                "type": "message", "id": f"msg_{number:08}", "role": "assistant",
                "content": [part], "status": "completed",
            }
        ]  # fmt: skip
    tokens = getattr(line, "tokens", 11)
    usage = {
        "input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 7,
    }  # fmt: skip
    response = {"id": f"resp_{number:08}", "object": "response", "status": "completed"}
    whole = {**response, "output": items, "usage": usage}
    done = "response.output_item.done"
    return "text/event-stream", _sse(
        ("response.created", {"type": "response.created", "response": response}),
        *[(done, {"type": done, "item": item}) for item in items],
        ("response.completed", {"type": "response.completed", "response": whole}),
    )


def _seen_by_chat(body: dict[str, Any]) -> Iterator[Seen]:
    for message in body.get("messages") or []:
        if message.get("role") == "tool":
            yield Seen("result")
        elif message.get("role") == "user":
            yield Seen("user", _texts(message.get("content")))


def chat(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    line = script.next(list(_seen_by_chat(body)), bool(body.get("tools")))
    number = len(script.requests)
    tools = _tools(line)
    delta: dict[str, Any] = {"role": "assistant"}
    if tools:
        delta["tool_calls"] = [
            {
                "index": n, "id": f"call_{number:06}{n:02}", "type": "function",
                "function": {"name": one.name, "arguments": json.dumps(one.input)},
            }
            for n, one in enumerate(tools)
        ]  # fmt: skip
    else:
        delta["content"] = getattr(line, "text", "")
    base = {
        "id": f"chat_{number:08}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    reason = "tool_calls" if tools else "stop"
    tokens = getattr(line, "tokens", 11)
    usage = {"prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode()


def _seen_by_gemini(body: dict[str, Any]) -> Iterator[Seen]:
    for content in body.get("contents") or []:
        parts = content.get("parts") or []
        yield from (Seen("result") for part in parts if "functionResponse" in part)
        if content.get("role") == "user":
            yield Seen("user", _texts(parts))


def gemini(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    line = script.next(list(_seen_by_gemini(body)), bool(body.get("tools")))
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": one.name, "args": one.input}} for one in _tools(line)
    ] or [{"text": getattr(line, "text", "")}]
    tokens = getattr(line, "tokens", 11)
    counts = {"promptTokenCount": tokens, "candidatesTokenCount": 7, "totalTokenCount": tokens + 7}
    answer = {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": counts,
        "modelVersion": "gemini-2.5-pro",
    }
    return "text/event-stream", f"data: {json.dumps(answer)}\n\n".encode()


Dialect = Callable[[Script, dict[str, Any]], tuple[str, bytes]]
PATHS: dict[str, Dialect] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":streamGenerateContent": gemini,
    ":generateContent": lambda script, body: _whole(*gemini(script, body)),
}


def _whole(_: str, data: bytes) -> tuple[str, bytes]:
    """An answer that is not streamed."""
    return "application/json", data.removeprefix(b"data: ")


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve the model; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            path = self.path.partition("?")[0]
            dialect = next((PATHS[end] for end in PATHS if path.endswith(end)), None)
            if dialect is None:
                self._answer("application/json", b"{}")
                return
            script.requests.append(body)
            self._answer(*dialect(script, body))

        def do_GET(self) -> None:
            self._answer("application/json", b'{"data": [], "models": []}')

        do_HEAD = do_GET

        def _answer(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
