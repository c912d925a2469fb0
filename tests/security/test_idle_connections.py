"""Idle connections are closed, however many there are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from typing import Any

import pytest
import pytest_asyncio
import websockets

from devui.web import idle_connections
from devui.web.idle_connections import TimedHTTPProtocol
from tests.login.servers import serving
from tests.patience import PATIENCE_S
from tests.security.raw_http import connect
from tests.web import serve

WAIT_S = 0.3
"""Seconds that a connection may take here."""


async def slow(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An application that takes longer for its answer than a connection may for its request."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(3 * WAIT_S)
        await send({"type": "websocket.send", "text": "late"})
        await receive()
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(3 * WAIT_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def limited_protocol(headers_timeout_s: float = WAIT_S, max_idle: int = 256) -> type[TimedHTTPProtocol]:
    """Return the protocol with short timeouts."""
    limits = {"headers_timeout_s": headers_timeout_s, "max_idle": max_idle, "min_wait_s": WAIT_S / 3}
    return type("LimitedProtocol", (TimedHTTPProtocol,), limits)


def serve_slow(protocol: type[TimedHTTPProtocol]) -> AbstractAsyncContextManager[str]:
    """Serve the application; keep-alive never ends by itself."""
    return serve(slow, http=protocol, timeout_keep_alive=600)


@pytest_asyncio.fixture
async def address() -> AsyncIterator[str]:
    """The address of a server of the application."""
    async with serve_slow(limited_protocol()) as address:
        yield address


@pytest.mark.parametrize(
    "request_start", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "half a head"]
)
async def test_connection_without_request_is_closed(address, request_start):
    async with connect(address) as client:
        await client.send(request_start)
        assert await client.ended() == b""


async def test_endless_headers_are_closed(address):
    async with connect(address) as client:
        ending = asyncio.create_task(client.ended())
        await client.send(b"GET / HTTP/1.1\r\n")
        while not ending.done():
            await client.send(b"a: b\r\n")
            await asyncio.sleep(WAIT_S / 10)
        assert await ending == b""


async def test_endless_second_request_is_closed(address):
    async with connect(address) as client:
        await client.ask("GET", "/")
        assert (await client.answer()).body == b"ok"
        await client.send(b"GET / HTTP/1.1\r\nHost: 127")
        assert await client.ended() == b""


async def test_slow_answer_and_open_socket_are_left_alone(address):
    async with connect(address) as client:
        await client.ask("GET", "/slow")
        assert (await client.answer()).body == b"ok"
    async with websockets.connect(f"ws://{address}/", proxy=None) as opened:
        assert await opened.recv() == "late"


async def test_oldest_idle_connection_makes_room():
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(
            serve_slow(limited_protocol(headers_timeout_s=600, max_idle=3))
        )
        clients = []
        for _ in range(5):
            clients.append(await stack.enter_async_context(connect(address)))
            await clients[-1].ask("GET", "/")
            assert (await clients[-1].answer()).body == b"ok"
        for client in clients[:2]:
            assert await client.ended() == b""
        for client in clients[2:]:
            await client.ask("GET", "/")
            assert (await client.answer()).body == b"ok"


async def test_connection_that_is_answered_is_not_idle():
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(serve_slow(limited_protocol(max_idle=1)))
        clients = [await stack.enter_async_context(connect(address)) for _ in range(1)]
        await clients[0].ask("GET", "/slow")
        for _ in range(3):
            clients.append(await stack.enter_async_context(connect(address)))
            await clients[-1].ask("GET", "/")
            assert (await clients[-1].answer()).body == b"ok"
        assert (await clients[0].answer()).body == b"ok"


def test_web_process_closes_the_oldest_idle_connection(tmp_path):
    with serving(tmp_path) as address, ExitStack() as stack:
        host, _, port = address.partition(":")
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            for _ in range(idle_connections.MAX_IDLE + 1)
        ]
        assert opened[0].recv(1) == b""
        opened[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert opened[-1].recv(12) == b"HTTP/1.1 200"
