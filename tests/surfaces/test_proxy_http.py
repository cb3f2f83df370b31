"""Tests the proxy over HTTP: bodies and streams pass unchanged, calls are recorded, web pages are refused."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from hashlib import sha256
from http.client import HTTPConnection

import pytest

import stator
from stator.surfaces.proxy.http import ProxyApp
from stator.surfaces.proxy.http_policy import RequestPolicy, Upstream
from stator.surfaces.proxy.recorder import ProxyRecorder
from stator.surfaces.proxy.session import choose
from surfaces.proxying import call, request
from surfaces.servers.streaming import Server
from waiting import eventually

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Front:
    """A running `stator proxy --http`, and what it recorded."""

    def __init__(self, folder, upstream, *words):
        self.path = folder / "http.db"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stator.surfaces.cli.main", "proxy", "--store", str(self.path),
             "--session", "talk", "--name", "test", "--json", "--http", "--port", "0",
             "--upstream", upstream, *words],
            stderr=subprocess.PIPE, cwd=folder,
        )  # fmt: skip
        assert self.process.stderr is not None
        said = json.loads(self.process.stderr.readline())
        assert said["schema"] == "stator.proxy/1"
        self.port = int(said["address"].split(":")[2].split("/")[0])

    def ask(self, message=None, *, method="POST", path="/mcp", body=None, headers=None):
        """(status, headers, body) of what comes back."""
        connection = self.open(message, method=method, path=path, body=body, headers=headers)
        response = connection.getresponse()
        found = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return found

    def open(self, message=None, *, method="POST", path="/mcp", body=None, headers=None):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        data = json.dumps(message).encode() if message is not None else body
        connection.request(method, path, data, {**JSON, **(headers or {})})
        return connection

    def call(self, tool, **arguments):
        status, _, body = self.ask(call(1, tool, **arguments))
        return status, json.loads(body)

    def last(self, wanted=None):
        """(status, cause, attempt) of the newest call; of the newest that ended `wanted`."""
        with stator.connect(self.path, read_only=True) as store:

            def ended():
                row = store.read("talk").calls(limit=1)[0]
                if row.status == "started" or wanted not in (None, row.status):
                    return None
                return row.status, row.cause, row.attempt

            return eventually(ended)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


@pytest.fixture(scope="module")
def upstream():
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def front(upstream, tmp_path_factory):
    made = Front(tmp_path_factory.mktemp("proxy"), upstream.url)
    made.ask(request(1, "tools/list"))
    yield made
    assert made.end() == 0


@pytest.fixture(autouse=True)
def fresh(upstream):
    upstream.seen.clear()
    upstream.later, upstream.deaths = [], 0
    upstream.go.clear()
    yield
    upstream.go.set()


# -- bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b'{ "jsonrpc":"2.0",  "id":7,"method":"ping", "x":{"b":1.50,"a":[]} }',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]',
        b"{not json",
        b"\xef\xbb\xbf{}",
    ],
)
def test_a_body_reaches_the_server_as_the_same_bytes(front, upstream, body):
    front.ask(body=body)
    assert upstream.seen[-1][3] == body


def test_an_answer_reaches_the_client_as_the_same_bytes(front):
    status, headers, body = front.ask(request(3, "ping"))
    assert status == 200
    said = {"jsonrpc": "2.0", "id": 3, "result": {"content": [{"type": "text", "text": "{}"}]}}
    assert body == json.dumps(said).encode() + b" \n"
    assert headers["X-Custom"] == "kept"


def test_hop_by_hop_headers_are_dropped_and_all_others_passed_on(front, upstream):
    _, answered, _ = front.ask(
        request(3, "ping"),
        headers={
            "Authorization": "Bearer s3cret", "Mcp-Session-Id": "abc", "Mcp-Method": "ping",
            "MCP-Protocol-Version": "2026-07-28", "Connection": "keep-alive, X-Mine", "X-Mine": "1",
            "TE": "trailers", "Accept-Encoding": "gzip", "Origin": f"http://127.0.0.1:{front.port}",
        },
    )  # fmt: skip
    got = {name.lower(): value for name, value in upstream.seen[-1][2]}
    assert got["authorization"] == "Bearer s3cret"
    assert (got["mcp-session-id"], got["mcp-method"]) == ("abc", "ping")
    assert got["mcp-protocol-version"] == "2026-07-28"
    assert got["host"] == upstream.url.split("/")[2]
    assert got["origin"] == upstream.url.removesuffix("/mcp")
    assert got["accept-encoding"] == "identity"
    assert not {"x-mine", "te"} & got.keys()
    assert "X-Drop" not in answered


def test_authorization_headers_are_never_recorded(front):
    secret = "a-token-of-no-known-shape-4711"
    front.ask(call(1, "echo"), headers={"Authorization": f"Bearer {secret}", "Cookie": secret})
    assert front.last()[0] == "ok"
    for file in front.path.parent.glob("http.db*"):
        assert secret.encode() not in file.read_bytes()


def test_a_stream_is_passed_on_piece_by_piece(front, upstream):
    connection = front.open(call(1, "echo", how="stream"))
    response = connection.getresponse()
    assert response.readline() == b"event: message\n"
    assert b"notifications/progress" in response.readline()
    upstream.go.set()
    assert b'"result"' in response.read()
    connection.close()
    assert front.last() == ("ok", "", 1)


def test_only_paths_of_the_protocol_are_passed_on(front, upstream):
    assert front.ask(method="DELETE", headers={"Mcp-Session-Id": "gone"})[0] == 200
    assert front.ask(method="GET", path="/.well-known/oauth-protected-resource/mcp")[0] == 200
    assert [seen[0] for seen in upstream.seen] == ["DELETE", "GET"]
    for path in ("/", "/mcp/../admin", "/mcp2", "/%2e%2e/mcp", "/.well-known/../admin"):
        assert front.ask(request(1, "ping"), path=path)[0] == 404
    assert front.ask(request(1, "ping"), path="http://evil.example/mcp")[0] == 421
    assert len(upstream.seen) == 2


def test_a_body_too_long_to_decode_is_passed_on_and_recorded_by_digest(front, upstream):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"y" * 17_000_000 + b'"}}'
    assert front.ask(body=body)[0] == 200
    assert upstream.seen[-1][3] == body
    with stator.connect(front.path, read_only=True) as store:

        def sizes():
            raws = [c.known("input") for c in store.read("talk").log() if c.kind == "raw"]
            return [raw["size"] for raw in raws if "size" in raw]

        assert eventually(sizes) == [len(body)]


# -- outcomes ----------------------------------------------------------------------------------------


def test_a_response_too_long_to_decode_is_recorded_by_size_and_digest(front):
    _, _, body = front.ask(call(1, "echo", how="large", size=18_000_000))
    assert front.last() == ("ok", f"{len(body)} bytes, not read", 1)
    with stator.connect(front.path, read_only=True) as store:
        (kept, *_) = [
            c.known("output")
            for c in store.read("talk").log()
            if c.kind == "outcome" and "not read" in c.cause
        ]
    assert (kept["size"], kept["sha256"]) == (len(body), sha256(body).hexdigest())


def test_a_call_is_recorded_with_its_outcome(front):
    status, answer = front.call("echo", a=1)
    assert (status, answer["id"]) == (200, 1)
    assert front.last() == ("ok", "", 1)


@pytest.mark.parametrize(
    ("tool", "code", "status", "cause"),
    [
        ("echo", 404, "error", "HTTP 404"),
        ("echo", 500, "in doubt", "HTTP 500"),
        ("look", 500, "error", "HTTP 500"),
    ],
)
def test_an_http_error_status_is_recorded_as_an_outcome(front, tool, code, status, cause):
    assert front.ask(call(1, tool, how="status", status=code))[0] == code
    assert front.last() == (status, cause, 1)


def test_a_write_is_in_doubt_if_the_server_closes_before_it_answers(front):
    status, answer = front.call("echo", how="die")
    assert (status, answer["error"]["code"]) == (502, -32_000)
    assert front.last()[0] == "in doubt"


def test_a_call_that_only_reads_is_sent_again(front, upstream):
    status, answer = front.call("look", how="die_once")
    assert (status, answer["id"]) == (200, 1)
    assert front.last() == ("ok", "", 2)
    assert len(upstream.seen) == 2


def test_a_stream_that_breaks_off_ends_with_an_error(front):
    status, _, body = front.ask(call(1, "echo", how="broken"))
    assert status == 200
    assert json.loads(body.split(b"data: ")[-1])["error"]["code"] == -32_000
    assert front.last() == ("in doubt", "the server broke off", 1)


def test_a_response_fetched_after_a_reconnect_ends_the_call(front):
    session = {"Mcp-Session-Id": "s-1"}
    front.ask(call(41, "echo", how="resumed"), headers=session)
    _, _, body = front.ask(method="GET", headers={**session, "Last-Event-ID": "1"})
    assert b'"id": 41' in body
    assert front.last() == ("ok", "", 1)


def test_a_write_is_in_doubt_if_its_client_leaves(front, upstream):
    connection = front.open(call(1, "echo", how="stream"))
    connection.getresponse().readline()
    connection.close()
    assert front.last() == ("in doubt", "the client went away", 1)


def test_a_cancelled_call_of_a_session_is_in_doubt(front, upstream):
    session = {"Mcp-Session-Id": "s-2"}
    connection = front.open(call(5, "echo", how="wait"), headers=session)
    eventually(lambda: upstream.seen)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    assert front.ask(cancelled, headers=session)[0] == 202
    assert front.last() == ("in doubt", "cancelled by the client", 1)
    upstream.go.set()
    assert connection.getresponse().status == 200
    connection.close()
    assert front.last("ok")[0] == "ok"


class LateBody:
    """A server whose answer comes in two parts: the second long after the client has left."""

    def __init__(self, answer):
        self.answer = answer
        self.left = asyncio.Event()

        length = str(len(answer)).encode()
        self.status = 200
        self.headers = [(b"content-type", b"application/json"), (b"content-length", length)]

    async def send(self, method, target, headers, body):
        return self

    async def pieces(self):
        yield self.answer[:10]
        await self.left.wait()
        for _ in range(100):  # whatever the proxy does about the client that left, it has done
            await asyncio.sleep(0)
        yield self.answer[10:]

    async def aclose(self):
        pass


def test_a_response_is_recorded_if_its_client_leaves_before_the_end(tmp_path, monkeypatch):
    arriving = [{"type": "http.request", "body": json.dumps(call(1, "echo")).encode()}]

    async def exchange(recording):
        app = ProxyApp(
            recording, Upstream("http://127.0.0.1:9/mcp"), RequestPolicy(80), None,
            timeout_answer=False, say=pytest.fail,
        )  # fmt: skip
        await app.transport.aclose()
        server = LateBody(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}')
        monkeypatch.setattr(app, "transport", server)

        async def receive():
            if arriving:
                return arriving.pop()
            await server.left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if message["type"] == "http.response.body":
                server.left.set()

        headers = [(b"host", b"127.0.0.1:80"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b""}
        await app({**scope, "headers": headers}, receive, send)

    with stator.connect(tmp_path / "a.db") as store:
        chosen = choose(store, "talk", "test", "run")
        recording = ProxyRecorder(
            store,
            chosen.open_recorder,
            server="test",
            run="run",
            shared=chosen.shared,
            say=pytest.fail,
        )
        asyncio.run(exchange(recording))
        recording.close()
        (row,) = store.read("talk").calls()
        assert (row.status, row.cause) == ("ok", "")


def test_a_call_to_an_unreachable_server_is_an_error_not_in_doubt(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        front = Front(tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")
        status, answer = front.call("echo")
        assert (status, answer["error"]["code"]) == (502, -32_000)
        assert front.last()[0] == "error"
        front.end()


def test_timeout_answer_answers_a_call_that_takes_too_long(tmp_path, upstream):
    front = Front(tmp_path, upstream.url, "--timeout", "0.2", "--timeout-answer")
    status, answer = front.call("echo", how="wait")
    assert (status, answer["error"]["code"]) == (504, -32_001)
    assert front.last() == ("in doubt", "no answer within 0.2 s", 1)
    front.end()


# -- who may speak to it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": ""}, 415),
    ],
)
def test_requests_from_web_pages_are_refused(front, upstream, headers, status):
    assert front.ask(call(1, "echo"), headers=headers)[0] == status
    assert upstream.seen == []


def test_a_request_without_a_host_is_refused(front, upstream):
    with socket.create_connection(("127.0.0.1", front.port), timeout=30) as plain:
        plain.sendall(b"POST /mcp HTTP/1.0\r\nContent-Type: application/json\r\n\r\n")
        assert plain.recv(200).split()[1] in (b"400", b"421")
    assert upstream.seen == []


def test_a_preflight_is_refused(front):
    assert front.ask(method="OPTIONS", headers={"Access-Control-Request-Method": "POST"})[0] == 405


def test_the_proxy_listens_on_loopback_only(front):
    name = socket.gethostbyname(socket.gethostname())
    if name.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((name, front.port), timeout=5)
