"""ADK's socket `/run_live`: relays a live run between the client and ADK's own server in the app's runtime.

Messages, close codes and reasons are that server's (`google/adk/cli/api_server.py`). If there is no such app or its
runtime died, DevUI closes the socket with a reason.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from sessions_app.api import quota_check
from sessions_app.quotas.quota_limits import QuotaUsedUp
from sessions_app.runs.runtime_client import TRY_AGAIN_LATER, RuntimeSocket, close_reason, provider
from sessions_app.store.errors import BadInput, DevUIError, NotFound, SessionMissing

PROTOCOL_ERROR = 1002
"""Close code of ADK's server for a missing session."""

POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
CLOSE_CODES = {NotFound: POLICY_VIOLATION, QuotaUsedUp: TRY_AGAIN_LATER}
"""Close codes of errors other than the runtime's."""

NO_STATUS = 1005
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def run_live(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Connect a client with an app's runtime until one of them closes."""
    await receive()
    query = scope.get("query_string", b"").decode("latin-1")
    app_name = parse_qs(query).get("app_name", [os.environ.get("ADK_DEFAULT_APP_NAME", "")])[0]
    if not app_name:
        await _close_socket(send, POLICY_VIOLATION, "app_name is required in the query.")
        return
    await relay_socket(_open_live(app_name, query, scope.get("devui_person", "")), receive, send)


@asynccontextmanager
async def _open_live(app_name: str, query: str, person: str) -> AsyncIterator[RuntimeSocket]:
    sender = await quota_check.require_quota_left(person, app_name)
    client = await provider().client(app_name)
    async with client.open_socket(f"/run_live?{query}", sender.headers()) as upstream:
        yield upstream


async def relay_socket(
    opening: AbstractAsyncContextManager[RuntimeSocket], receive: Receive, send: Send
) -> None:
    """Open a socket to a runtime, accept the client's, and relay until one of them closes.

    An error closes the client's socket with a reason.
    """
    try:
        async with opening as upstream:
            await send({"type": "websocket.accept"})
            await _relay_messages(upstream, receive, send)
    except BadInput as error:
        await _close_socket(send, POLICY_VIOLATION, error.message)
    except SessionMissing:
        await send({"type": "websocket.accept"})
        await _close_socket(send, PROTOCOL_ERROR, "Session not found")
    except DevUIError as error:
        await send({"type": "websocket.accept"})
        code = CLOSE_CODES.get(type(error), INTERNAL_ERROR)
        await _close_socket(send, code, error.message)


async def _relay_messages(upstream: RuntimeSocket, receive: Receive, send: Send) -> None:
    """Relay messages in both directions until either side closes."""
    listening = asyncio.ensure_future(_relay_to_runtime(upstream, receive))
    telling = asyncio.ensure_future(_relay_to_client(upstream, send))
    try:
        await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.cancel()
        telling.cancel()
        await asyncio.gather(listening, telling, return_exceptions=True)


async def _relay_to_runtime(upstream: RuntimeSocket, receive: Receive) -> None:
    """Relay the client's messages until the client disconnects."""
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        await upstream.send(message["bytes"] if text is None else text)


async def _relay_to_client(upstream: RuntimeSocket, send: Send) -> None:
    """Relay the runtime's messages and its close code."""
    try:
        async for message in upstream.messages():
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
    except DevUIError as error:
        await _close_socket(send, INTERNAL_ERROR, error.message)
        return
    code, reason = upstream.closed or (INTERNAL_ERROR, "")
    await _close_socket(send, 1000 if code == NO_STATUS else code, reason)


async def _close_socket(send: Send, code: int, reason: str) -> None:
    await send({"type": "websocket.close", "code": code, "reason": close_reason(reason)})
