"""What the recording proxy adds to a call: `python -m bench.proxy DIR`. Prints measures as JSON.

A loopback echo tool over stdio and HTTP, with and without the proxy.

Calls go one after the other, directly and through the proxy in turns, so that whatever else the machine does
meets both alike. The store is a file, at full durability: each call is an intent on disk (fsync) before the
server sees it, and an outcome after the client does.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ECHO = r"""
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = {"content": [{"type": "text", "text": json.dumps(asked["params"]["arguments"])}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": said}) + "\n")
    sys.stdout.flush()
"""
CALLS = 400
ROUND = 20
"""Calls in a row on one side, before it is the other's turn."""


def asked(n: int) -> bytes:
    arguments = {"path": f"src/module_{n}.py", "text": "x" * 200}
    params = {"name": "echo", "arguments": arguments}
    return json.dumps(
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}
    ).encode()


def stator(store: Path, *words: str) -> list[str]:
    program = [sys.executable, "-m", "stator.surfaces.cli.main", "proxy", "--store", str(store)]
    return [*program, *words]


def over_stdio(command: list[str]) -> tuple[Callable[[int], None], Callable[[], None]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def call(n: int) -> None:
        stdin.write(asked(n) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(stdout.fileno(), 65_536)
        assert b"result" in answer, answer

    def end() -> None:
        stdin.close()
        process.wait()
        stdout.close()

    return call, end


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": said}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.wfile.write(head % len(body) + body)

    def log_message(self, *_: object) -> None:
        pass


def over_http(port: int) -> tuple[Callable[[int], None], Callable[[], None]]:
    connection = HTTPConnection("127.0.0.1", port)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(n: int) -> None:
        headers = {"content-type": "application/json", "accept": "application/json"}
        connection.request("POST", "/mcp", asked(n), headers)
        assert b"result" in connection.getresponse().read()

    return call, connection.close


def measure(
    direct: Callable[[int], None], through: Callable[[int], None], calls: int
) -> list[list[float]]:
    """Milliseconds per call: [direct, through]."""
    found: list[list[float]] = [[], []]
    for n in range(30):
        direct(n)
        through(n)
    for start in range(0, calls, ROUND):
        for which, call in enumerate((direct, through)):
            for n in range(start, start + ROUND):
                began = time.perf_counter()
                call(1_000 + n)
                found[which].append((time.perf_counter() - began) * 1e3)
    return found


def stdio(folder: Path, calls: int) -> list[list[float]]:
    script = folder / "echo.py"
    script.write_text(ECHO)
    server = [sys.executable, "-S", str(script)]
    direct, end_direct = over_stdio(server)
    through, end_through = over_stdio(stator(folder / "stdio.db", "--", *server))
    found = measure(direct, through, calls)
    end_direct()
    end_through()
    return found


def http(folder: Path, calls: int) -> list[list[float]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    upstream = f"http://127.0.0.1:{port}/mcp"
    command = stator(folder / "http.db", "--http", "--port", "0", "--json", "--upstream", upstream)
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    address = json.loads(process.stderr.readline())["address"]
    direct, end_direct = over_http(int(port))
    through, end_through = over_http(int(address.split(":")[2].split("/")[0]))
    found = measure(direct, through, calls)
    end_direct()
    end_through()
    process.terminate()
    process.wait()
    server.shutdown()
    return found


def one_sync(folder: Path) -> float:
    """Milliseconds that the disk takes for one fsync of a page, while the machine is as it is."""
    times = []
    with open(folder / "page", "wb", buffering=0) as file:
        for _ in range(200):
            file.write(b"x" * 4_096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def measures(name: str, found: list[list[float]]) -> dict[str, float]:
    direct, through = (statistics.median(times) for times in found)
    return {f"proxy_{name}_direct_ms": direct, f"proxy_{name}_added_ms": through - direct}


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["HOME"] = str(folder)
    found = measures("stdio", stdio(folder, CALLS)) | measures("http", http(folder, CALLS))
    print(json.dumps(found | {"fsync_ms": one_sync(folder)}))


if __name__ == "__main__":
    main()
