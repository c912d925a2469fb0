"""Guard of sockets: opens them for whoever may use them, and closes them when that ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from channels.security.websocket import WebsocketDenier

from devui.web.origins import AsgiApp, AsgiScope

RECHECK_S = 2.0
"""Seconds between checks whether the login of an open socket has ended."""

POLICY_VIOLATION = 1008
LOGIN_ENDED = "The login has ended."


class GuardedSockets:
    """ASGI middleware for sockets. Subclasses tell who may use them."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass a socket on while its sender may use it, or deny the handshake (403)."""
        if not await self.may_open(scope):
            await WebsocketDenier()(scope, receive, send)
            return
        connection = _Connection(self, scope, send)
        watching = asyncio.create_task(connection.watch(), name="devui-login-of-socket")
        try:
            await self.app(scope, receive, connection.send)
        finally:
            watching.cancel()

    async def may_open(self, scope: AsgiScope) -> bool:
        """Tell whether the sender of a handshake may open the socket."""
        return await self.may_stay(scope)

    async def may_stay(self, scope: AsgiScope) -> bool:
        """Tell whether a socket may stay open."""
        raise NotImplementedError


class _Connection:
    """An open socket."""

    def __init__(self, guard: GuardedSockets, scope: AsgiScope, send: Any) -> None:
        self._guard, self._scope, self._send = guard, scope, send
        self._is_closed = False

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message to the client; once the socket is closed, drop it."""
        if not self._is_closed:
            self._is_closed = message["type"] == "websocket.close"
            await self._send(message)

    async def watch(self) -> None:
        """Close the socket when it may not stay open."""
        while True:
            await asyncio.sleep(RECHECK_S)
            if not await self._guard.may_stay(self._scope):
                break
        with suppress(OSError):  # the client has disconnected
            await self._close_socket()

    async def _close_socket(self) -> None:
        await self.send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": LOGIN_ENDED})
