"""Live sockets of ADK's `/run_live`: messages to an agent, its answers, how a socket closes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from sessions_app.store.database import units_of_work
from sessions_app.store.models import Run
from tests.patience import PATIENCE_S

LIVE_AGENTS = Path(__file__).parent / "live_agents"


def text_message(text: str) -> str:
    return json.dumps({"content": {"role": "user", "parts": [{"text": text}]}})


async def next_agent_text(socket: ClientConnection) -> str:
    """Return the next text of the agent."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            event = json.loads(await socket.recv())
            if event.get("author") == "parrot" and event.get("content"):
                return event["content"]["parts"][0]["text"]


async def drain(socket: ClientConnection) -> None:
    while True:
        await socket.recv()


async def closing_of(socket: ClientConnection) -> tuple[int, str]:
    """Return the code and reason with which the server closes a socket."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ConnectionClosed) as end:
            await drain(socket)
    assert end.value.rcvd is not None
    return end.value.rcvd.code, end.value.rcvd.reason


async def ended_run() -> Run:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            run = await units_of_work.read(Run.objects.first)
            if run is not None and run.status not in Run.ACTIVE:
                return run
            await asyncio.sleep(0.05)
