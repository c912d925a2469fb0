"""Access control of a runtime: only the web process that started it may call it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Any

from devui.runtime.config import TOKEN_HEADER

Scope = dict[str, Any]
AsgiApp = Callable[[Scope, Any, Any], Awaitable[None]]

REFUSAL = {
    "detail": "This process accepts requests only from the DevUI server that started it.",
    "code": "wrong_token",
    "hint": "Send the request to that server.",
}


class TokenGuard:
    """ASGI middleware that refuses every request without the token.

    The web process has authenticated the caller already. ADK trusts only loopback peers with its development paths and
    sees no peer on a unix socket; therefore the client is set to the loopback address.
    """

    def __init__(self, app: AsgiApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Forward requests with the token; refuse all others."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif self._has_token(scope):
            await self._app({**scope, "client": ("127.0.0.1", 0)}, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": REFUSAL["detail"]})
        else:
            await _refuse(send)

    def _has_token(self, scope: Scope) -> bool:
        name = TOKEN_HEADER.lower().encode()
        tokens = [value for header, value in scope["headers"] if header.lower() == name]
        return len(tokens) == 1 and compare_digest(tokens[0], self._token)


async def _refuse(send: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(REFUSAL).encode()})
