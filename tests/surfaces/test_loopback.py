"""What our HTTP servers share: writes without delay, and the error for a port in use."""

from __future__ import annotations

import asyncio
import socket

import pytest

from stator.errors import InvalidInput
from stator.surfaces import loopback


def test_small_writes_of_a_server_are_not_delayed():
    async def accepted():
        found = asyncio.get_running_loop().create_future()

        async def met(reader, writer):
            connection = writer.get_extra_info("socket")
            found.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = loopback.bind(0)
        async with await asyncio.start_server(met, sock=listener):
            with socket.create_connection(listener.getsockname()):
                return await found

    assert asyncio.run(accepted()) != 0


def test_the_error_names_a_port_in_use():
    with loopback.bind(0) as taken, pytest.raises(InvalidInput, match="cannot listen"):
        loopback.bind(loopback.port_of(taken))
