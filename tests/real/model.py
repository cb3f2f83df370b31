"""Serves a scripted model on loopback, in the dialects of four agents' providers.

The number of tool results in a request says how many lines of the script were played, and so which line
comes next. A request without tools is an agent's own side question (a title, a check); the answer is one word.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORD = "ok"


@dataclass
class Tool:
    """A line of the script: call this tool."""

    name: str
    input: dict[str, Any]


@dataclass
class Say:
    """A line of the script: answer with this text and stop."""

    text: str


@dataclass
class Script:
    """The model's answers, line by line; keeps every request it received."""

    lines: list[Tool | Say]
    requests: list[dict[str, Any]] = field(default_factory=list)

    def next(self, done: int, has_tools: bool) -> Tool | Say:
        if not has_tools:
            return Say(WORD)
        # A conversation that goes on after a last word begins the script anew, from that word on.
        return self.lines[done] if done < len(self.lines) else self.lines[-1]


def _count(value: Any, kind: str, name: str) -> int:
    if isinstance(value, dict):
        found = int(value.get(kind) == name) if name else int(kind in value)
        return found + sum(_count(item, kind, name) for item in value.values())
    if isinstance(value, list):
        return sum(_count(item, kind, name) for item in value)
    return 0


def _sse(*events: tuple[str, dict[str, Any]]) -> bytes:
    lines = [f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events]
    return "".join(lines).encode()


def anthropic(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    line = script.next(_count(body.get("messages"), "type", "tool_result"), bool(body.get("tools")))
    number = len(script.requests)
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": getattr(line, "text", "")}
    reason = "end_turn"
    if isinstance(line, Tool):
        block = {"type": "tool_use", "id": f"toolu_{number:08}", "name": line.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(line.input)}
        reason = "tool_use"
    usage = {"input_tokens": 11, "output_tokens": 7}
    message: dict[str, Any] = {
        "id": f"msg_{number:08}", "type": "message", "role": "assistant", "model": body.get("model"),
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if not body.get("stream"):
        whole = {**block, "text": delta["text"]} if isinstance(line, Say) else block
        if isinstance(line, Tool):
            whole["input"] = line.input
        message |= {"content": [whole], "stop_reason": reason}
        return "application/json", json.dumps(message).encode()
    return "text/event-stream", _sse(
        ("message_start", {"type": "message_start", "message": message}),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": block},
        ),
        ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": usage,
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    )


def responses(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    done = _count(body.get("input"), "type", "function_call_output")
    line = script.next(done, bool(body.get("tools")))
    number = len(script.requests)
    item: dict[str, Any]
    if isinstance(line, Tool):
        item = {
            "type": "function_call", "id": f"fc_{number:08}", "call_id": f"call_{number:08}",
            "name": line.name, "arguments": json.dumps(line.input), "status": "completed",
        }  # fmt: skip
    else:
        part = {"type": "output_text", "text": line.text, "annotations": []}
        item = {
            "type": "message", "id": f"msg_{number:08}", "role": "assistant", "content": [part],
            "status": "completed",
        }  # fmt: skip
    usage = {
        "input_tokens": 11, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 18,
    }  # fmt: skip
    response = {"id": f"resp_{number:08}", "object": "response", "status": "completed"}
    whole = {**response, "output": [item], "usage": usage}
    return "text/event-stream", _sse(
        ("response.created", {"type": "response.created", "response": response}),
        ("response.output_item.done", {"type": "response.output_item.done", "item": item}),
        ("response.completed", {"type": "response.completed", "response": whole}),
    )


def chat(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    done = _count(body.get("messages"), "role", "tool")
    line = script.next(done, bool(body.get("tools")))
    number = len(script.requests)
    delta: dict[str, Any] = {"role": "assistant"}
    if isinstance(line, Tool):
        call = {"name": line.name, "arguments": json.dumps(line.input)}
        delta["tool_calls"] = [
            {"index": 0, "id": f"call_{number:08}", "type": "function", "function": call}
        ]
    else:
        delta["content"] = line.text
    base = {
        "id": f"chat_{number:08}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
    }
    reason = "tool_calls" if isinstance(line, Tool) else "stop"
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    chunks = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "text/event-stream", ("".join(lines) + "data: [DONE]\n\n").encode()


def gemini(script: Script, body: dict[str, Any]) -> tuple[str, bytes]:
    done = _count(body.get("contents"), "functionResponse", "")
    line = script.next(done, bool(body.get("tools")))
    part: dict[str, Any] = {"text": getattr(line, "text", "")}
    if isinstance(line, Tool):
        part = {"functionCall": {"name": line.name, "args": line.input}}
    answer = {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
        "modelVersion": "gemini-2.5-pro",
    }
    return "text/event-stream", f"data: {json.dumps(answer)}\n\n".encode()


Dialect = Callable[[Script, dict[str, Any]], tuple[str, bytes]]
PATHS: dict[str, Dialect] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":streamGenerateContent": gemini,
}


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
