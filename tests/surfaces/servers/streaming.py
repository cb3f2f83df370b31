"""Runs an MCP server over streamable HTTP for tests: it behaves as configured and keeps what it received."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.command, self.path, list(self.headers.items()), body))
        try:
            message = json.loads(body)
        except ValueError:
            self.whole(400, b"not json", "text/plain")
            return
        if isinstance(message, list) or "id" not in message:
            self.whole(202, b"", "")
            return
        params = message.get("params") or {}
        arguments = params.get("arguments") or {}
        getattr(self, arguments.get("how", "plain"))(message, arguments)

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, list(self.headers.items()), b""))
        if "well-known" in self.path:
            self.whole(200, b'{"resource":"here"}', "application/json")
            return
        self.begin_stream()
        for message in self.server.later:
            self.event(message, id="9")
        self.end_stream()

    def do_DELETE(self) -> None:
        self.server.seen.append((self.command, self.path, list(self.headers.items()), b""))
        self.whole(200, b"", "")

    # -- how it answers -------------------------------------------------------------------------------

    def plain(self, message: Any, arguments: Any) -> None:
        result: Any = {"content": [{"type": "text", "text": json.dumps(arguments)}]}
        if message["method"] == "tools/list":
            result = {"tools": TOOLS}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self.whole(200, json.dumps(answer).encode() + b" \n", "application/json")

    def stream(self, message: Any, arguments: Any) -> None:
        """Send one message, wait until the client has seen it, then send the answer."""
        self.begin_stream()
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        self.server.go.wait()
        self.event({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
        self.end_stream()

    def broken(self, message: Any, arguments: Any) -> None:
        self.begin_stream()
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
        self.drop()

    def resumed(self, message: Any, arguments: Any) -> None:
        """End the stream without an answer; the client must reconnect for it."""
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
        self.server.later = [answer]
        self.begin_stream()
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}, id="1")
        self.end_stream()

    def die(self, message: Any, arguments: Any) -> None:
        self.drop()

    def die_once(self, message: Any, arguments: Any) -> None:
        self.server.deaths += 1
        if self.server.deaths == 1:
            self.drop()
        else:
            self.plain(message, arguments)

    def status(self, message: Any, arguments: Any) -> None:
        self.whole(arguments["status"], b"no", "text/plain")

    def wait(self, message: Any, arguments: Any) -> None:
        self.server.go.wait()
        self.plain(message, arguments)

    def large(self, message: Any, arguments: Any) -> None:
        text = "x" * arguments["size"]
        self.plain({**message, "method": ""}, {"text": text})

    # -- bytes ----------------------------------------------------------------------------------------

    def whole(self, status: int, body: bytes, kind: str) -> None:
        self.send_response_only(status)
        for name, value in (("X-Custom", "kept"), ("Connection", "x-drop"), ("X-Drop", "me")):
            self.send_header(name, value)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self) -> None:
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, message: Any, id: str = "") -> None:
        data = (f"id: {id}\n" if id else "") + f"event: message\ndata: {json.dumps(message)}\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data.encode()))
        self.wfile.flush()

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def drop(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Listens on a free port of loopback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, list[tuple[str, str]], bytes]] = []
        self.later: list[Any] = []
        self.deaths = 0
        self.go = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def handle_error(self, *_: object) -> None:
        """Ignore connections that tests cut."""
