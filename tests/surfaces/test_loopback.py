"""What servers over HTTP share: nothing waits for an acknowledgement, and a taken port is said to be."""

from __future__ import annotations

import asyncio
import socket

import pytest

from stator.errors import InvalidInput
from stator.surfaces import loopback


def test_small_writes_of_a_server_do_not_wait_for_one_another():
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


def test_a_port_that_is_taken_is_said_to_be():
    with loopback.bind(0) as taken, pytest.raises(InvalidInput, match="cannot listen"):
        loopback.bind(loopback.port_of(taken))
