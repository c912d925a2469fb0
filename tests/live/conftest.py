"""A store that several threads and processes share, and pages that listen to a session."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter

from sessions_app.live.consumers import websocket_urlpatterns
from sessions_app.runs import runtime_client
from tests import forked_processes
from tests.live.streaming_runtime import StreamingRuntime
from tests.live.windows import open_page  # noqa: F401 - a fixture
from tests.patience import PATIENCE_S
from tests.store import finish_threads, store_url
from tests.timeline.story import Story

Message = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store emptied after the test: sockets read in other threads, so nothing can be rolled back."""
    yield
    runtime_client.register(None)
    finish_threads()


@pytest.fixture
def runtime() -> StreamingRuntime:
    """A runtime, registered for every app, whose stream the test writes."""
    runtime = StreamingRuntime()
    runtime_client.register(runtime)
    return runtime


@pytest.fixture
def story(store: None) -> Story:
    """An empty session."""
    return Story()


class Page:
    """A browser's side of a socket: keeps what came."""

    def __init__(self, socket: ApplicationCommunicator) -> None:
        self.socket = socket
        self.messages: list[Message] = []

    async def next(self) -> Message:
        """Return the next message."""
        frame = await self.socket.receive_output(timeout=PATIENCE_S)
        assert frame["type"] == "websocket.send", frame
        message: Message = json.loads(frame["text"])
        self.messages.append(message)
        return message

    async def closed(self) -> int:
        """Return the code the server closed with; it must be the next thing it does."""
        frame = await self.socket.receive_output(timeout=PATIENCE_S)
        assert frame["type"] == "websocket.close", frame
        code: int = frame["code"]
        return code

    async def say(self, **frame: Any) -> None:
        """Send something to the server."""
        await self.socket.send_input({"type": "websocket.receive", **frame})

    async def until(self, is_met: Callable[[Message], Any]) -> Message:
        """Read on until a message meets a condition."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = await self.next()
            if is_met(message):
                return message
        raise AssertionError(f"nothing met the condition among {self.messages}")

    async def until_event(self, seq: int) -> Message:
        """Read on until the event `seq` is on the page."""
        return await self.until(lambda message: message["type"] == "events" and message["cursor"] >= seq)

    def of(self, kind: str) -> list[Message]:
        """Return the messages of a type that came so far."""
        return [message for message in self.messages if message["type"] == kind]

    def seqs(self) -> list[int]:
        """Return the seqs of all events that came, in the order they came."""
        return [seq for message in self.of("events") for seq in seqs_in(message.get("html", ""))]


def seqs_in(html: str) -> list[int]:
    """Return the seqs of the events in a piece of HTML, sorted: an answer stands beside its call."""
    return sorted(int(seq) for seq in re.findall(r'data-seq="(\d+)"', html))


@asynccontextmanager
async def watching(pk: int, after: int | str | None = 0, query: str = "") -> AsyncIterator[Page]:
    """Open a session's socket through its route."""
    cursor = "" if after is None else f"after={after}"
    scope = {
        "type": "websocket",
        "path": f"/ws/sessions/{pk}/",
        "query_string": f"{cursor}{query}".encode(),
        "headers": [],
        "subprotocols": [],
    }
    socket = ApplicationCommunicator(URLRouter(websocket_urlpatterns), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=PATIENCE_S))["type"] == "websocket.accept"
    try:
        yield Page(socket)
    finally:
        await socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await socket.wait(timeout=PATIENCE_S)


WRITER = """
import sys, time
import devui
devui.setup(sys.argv[1], migrate=False)
from sessions_app.store import events as wire
from sessions_app.store.sessions import writes
key = writes.SessionKey("", "weather", "ann", sys.argv[2])
for number in range(int(sys.argv[3])):
    body = {"id": f"far{number}", "invocationId": "far", "author": "agent", "timestamp": time.time(),
            "content": {"role": "model", "parts": [{"text": f"from afar {number}"}]}}
    writes.append_event(key, wire.build_record(body))
    time.sleep(float(sys.argv[4]))
"""


@asynccontextmanager
async def foreign_writer(
    session_id: str, events: int, pause: float = 0.0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Let another process append events to a session."""
    with forked_processes.starts():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, store_url(), session_id, str(events), str(pause), cwd=ROOT
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
