"""Sockets require the login, and are closed when it ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User

import devui.web.socket_routes  # noqa: F401 - else the first socket imports it, which takes seconds on a busy machine
from devui.accounts.guard import SocketGuard
from devui.accounts.models import Login
from devui.asgi import application
from devui.web.login import sockets
from sessions_app.roles import RUN
from sessions_app.routes import declare_rules
from tests.login.conftest import PASSWORD, new_cookie, replace_token, set_password
from tests.login.echo_socket import CONNECT, answer_to, echo, open_socket


def opening(
    headers: list[tuple[bytes, bytes]], app: Any = None, path: str = "/run_live"
) -> ApplicationCommunicator:
    return open_socket(headers, app or guarded(echo), path)


def guarded(app: Any) -> SocketGuard:
    return SocketGuard(declare_rules(partial(app), {"GET": RUN}))


async def cookie() -> list[tuple[bytes, bytes]]:
    return [(b"cookie", f"other=1; {await sync_to_async(new_cookie)()}".encode())]


async def test_without_a_login_sockets_are_open(data):
    assert (await answer_to(opening([]), CONNECT))["type"] == "websocket.accept"


async def test_socket_opens_with_cookie_or_token(login):
    assert (await answer_to(opening(await cookie()), CONNECT))["type"] == "websocket.accept"
    token = f"Bearer {await replace_token()}".encode()
    assert (await answer_to(opening([(b"authorization", token)]), CONNECT))["type"] == "websocket.accept"


@pytest.mark.parametrize(
    "headers",
    [[], [(b"cookie", b"devui-user-=x")], [(b"cookie", b"\xff")], [(b"authorization", b"Bearer \xff")]],
    ids=["nothing", "made up", "bytes", "bytes as token"],
)
@pytest.mark.parametrize("path", ["/ws/sessions/1/", "/ws/evals/runs/r1/", "/run_live"])
async def test_sockets_without_login_are_denied(login, headers, path):
    assert (await answer_to(opening(headers, application, path), CONNECT))["type"] != "websocket.accept"


async def test_network_server_without_login_denies_sockets(data, settings):
    settings.DEVUI_LOGIN_REQUIRED = True
    assert (await answer_to(opening([]), CONNECT))["type"] != "websocket.accept"


@pytest.mark.parametrize("end", ["password", "logout", "removed"])
async def test_open_socket_is_closed_when_its_login_ends(login, end, monkeypatch):
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)
    socket = opening(await cookie())
    await answer_to(socket, CONNECT)
    assert (await answer_to(socket, {"type": "websocket.receive", "text": "hi"}))["text"] == "hi"
    assert (await socket.receive_output(5))["text"] == "again"
    if end == "password":
        await set_password("another long password")
    else:
        await sync_to_async((Login if end == "logout" else User).objects.all().delete)()
    if end == "removed":
        await set_password("another long password")
    closed = await socket.receive_output(5)
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    await socket.send_input({"type": "websocket.disconnect"})
    await socket.wait(5)


async def test_socket_of_an_open_server_is_closed_when_a_login_is_set_up(data, monkeypatch):
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)
    socket = opening([])
    await answer_to(socket, CONNECT)
    await set_password(PASSWORD)
    assert (await socket.receive_output(5))["type"] == "websocket.close"
    await socket.send_input({"type": "websocket.disconnect"})
    await socket.wait(5)


async def test_nothing_is_sent_on_a_closed_socket(login, monkeypatch):
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)

    async def teller(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        for word in ("secret", "secret too"):
            await send({"type": "websocket.send", "text": word})

    socket = opening(await cookie(), guarded(teller))
    await answer_to(socket, CONNECT)
    await set_password("another long password")
    assert (await socket.receive_output(5))["type"] == "websocket.close"
    await socket.send_input({"type": "websocket.receive", "text": "go on"})
    await socket.wait(5)
    assert await socket.receive_nothing()
