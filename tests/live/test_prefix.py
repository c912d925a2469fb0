"""Sockets behind a proxy that serves DevUI under a path."""

from __future__ import annotations

import os
import sys

from tests import forked_processes
from tests.live.conftest import ROOT

SHAKE_HANDS = """
import asyncio, sys
import devui
devui.setup()
import devui.asgi
from asgiref.testing import ApplicationCommunicator

async def shake(path):
    scope = {"type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"after=x",
             "headers": [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")], "subprotocols": []}
    socket = ApplicationCommunicator(devui.asgi.application, scope)
    await socket.send_input({"type": "websocket.connect"})
    print((await socket.receive_output(timeout=60))["type"])

for path in sys.argv[1:]:
    asyncio.run(shake(path))
"""


def test_sockets_answer_with_and_without_the_prefix_of_a_proxy(tmp_path):
    environment = {
        **os.environ,
        "DEVUI_URL_PREFIX": "/tools/devui",
        "DATABASE_URL": f"sqlite:///{tmp_path}/s.sqlite3",
    }
    paths = ["/tools/devui/ws/sessions/1/", "/ws/sessions/1/"]
    result = forked_processes.run(
        [sys.executable, "-c", SHAKE_HANDS, *paths],
        cwd=ROOT,
        env=environment,
    )
    assert result.stdout.split() == ["websocket.accept", "websocket.accept"], result.stderr
