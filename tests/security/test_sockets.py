"""Handshakes of sockets are refused for pages of other origins."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

from devui.asgi import application
from devui.web.origins import SameOriginSockets

pytestmark = pytest.mark.django_db  # what Channels denies looks at the connections that its thread has open

OWN = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://127.0.0.1:8000")]


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A socket that opens."""
    await receive()
    await send({"type": "websocket.accept"})


async def opens(headers: list[tuple[bytes, bytes]], app: Any = None, **scope: Any) -> bool:
    """Tell whether a handshake with these headers is accepted."""
    parameters = {
        "type": "websocket",
        "scheme": "ws",
        "path": "/ws/sessions/1/",
        "query_string": b"",
        **scope,
    }
    communicator = ApplicationCommunicator(app or SameOriginSockets(echo), {**parameters, "headers": headers})
    await communicator.send_input({"type": "websocket.connect"})
    answer = await communicator.receive_output(5)
    return bool(answer["type"] == "websocket.accept")


async def test_our_own_page_opens_a_socket():
    assert await opens(OWN)
    assert await opens([(b"host", b"localhost"), (b"origin", b"https://localhost")], scheme="wss")


@pytest.mark.parametrize(
    "origin",
    [
        b"http://evil.example",
        b"http://127.0.0.1:3000",
        b"https://127.0.0.1:8000",
        b"http://localhost:8000",
        b"null",
        b"",
        b"\xff",
    ],
)
async def test_a_page_of_another_origin_opens_none(origin):
    assert not await opens([(b"host", b"127.0.0.1:8000"), (b"origin", origin)])


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"127.0.0.1:8000")],
        [(b"origin", b"http://127.0.0.1:8000")],
        [(b"host", b"evil.example"), (b"origin", b"http://evil.example")],
        [*OWN, (b"origin", b"http://evil.example")],
        [(b"host", b"evil.example"), *OWN],
    ],
    ids=["no origin", "no host", "rebound host", "two origins", "two hosts"],
)
async def test_handshake_without_origin_is_denied(headers):
    assert not await opens(headers)


async def test_a_program_opens_the_live_socket_without_an_origin_and_no_other():
    program = [(b"host", b"127.0.0.1:8000")]
    guarded = SameOriginSockets(echo, for_programs={"/run_live"})
    assert await opens(program, guarded, path="/run_live")
    assert not await opens(program, guarded, path="/ws/sessions/1/")
    assert not await opens([(b"host", b"evil.example")], guarded, path="/run_live")
    assert not await opens([*program, (b"origin", b"http://evil.example")], guarded, path="/run_live")


async def test_an_allowed_origin_opens_a_socket(settings):
    settings.DEVUI_ALLOW_ORIGINS = ["https://ui.example"]
    assert await opens([(b"host", b"127.0.0.1:8000"), (b"origin", b"https://ui.example")])


@pytest.mark.parametrize("path", ["/ws/sessions/1/", "/ws/evals/runs/r1/", "/run_live"])
async def test_the_servers_sockets_are_guarded(path):
    foreign = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://evil.example")]
    assert not await opens(foreign, application, path=path, raw_path=path.encode())


@pytest.mark.parametrize("path", ["/ws/nothing/", "/", "/ws/sessions/x/"])
async def test_a_socket_that_is_not_there_is_denied(path):
    assert not await opens(OWN, application, path=path, raw_path=path.encode())
