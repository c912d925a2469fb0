"""Clients of the web: an ASGI application called directly, or behind a real server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from tests.patience import PATIENCE_S


def over(app: Any, **headers: str) -> httpx.AsyncClient:
    """Return a client of an ASGI application; what the application raises is answered, as a server would."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE_S, headers=headers
    )


@asynccontextmanager
async def serve(app: Any, **config: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port and yield its address. `config` is uvicorn's."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # so that who connects before the server is up waits
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", **config))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
