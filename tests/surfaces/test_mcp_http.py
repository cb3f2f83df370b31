"""Tests the MCP server over HTTP: the access check alone, then the real program with two clients at once."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import subprocess
from contextlib import asynccontextmanager, contextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from stator.errors import InvalidInput
from stator.surfaces.mcp.transport import auth
from surfaces.agents import ERAS, LEGACY, ME, MODERN, PROGRAM, Agent, message, next_uri

TOKEN = "t" * 43
PORT = 8717


# -- the guard ------------------------------------------------------------------------------------

FINE = {
    "host": f"127.0.0.1:{PORT}",
    "authorization": f"Bearer {TOKEN}",
    "content-type": "application/json",
}


def status_of(
    headers: dict[str, str], *, method="POST", query=b"", token: str | None = TOKEN
) -> int:
    """Return the status of a request; 200 if it reaches the server."""
    said: list[int] = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200})

    async def send(told):
        if told["type"] == "http.response.start":
            said.append(told["status"])

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "headers": raw, "query_string": query}
    anyio.run(auth.TokenGuard(app, port=PORT, token=token), scope, receive, send)
    return said[0]


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in FINE.items() if key != name}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1", "http://localhost"])
def test_a_local_request_with_the_token_is_accepted(host, origin):
    own = {} if origin is None else {"origin": f"{origin}:{PORT}"}
    assert status_of({**FINE, "host": f"{host}:{PORT}", **own}) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        f"evil.com:{PORT}",
        f"127.0.0.1.evil.com:{PORT}",
        f"127.0.0.1:{PORT}.evil.com",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"0.0.0.0:{PORT}",
        "",
    ],
)
def test_a_wrong_host_header_is_refused_even_with_the_token(host):
    assert status_of({**FINE, "host": host}) == 421


def test_a_request_without_a_host_header_is_refused():
    assert status_of(without("host")) == 421


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.com", "https://127.0.0.1:8717", f"http://localhost:{PORT}.evil.com", ""],
)
def test_a_request_from_a_web_page_is_refused_even_with_the_token(origin):
    assert status_of({**FINE, "origin": origin}) == 403


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"],
)
def test_a_missing_or_wrong_token_is_refused(given):
    assert status_of({**FINE, "authorization": given}) == 401
    assert status_of(without("authorization")) == 401


@pytest.mark.parametrize("name", ["token", "access_token"])
def test_a_token_in_the_address_is_refused_even_if_it_is_correct(name):
    assert status_of(FINE, query=f"{name}={TOKEN}".encode()) == 400
    assert status_of(without("authorization"), query=f"{name}={TOKEN}".encode()) == 400


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"]
)
def test_content_types_that_a_web_form_can_send_are_refused(kind):
    assert status_of({**FINE, "content-type": kind}) == 415


def test_host_and_origin_are_checked_also_without_a_token():
    assert status_of(without("authorization"), token=None) == 200
    assert status_of({**FINE, "host": "evil.com"}, token=None) == 421
    assert status_of({**FINE, "origin": "http://evil.com"}, token=None) == 403


def test_a_request_body_that_never_ends_times_out(monkeypatch):
    monkeypatch.setattr(auth, "BODY_S", 0.01)
    said = []

    async def app(scope, receive, send):
        while True:
            await receive()

    async def receive():
        await anyio.sleep(0.002)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(told):
        said.append(told)

    raw = [(name.encode(), value.encode()) for name, value in FINE.items()]
    scope = {"type": "http", "method": "POST", "headers": raw, "query_string": b""}
    anyio.run(auth.TokenGuard(app, port=PORT, token=TOKEN), scope, receive, send)
    assert said[0]["status"] == 408


# -- the token ------------------------------------------------------------------------------------


def test_a_token_is_created_once_and_only_its_owner_can_read_it(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    path = str(folder / "agent.db-mcp-token")
    token = auth.read_or_create_token(path)
    assert len(token) >= 40
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert auth.read_or_create_token(path) == token
    assert os.listdir(folder) == ["agent.db-mcp-token"]


def test_a_token_file_that_cannot_be_created_fails_with_a_hint(tmp_path):
    with pytest.raises(InvalidInput, match="cannot create") as caught:
        auth.read_or_create_token(str(tmp_path / "nowhere" / "token"))
    assert "--no-token" in caught.value.hint


@pytest.mark.parametrize("wrong", ["open", "short", "empty", "link", "folder"])
def test_a_token_file_that_others_may_have_written_is_not_trusted(tmp_path, wrong):
    path = tmp_path / "token"
    if wrong == "folder":
        path.mkdir()
    elif wrong == "link":
        (tmp_path / "real").write_text(TOKEN)
        path.symlink_to(tmp_path / "real")
    else:
        path.write_text({"open": TOKEN, "short": "abc", "empty": ""}[wrong])
        path.chmod(0o644 if wrong == "open" else 0o600)
    with pytest.raises(InvalidInput):
        auth.read_or_create_token(str(path))


# -- the program ----------------------------------------------------------------------------------


@contextmanager
def serving(store, *words: str):
    """Run the real program; yield its address and token."""
    process = subprocess.Popen(
        [*PROGRAM, "--http", "--port", "0", "--json", "--store", str(store), *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        said = json.loads(process.stderr.readline())
        assert said["schema"] == "stator.mcp/1"
        file = said["token_file"]
        yield said["address"], auth.read_or_create_token(file) if file else None
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@asynccontextmanager
async def connected(address, token, era=MODERN, me=ME):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as wire,
        Client(
            streamable_http_client(address, http_client=wire), mode=era, client_info=me
        ) as client,
    ):
        yield Agent(client)


@pytest.mark.anyio
async def test_two_clients_of_two_revisions_share_a_session_and_a_restart_keeps_it(tmp_path):
    store = tmp_path / "agent.db"
    with serving(store) as (address, token):
        async with connected(address, token) as one, connected(address, token, LEGACY) as two:
            handle = await one.begin()
            uri = f"session://{handle}/head"
            async with one.client.listen(resource_subscriptions=[uri]) as heard:
                items = [{"kind": "decision", "what": "use JWT", "topic": "auth"}]
                await two.call("stator_record", session=handle, items=items)
                assert await next_uri(heard) == uri
            rows = (await one.call("stator_log", session=handle, what="decisions"))["rows"]
            assert [row["what"] for row in rows] == ["use JWT"]
            assert (await two.read(uri))["seq"] == 3
    with serving(store) as (address, token):
        for era in ERAS:
            async with connected(address, token, era) as agent:
                assert "use JWT" in (await agent.call("stator_open", session=handle))["brief"]


def test_http_requests_get_the_right_status(tmp_path):
    with serving(tmp_path / "agent.db") as (address, token):
        port = int(address.rpartition(":")[2].partition("/")[0])

        def ask(body: bytes, method="POST", path="/mcp", **headers):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            given = {
                "authorization": f"Bearer {token}",
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": MODERN,
                "mcp-method": "tools/list",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            }
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            connection.close()
            return found

        listed = message("tools/list")
        # What later revisions dropped is ignored.
        assert ask(listed, mcp_session_id="other", last_event_id="7")[0] == 200
        assert ask(listed, authorization="Bearer x")[0] == 401
        assert ask(listed, host="evil.com")[0] == 421
        assert ask(listed, origin="null")[0] == 403
        assert ask(listed, content_type="text/plain")[0] == 415
        assert ask(listed, path=f"/mcp?token={token}")[0] == 400
        assert ask(listed, path="/%2e%2e%2fetc")[0] == 404
        assert ask(b"{nonsense")[0] == 400
        assert ask(b"x" * (5 * 1024 * 1024))[0] == 413
        assert ask(listed)[0] == 200


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_the_sdk_client_gets_an_error_for_a_long_request_and_can_continue(tmp_path, era):
    with serving(tmp_path / "agent.db") as (address, token):
        async with connected(address, token, era) as agent:
            with pytest.raises(MCPError):
                await agent.call("stator_open", purpose="x" * 5_000_000)
            assert await agent.begin()


def test_without_a_token_nothing_is_written_beside_the_store(tmp_path):
    with serving(tmp_path / "agent.db", "--no-token") as (_, token):
        assert token is None
    assert not os.path.exists(tmp_path / "agent.db-mcp-token")


def test_no_token_is_refused_over_stdio(ask):
    answer = ask("mcp", "--no-token")
    assert answer.code == 2


def test_a_port_in_use_is_reported_in_one_line(tmp_path):
    with serving(tmp_path / "agent.db") as (address, _):
        port = address.rpartition(":")[2].partition("/")[0]
        done = subprocess.run(
            [*PROGRAM, "--http", "--port", port, "--store", str(tmp_path / "agent.db")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert len(done.stderr.splitlines()) == 1
