"""Routes of sockets."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.testing import ApplicationCommunicator

from devui.web.socket_routes import router
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.django_db


async def test_sockets_of_unknown_paths_are_refused_at_once():
    paths = [f"/nonsense/{number}/" for number in range(3)]
    sockets = [ApplicationCommunicator(router, {"type": "websocket", "path": path}) for path in paths]
    for socket in sockets:
        await socket.send_input({"type": "websocket.connect"})
    responses = await asyncio.gather(*(socket.receive_output(timeout=PATIENCE_S) for socket in sockets))
    assert [response["type"] for response in responses] == ["websocket.close"] * 3
