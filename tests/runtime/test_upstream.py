"""Address, token and prefix of a process, for requests and sockets alike."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from websockets.exceptions import InvalidHandshake

from devui.supervisor.listeners import SocketFolder
from devui.supervisor.upstream import Upstream
from tests.patience import PATIENCE_S


async def test_requests_and_sockets_have_prefix_and_token():
    heads: list[list[str]] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head.decode().lower().splitlines())
        writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    upstream = Upstream(f"127.0.0.1:{port}/apps/weather", "secret")
    async with server, upstream.http as client, asyncio.timeout(PATIENCE_S):
        await client.get("/health")
        with suppress(InvalidHandshake):
            await upstream.connect("/run_live?x=1", {"X-DevUI-Token": "forged", "X-Other": "a"})
    request, socket = heads
    assert request[0] == "get /apps/weather/health http/1.1"
    assert socket[0] == "get /apps/weather/run_live?x=1 http/1.1"
    assert "x-other: a" in socket
    for head in heads:
        assert [line for line in head if line.startswith("x-devui-token")] == ["x-devui-token: secret"]


async def test_only_a_listening_address_accepts_connections():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    upstream = Upstream(f"127.0.0.1:{server.sockets[0].getsockname()[1]}/processes/1", "secret")
    assert await upstream.accepts_connections()
    server.close()
    await server.wait_closed()
    assert not await upstream.accepts_connections()


async def test_only_a_listening_socket_file_accepts_connections():
    sockets = SocketFolder()
    try:
        listener = sockets.listen()
        upstream = Upstream("127.0.0.1", "secret", str(listener.path))
        assert await upstream.accepts_connections()
        listener.close()
        assert not await upstream.accepts_connections()
    finally:
        sockets.remove()


@pytest.mark.parametrize("address", ["[::1]:9", "localhost:9/apps/a"])
async def test_unreachable_host_accepts_no_connections(address):
    assert not await Upstream(address, "secret").accepts_connections()
