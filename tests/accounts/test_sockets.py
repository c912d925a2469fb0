"""Sockets need a user with the role for them, and are closed when the login ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator

from devui.accounts import users
from devui.accounts.guard import SocketGuard
from devui.accounts.models import AuditEntry
from devui.asgi import application
from devui.web import socket_routes
from devui.web.login import sockets
from sessions_app.roles import RUN, Role
from sessions_app.routes import declare_rules, declared_rules
from tests.accounts.conftest import PASSWORD, cookie_of
from tests.login.echo_socket import CONNECT, answer_to, echo, open_socket

pytestmark = pytest.mark.usefixtures("people")


def echo_at(path: str) -> Any:
    """Return a socket that echoes, behind the guard of the route that has this path."""
    route = next(route for route in socket_routes.routes if route.pattern.match(path.lstrip("/")))
    return SocketGuard(declare_rules(partial(echo), declared_rules(route.callback)))


async def opening(name: str, path: str, app: Any = None, query: str = "") -> ApplicationCommunicator:
    cookies = await sync_to_async(cookie_of)(name) if name else {}
    sent = [(b"cookie", f"{key}={value}".encode()) for key, value in cookies.items()]
    return open_socket(sent, app or echo_at(path), path, query)


@pytest.mark.parametrize(
    ("name", "path", "opens"),
    [
        ("", "/ws/sessions/1/", False),
        ("reader", "/ws/sessions/1/", True),
        ("reader", "/ws/evals/runs/r1/", True),
        ("", "/run_live", False),
        ("reader", "/run_live", False),
        ("runner", "/run_live", True),
        ("admin", "/run_live", True),
    ],
)
async def test_socket_opens_for_its_role(name, path, opens):
    socket = await opening(name, path)
    assert ((await answer_to(socket, CONNECT))["type"] == "websocket.accept") is opens
    await socket.send_input({"type": "websocket.disconnect"})


@pytest.mark.parametrize(
    ("query", "opens"),
    [
        ("app_name=weather", True),
        ("app_name=writer", False),
        ("app_name=writer&app_name=weather", False),
        ("app_name=weather&app_name=writer", False),
        ("", False),
    ],
)
async def test_live_socket_needs_the_role_in_every_app_of_its_query(query, opens):
    await sync_to_async(users.create_user)("cleo", Role.RUNNER, PASSWORD, ["weather"])
    socket = await opening("cleo", "/run_live", query=query)
    assert ((await answer_to(socket, CONNECT))["type"] == "websocket.accept") is opens
    await socket.send_input({"type": "websocket.disconnect"})


@pytest.mark.parametrize(("name", "path"), [("", "/run_live"), ("", "/ws/sessions/1/"), ("admin", "/other")])
async def test_application_guards_its_sockets(name, path):
    answer = await answer_to(await opening(name, path, application), CONNECT)
    assert answer["type"] != "websocket.accept"


async def test_open_socket_is_closed_when_its_user_is_disabled(monkeypatch):
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)
    socket = await opening("runner", "/run_live")
    assert (await answer_to(socket, CONNECT))["type"] == "websocket.accept"
    await sync_to_async(lambda: users.set_active(users.find_user("runner"), is_active=False))()
    closed = await socket.receive_output(5)
    assert (closed["type"], closed["code"]) == ("websocket.close", 1008)
    await socket.send_input({"type": "websocket.disconnect"})


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"type": "websocket.accept"}, (101, "done")),
        ({"type": "websocket.close", "code": 1008}, (400, "failed")),
    ],
)
async def test_live_socket_is_recorded_when_it_is_answered(answer, outcome):
    entries = sync_to_async(lambda: list(AuditEntry.objects.values_list("status", "outcome")))
    before: list[object] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        before.extend(await entries())
        await send(answer)

    socket = await opening("runner", "/run_live", SocketGuard(declare_rules(app, {"GET": RUN})))
    assert (await answer_to(socket, CONNECT))["type"] == answer["type"]
    await socket.wait()
    assert (before, await entries()) == ([], [outcome])


async def test_refused_live_socket_is_recorded():
    socket = await opening("reader", "/run_live")
    await answer_to(socket, CONNECT)
    assert await sync_to_async(lambda: AuditEntry.objects.get().outcome)() == "refused"
