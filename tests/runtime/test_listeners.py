"""Sockets between the web process and a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from devui.supervisor.listeners import SocketFolder
from devui.supervisor.upstream import Upstream
from tests.patience import PATIENCE_S


@pytest.fixture
def sockets() -> Iterator[SocketFolder]:
    folder = SocketFolder()
    yield folder
    folder.remove()


async def test_a_connection_is_not_used_twice(sockets):
    """ADK's server drops a connection after an error, unheard when an agent has forked: its child holds it."""
    answered: list[int] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answered.append(len(answered))
        writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno")
        await reader.read()
        writer.close()

    listener = sockets.listen()
    serving = await asyncio.start_server(answer_once, sock=listener.socket)
    upstream = Upstream("127.0.0.1", "token", str(listener.path))
    async with serving, upstream.http as client, asyncio.timeout(PATIENCE_S):
        for _ in range(3):
            assert (await client.get("/")).status_code == 500
    assert answered == [0, 1, 2]
