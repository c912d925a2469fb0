"""Sockets require the login, and are closed when it ends."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator

import devui.web.socket_routes  # noqa: F401 - else the first socket imports it, which takes seconds on a busy machine
from devui.asgi import application
from devui.web.login import authentication, credentials_file
from devui.web.login.guard import LoginSockets
from tests.login.echo_socket import CONNECT, answer_to, echo, open_socket

pytestmark = pytest.mark.django_db  # what Channels denies looks at the connections that its thread has open


def opening(
    headers: list[tuple[bytes, bytes]], app: Any = None, path: str = "/run_live"
) -> ApplicationCommunicator:
    return open_socket(headers, app or LoginSockets(echo), path)


def cookie(login: credentials_file.Credentials) -> list[tuple[bytes, bytes]]:
    return [(b"cookie", f"other=1; {login.cookie}={authentication.new_cookie(login)}".encode())]


async def test_without_a_login_sockets_are_open(data):
    assert (await answer_to(opening([]), CONNECT))["type"] == "websocket.accept"


async def test_socket_opens_with_cookie_or_token(login):
    assert (await answer_to(opening(cookie(login)), CONNECT))["type"] == "websocket.accept"
    token = f"Bearer {credentials_file.replace_token()}".encode()
    assert (await answer_to(opening([(b"authorization", token)]), CONNECT))["type"] == "websocket.accept"


@pytest.mark.parametrize(
    "headers",
    [[], [(b"cookie", b"devui-login-=x")], [(b"cookie", b"\xff")], [(b"authorization", b"Bearer \xff")]],
    ids=["nothing", "made up", "bytes", "bytes as token"],
)
@pytest.mark.parametrize("path", ["/ws/sessions/1/", "/ws/evals/runs/r1/", "/run_live"])
async def test_sockets_without_login_are_denied(login, headers, path):
    assert (await answer_to(opening(headers, application, path), CONNECT))["type"] != "websocket.accept"


async def test_network_server_without_login_denies_sockets(data, settings):
    settings.DEVUI_LOGIN_REQUIRED = True
    assert (await answer_to(opening([]), CONNECT))["type"] != "websocket.accept"


@pytest.mark.parametrize("end", ["password", "logout", "unreadable"])
async def test_open_socket_is_closed_when_its_login_ends(login, end):
    headers = cookie(login)
    socket = opening(headers)
    await answer_to(socket, CONNECT)
    assert (await answer_to(socket, {"type": "websocket.receive", "text": "hi"}))["text"] == "hi"
    assert (await socket.receive_output(5))["text"] == "again"
    if end == "password":
        credentials_file.set_password("another long password")
    elif end == "logout":
        value = headers[0][1].decode().partition(f"{login.cookie}=")[2]
        credentials_file.end_login(
            authentication.login_id(login, {login.cookie: value}), authentication.AGE_S
        )
    else:
        credentials_file.login_file().write_text("")
    closed = await answer_to(socket, {"type": "websocket.receive", "text": "still there?"})
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    await socket.wait(5)


async def test_sending_socket_is_closed_at_its_next_message(login):
    async def teller(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        credentials_file.set_password("another long password")
        for word in ("secret", "secret too"):
            await send({"type": "websocket.send", "text": word})

    socket = opening(cookie(login), LoginSockets(teller))
    await answer_to(socket, CONNECT)
    assert (await socket.receive_output(5))["type"] == "websocket.close"
    await socket.wait(5)
    assert await socket.receive_nothing()
