"""Tests the proxy's own connections to a server: which are used again, and what counts as not reached."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from stator.surfaces.proxy.http_policy import Upstream
from stator.surfaces.proxy.upstream_direct import DirectTransport, Unreached, UpstreamFailed

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
POST = "POST", "/mcp", [(b"content-type", b"application/json")]


class Script:
    """A server that answers the requests of each connection with the next bytes of a script; None closes."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.connections = 0
        self.asked = []
        self.writers = []

    async def __call__(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        while self.answers and (request := await self.request(reader)):
            self.asked.append(request)
            answer = self.answers.pop(0)
            writer.write(answer or b"")
            if answer is None or b"content-length" not in answer:
                writer.close()
                return
        await reader.read()

    async def request(self, reader):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""
        lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        size = int(lengths[0].split(b":")[1]) if lengths else 0
        return head + await reader.readexactly(size)


def run(script, talk):
    """Let `talk` use a transport to a server that follows the script."""

    serving: list[Any] = []

    async def serve(reader, writer):
        serving.append(asyncio.current_task())
        try:
            await script(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):  # the transport lets go of its connections at once
                await writer.wait_closed()

    async def both():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = DirectTransport("127.0.0.1", port, f"127.0.0.1:{port}")
        try:
            return await asyncio.wait_for(talk(transport), 30)
        finally:
            await transport.aclose()
            server.close()
            await asyncio.gather(*serving, return_exceptions=True)

    return asyncio.run(both())


async def exchange(transport, body=b"{}"):
    response = await transport.send(*POST, body)
    try:
        return response.status, b"".join([piece async for piece in response.pieces()])
    finally:
        await response.aclose()


def test_requests_one_after_the_other_share_a_connection():
    script = Script(OK, OK, OK)

    async def talk(transport):
        return [await exchange(transport) for _ in range(3)]

    assert run(script, talk) == [(200, b"ok")] * 3
    assert script.connections == 1


def test_a_request_is_sent_with_its_host_and_length():
    script = Script(OK)

    async def talk(transport):
        return await exchange(transport, b'{"id":1}')

    run(script, talk)
    (asked,) = script.asked
    assert asked.startswith(b"POST /mcp HTTP/1.1\r\n")
    assert b"content-length: 8\r\n" in asked.lower()
    assert asked.lower().count(b"host: 127.0.0.1:") == 1
    assert asked.endswith(b'\r\n\r\n{"id":1}')


def test_a_connection_that_the_server_closed_is_not_used_again():
    script = Script(OK, OK)

    async def talk(transport):
        first = await exchange(transport)
        script.writers[0].close()
        await script.writers[0].wait_closed()
        await seen_by(transport)
        return first, await exchange(transport)

    assert run(script, talk) == ((200, b"ok"), (200, b"ok"))
    assert script.connections == 2


def test_bytes_that_answer_no_request_are_not_taken_for_the_next_answer():
    script = Script(OK, OK)

    async def talk(transport):
        await exchange(transport)
        script.writers[0].write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong")
        await seen_by(transport)
        return await exchange(transport)

    assert run(script, talk) == (200, b"ok")
    assert script.connections == 2


async def seen_by(transport):
    """Wait until the kept connection knows that it is of no use any more."""
    (kept,) = transport._idle
    while kept._ended is None:
        await asyncio.sleep(0)


def test_a_response_that_is_not_read_to_the_end_gives_its_connection_up():
    script = Script(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", OK)

    async def talk(transport):
        left = await transport.send(*POST, b"{}")
        await left.aclose()
        return await exchange(transport)

    assert run(script, talk) == (200, b"ok")
    assert script.connections == 2


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.1 200 OK\r\n", b"not HTTP at all\r\n\r\n"], ids=["none", "half", "no"]
)
def test_a_server_that_closes_before_it_answers_was_reached(answer):
    async def talk(transport):
        with pytest.raises(UpstreamFailed) as raised:
            await exchange(transport)
        return raised.value

    assert not isinstance(run(Script(answer), talk), Unreached)


def test_a_body_that_ends_with_its_connection_is_read_whole():
    async def talk(transport):
        return await exchange(transport)

    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"x" * 1_000_000
    assert run(Script(answer), talk) == (200, b"x" * 1_000_000)


def test_a_body_of_unknown_length_is_sent_in_chunks():
    async def body():
        yield b"one"
        yield b"two"

    asked = []

    async def server(reader, writer):
        asked.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(OK)

    async def talk(transport):
        return await exchange(transport, body())

    assert run(server, talk) == (200, b"ok")
    assert asked[0].endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("url", "direct"),
    [
        ("http://127.0.0.1:3001/mcp", True),
        ("http://localhost/mcp", True),
        ("https://127.0.0.1:3001/mcp", False),
        ("http://münchen.example/mcp", False),
    ],
)
def test_only_plain_http_is_sent_over_own_connections(url, direct, monkeypatch):
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    assert Upstream(url).is_direct is direct


def test_a_query_of_the_address_is_sent_in_ascii():
    assert Upstream("http://127.0.0.1/mcp?q=ä b").target("/mcp", b"x=1") == "/mcp?q=%C3%A4%20b&x=1"
